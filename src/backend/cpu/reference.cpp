#include "backend/cpu/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/rounded_rows.h"
#include "base/error.h"
#include "tensor/panels.h"

namespace switchyard {
namespace {

double sigmoid(double z) {
  return 1.0 / (1.0 + std::exp(-z));
}

double log_sum_exp(const float* values, int64_t count) {
  double largest = -INFINITY;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<double>(values[i]));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::exp(values[i] - largest);
  return largest + std::log(sum);
}

int64_t counted_rows(const CrossEntropyArgs& a) {
  int64_t counted = 0;
  for (int64_t t = 0; t < a.rows; ++t)
    counted += a.targets[t] >= 0;
  return counted;
}

// Element i of a float array in any weight dtype; `data` may be unaligned.
float element(const void* data, DType dtype, int64_t i) {
  float value = 0;
  convert_to_f32(dtype, static_cast<const std::byte*>(data) + i * size_bytes(dtype), 1, &value);
  return value;
}

// A row as rounded_rows.h says.
std::vector<float> rounded_row(const float* x, int64_t cols) {
  std::vector<float> out(x, x + cols);
  for (int64_t begin = 0; begin < cols; begin += kRoundedGroup) {
    const int64_t end = std::min(begin + kRoundedGroup, cols);
    float largest = 0;
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::abs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    const float inverse = largest < 0x1p-100f ? 0.0f : 127.0f / largest;
    for (int64_t i = begin; i < end; ++i)
      out[static_cast<size_t>(i)] = finite ? std::nearbyint(x[i] * inverse) * (largest / 127.0f) : NAN;
  }
  return out;
}

// Pointers may be null when there is nothing to copy, which memcpy does not allow.
void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

void ReferenceBackend::copy_from_host(void* device, const void* host, int64_t bytes) {
  copy(device, host, bytes);
}

void ReferenceBackend::copy_to_host(void* host, const void* device, int64_t bytes) {
  copy(host, device, bytes);
}

void ReferenceBackend::fill_zero(void* device, int64_t bytes) {
  if (bytes > 0) std::memset(device, 0, static_cast<size_t>(bytes));
}

void ReferenceBackend::embedding(const EmbeddingArgs& a) {
  const int64_t D = a.table.cols;
  for (int64_t t = 0; t < a.tokens; ++t) {
    SY_CHECK(a.ids[t] >= 0 && a.ids[t] < a.table.rows, "token id {} of a table of {}", a.ids[t],
             a.table.rows);
    decode_row(a.table, a.ids[t], 0, D, a.out + t * D);
  }
}

void ReferenceBackend::embedding_backward(const EmbeddingBackwardArgs& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t d = 0; d < a.hidden; ++d)
      a.d_table[a.ids[t] * a.hidden + d] += a.d_out[t * a.hidden + d];
  }
}

void ReferenceBackend::rms_norm(const RmsNormArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    const float* x = a.x + t * a.cols;
    double squares = 0;
    for (int64_t d = 0; d < a.cols; ++d)
      squares += static_cast<double>(x[d]) * x[d];
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(a.cols) + a.eps);
    for (int64_t d = 0; d < a.cols; ++d) {
      a.out[t * a.cols + d] = static_cast<float>(x[d] * inverse * element(a.weight, a.weight_dtype, d));
    }
  }
}

// With r = 1 / sqrt(mean(x^2) + eps):
//   d_x = r * (w * d_out - x * r^2 * mean(w * d_out * x)),  d_w = d_out * x * r.
void ReferenceBackend::rms_norm_backward(const RmsNormBackwardArgs& a) {
  const RmsNormArgs& f = a.forward;
  for (int64_t t = 0; t < f.rows; ++t) {
    const float* x = f.x + t * f.cols;
    const float* d_out = a.d_out + t * f.cols;
    double squares = 0;
    double dot = 0;
    for (int64_t d = 0; d < f.cols; ++d) {
      squares += static_cast<double>(x[d]) * x[d];
      dot += static_cast<double>(d_out[d]) * element(f.weight, f.weight_dtype, d) * x[d];
    }
    const auto cols = static_cast<double>(f.cols);
    const double r = 1.0 / std::sqrt(squares / cols + f.eps);
    for (int64_t d = 0; d < f.cols; ++d) {
      const double w = element(f.weight, f.weight_dtype, d);
      if (a.d_weight != nullptr) a.d_weight[d] += static_cast<float>(d_out[d] * x[d] * r);
      if (a.d_x != nullptr) {
        a.d_x[t * f.cols + d] += static_cast<float>(r * (w * d_out[d] - x[d] * r * r * dot / cols));
      }
    }
  }
}

void ReferenceBackend::add(const AddArgs& a) {
  for (int64_t i = 0; i < a.count; ++i)
    a.out[i] = a.a[i] + a.scale * a.b[i];
}

void ReferenceBackend::swiglu(const SwigluArgs& a) {
  for (int64_t i = 0; i < a.count; ++i)
    a.out[i] = static_cast<float>(a.gate[i] * sigmoid(a.gate[i]) * a.up[i]);
}

void ReferenceBackend::swiglu_backward(const SwigluBackwardArgs& a) {
  for (int64_t i = 0; i < a.forward.count; ++i) {
    const double z = a.forward.gate[i];
    const double s = sigmoid(z);
    if (a.d_gate != nullptr) {
      a.d_gate[i] += static_cast<float>(a.d_out[i] * a.forward.up[i] * s * (1 + z * (1 - s)));
    }
    if (a.d_up != nullptr) a.d_up[i] += static_cast<float>(a.d_out[i] * z * s);
  }
}

void ReferenceBackend::gated_add(const GatedAddArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    const double s = sigmoid(a.gate[t]);
    for (int64_t d = 0; d < a.cols; ++d) {
      const int64_t i = t * a.cols + d;
      a.out[i] = static_cast<float>(a.a[i] + s * a.b[i]);
    }
  }
}

void ReferenceBackend::gated_add_backward(const GatedAddBackwardArgs& a) {
  const GatedAddArgs& f = a.forward;
  for (int64_t t = 0; t < f.rows; ++t) {
    const double s = sigmoid(f.gate[t]);
    double dot = 0;
    for (int64_t d = 0; d < f.cols; ++d) {
      const int64_t i = t * f.cols + d;
      if (a.d_a != nullptr) a.d_a[i] += a.d_out[i];
      if (a.d_b != nullptr) a.d_b[i] += static_cast<float>(s * a.d_out[i]);
      dot += static_cast<double>(a.d_out[i]) * f.b[i];
    }
    if (a.d_gate != nullptr) a.d_gate[t] += static_cast<float>(dot * s * (1 - s));
  }
}

void ReferenceBackend::gather_rows(const GatherRowsArgs& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t d = 0; d < a.cols; ++d)
      a.out[i * a.cols + d] = a.index[i] < 0 ? 0.0f : a.x[a.index[i] * a.cols + d];
  }
}

void ReferenceBackend::gather_rows_backward(const GatherRowsBackwardArgs& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    if (a.index[i] < 0) continue;
    for (int64_t d = 0; d < a.cols; ++d)
      a.d_x[a.index[i] * a.cols + d] += a.d_out[i * a.cols + d];
  }
}

void ReferenceBackend::copy_columns(const CopyColumnsArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t i = 0; i < a.cols; ++i) {
      const float old = a.accumulate ? a.out[t * a.out_stride + i] : 0.0f;
      a.out[t * a.out_stride + i] = old + a.x[t * a.x_stride + i];
    }
  }
}

void ReferenceBackend::linear(const LinearArgs& a) {
  const int64_t N = a.weight.rows;
  const int64_t K = a.weight.cols;
  const bool rounded = activations_ == Activations::kRounded && is_panels(a.weight.format);
  std::vector<std::vector<float>> x;
  for (int64_t t = 0; t < a.rows; ++t) {
    const float* from = a.x + t * K;
    x.push_back(rounded ? rounded_row(from, K) : std::vector<float>(from, from + K));
  }
  std::vector<float> row(static_cast<size_t>(K));
  for (int64_t n = 0; n < N; ++n) {
    decode_row(a.weight, n, 0, K, row.data());
    for (int64_t t = 0; t < a.rows; ++t) {
      double sum = 0;
      if (a.bias != nullptr) sum += element(a.bias, a.bias_dtype, n);
      for (int64_t k = 0; k < K; ++k)
        sum += static_cast<double>(x[static_cast<size_t>(t)][static_cast<size_t>(k)]) *
               row[static_cast<size_t>(k)];
      a.out[t * N + n] = static_cast<float>(sum);
    }
  }
}

void ReferenceBackend::linear_backward_input(const LinearBackwardInputArgs& a) {
  const int64_t N = a.weight.rows;
  const int64_t K = a.weight.cols;
  std::vector<double> sums(a.d_x, a.d_x + a.rows * K);
  std::vector<float> row(static_cast<size_t>(K));
  for (int64_t n = 0; n < N; ++n) {
    decode_row(a.weight, n, 0, K, row.data());
    for (int64_t t = 0; t < a.rows; ++t) {
      for (int64_t k = 0; k < K; ++k)
        sums[static_cast<size_t>(t * K + k)] +=
            static_cast<double>(a.d_out[t * N + n]) * row[static_cast<size_t>(k)];
    }
  }
  std::transform(sums.begin(), sums.end(), a.d_x, [](double sum) { return static_cast<float>(sum); });
}

void ReferenceBackend::linear_backward_weight(const LinearBackwardWeightArgs& a) {
  for (int64_t n = 0; n < a.out_features; ++n) {
    if (a.d_bias != nullptr) {
      double sum = a.d_bias[n];
      for (int64_t t = 0; t < a.rows; ++t)
        sum += a.d_out[t * a.out_features + n];
      a.d_bias[n] = static_cast<float>(sum);
    }
    if (a.d_weight == nullptr) continue;
    for (int64_t k = 0; k < a.in_features; ++k) {
      double sum = a.d_weight[n * a.in_features + k];
      for (int64_t t = 0; t < a.rows; ++t) {
        sum += static_cast<double>(a.d_out[t * a.out_features + n]) * a.x[t * a.in_features + k];
      }
      a.d_weight[n * a.in_features + k] = static_cast<float>(sum);
    }
  }
}

void ReferenceBackend::head_linear(const HeadLinearArgs& a) {
  const int64_t K = a.weight.cols;
  const int64_t in = a.transposed ? a.rows_used : K;
  const int64_t out = a.transposed ? K : a.rows_used;
  std::vector<float> row(static_cast<size_t>(K));
  for (int64_t h = 0; h < a.heads; ++h) {
    std::vector<double> sums(static_cast<size_t>(a.rows * out), 0.0);
    for (int64_t n = 0; n < a.rows_used; ++n) {
      decode_row(a.weight, h * a.head_rows + a.first_row + n, 0, K, row.data());
      for (int64_t t = 0; t < a.rows; ++t) {
        const float* x = a.x + (t * a.heads + h) * in;
        for (int64_t k = 0; k < K; ++k) {
          const double w = row[static_cast<size_t>(k)];
          sums[static_cast<size_t>(t * out + (a.transposed ? k : n))] += w * x[a.transposed ? n : k];
        }
      }
    }
    for (int64_t t = 0; t < a.rows; ++t) {
      for (int64_t i = 0; i < out; ++i)
        a.out[(t * a.heads + h) * out + i] = static_cast<float>(sums[static_cast<size_t>(t * out + i)]);
    }
  }
}

void ReferenceBackend::cross_entropy(const CrossEntropyArgs& a) {
  double total = 0;
  for (int64_t t = 0; t < a.rows; ++t) {
    const double lse = log_sum_exp(a.logits + t * a.vocab, a.vocab);
    a.log_sum_exp[t] = static_cast<float>(lse);
    if (a.targets[t] >= 0) total += lse - a.logits[t * a.vocab + a.targets[t]];
  }
  const int64_t counted = counted_rows(a);
  a.loss[0] = static_cast<float>(counted == 0 ? 0.0 : total / static_cast<double>(counted));
}

// d_logits[t, v] = d_loss / counted * (softmax(logits[t])[v] - [v is the target])
void ReferenceBackend::cross_entropy_backward(const CrossEntropyBackwardArgs& a) {
  const CrossEntropyArgs& f = a.forward;
  const int64_t counted = counted_rows(f);
  for (int64_t t = 0; t < f.rows; ++t) {
    if (f.targets[t] < 0) continue;
    const double scale = a.d_loss[0] / static_cast<double>(counted);
    for (int64_t v = 0; v < f.vocab; ++v) {
      const double p = std::exp(static_cast<double>(f.logits[t * f.vocab + v]) - f.log_sum_exp[t]);
      a.d_logits[t * f.vocab + v] += static_cast<float>(scale * (p - (v == f.targets[t] ? 1.0 : 0.0)));
    }
  }
}

}  // namespace switchyard
