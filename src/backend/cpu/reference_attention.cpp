#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/reference.h"
#include "base/error.h"

namespace switchyard {
namespace {

// Index of the key and of the value of (row's sequence, position, head g) in a layer's cache.
int64_t cache_index(const KvLayer& kv, const StepRows& step, int64_t row, int64_t position, int64_t g) {
  const int32_t* table = step.block_table + step.sequences[row] * step.max_blocks;
  const int64_t block = table[position / kv.block_size];
  return (block * kv.kv_heads + g) * kv.block_size + position % kv.block_size;
}

int64_t first_visible(int64_t position, int64_t window) {
  return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
}

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

void ReferenceBackend::rope(const RopeArgs& a) {
  const int64_t half = a.head_dim / 2;
  for (int64_t t = 0; t < a.rows; ++t) {
    const float* inverse_frequencies =
        a.inverse_frequencies + (a.set_of_row == nullptr ? 0 : a.set_of_row[t]) * half;
    for (int64_t h = 0; h < a.heads; ++h) {
      const float* x = a.x + (t * a.heads + h) * a.head_dim;
      float* out = a.out + (t * a.heads + h) * a.head_dim;
      for (int64_t i = 0; i < half; ++i) {
        // The angle is rounded to float32, as every trained checkpoint saw it.
        const float angle = static_cast<float>(a.positions[t]) * inverse_frequencies[i];
        const double c = std::cos(static_cast<double>(angle)) * a.attention_factor;
        const double s = std::sin(static_cast<double>(angle)) * a.attention_factor * a.direction;
        const int64_t one = a.interleaved ? 2 * i : i;
        const int64_t other = a.interleaved ? 2 * i + 1 : i + half;
        const double first = x[one];
        const double second = x[other];
        out[one] = static_cast<float>(first * c - second * s);
        out[other] = static_cast<float>(second * c + first * s);
      }
    }
  }
}

void ReferenceBackend::kv_write(const KvWriteArgs& a) {
  SY_CHECK(a.kv.dtype == DType::kF32, "a cache of {}", name(a.kv.dtype));
  const int64_t A = a.kv.head_dim;
  const int64_t B = a.kv.value_dim;
  for (int64_t t = 0; t < a.step.rows; ++t) {
    for (int64_t g = 0; g < a.kv.kv_heads; ++g) {
      const int64_t to = cache_index(a.kv, a.step, t, a.step.positions[t], g);
      const int64_t from = t * a.kv.kv_heads + g;
      std::copy_n(a.keys + from * A, A, static_cast<float*>(a.kv.keys) + to * A);
      if (a.kv.values != nullptr) {
        std::copy_n(a.values + from * B, B, static_cast<float*>(a.kv.values) + to * B);
      }
    }
  }
}

void ReferenceBackend::attention(const AttentionArgs& a) {
  SY_CHECK(a.kv.dtype == DType::kF32, "a cache of {}", name(a.kv.dtype));
  const int64_t A = a.kv.head_dim;
  const int64_t B = a.kv.value_dim;
  const auto* keys = static_cast<const float*>(a.kv.keys);
  const auto* values = a.kv.values == nullptr ? keys : static_cast<const float*>(a.kv.values);
  for (int64_t t = 0; t < a.step.rows; ++t) {
    const int64_t position = a.step.positions[t];
    const int64_t first = first_visible(position, a.window);
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t g = h / (a.heads / a.kv.kv_heads);
      const float* q = a.q + (t * a.heads + h) * A;
      std::vector<double> scores;
      double largest = -INFINITY;
      for (int64_t s = first; s <= position; ++s) {
        scores.push_back(a.scale * dot(q, keys + cache_index(a.kv, a.step, t, s, g) * A, A));
        largest = std::max(largest, scores.back());
      }
      double sum = 0;
      std::vector<double> out(static_cast<size_t>(B), 0.0);
      for (int64_t s = first; s <= position; ++s) {
        const double p = std::exp(scores[static_cast<size_t>(s - first)] - largest);
        const float* value = values + cache_index(a.kv, a.step, t, s, g) * a.kv.value_stride();
        for (int64_t i = 0; i < B; ++i)
          out[static_cast<size_t>(i)] += p * value[i];
        sum += p;
      }
      for (int64_t i = 0; i < B; ++i) {
        a.out[(t * a.heads + h) * B + i] = static_cast<float>(out[static_cast<size_t>(i)] / sum);
      }
      if (a.log_sum_exp != nullptr)
        a.log_sum_exp[t * a.heads + h] = static_cast<float>(largest + std::log(sum));
    }
  }
}

// With p = softmax(scale * q k) and delta = d_out . out:  d_v += p d_out,  d_s = p (d_out . v - delta),
// d_q += scale d_s k,  d_k += scale d_s q.  (Dao et al. 2022, appendix B.)
void ReferenceBackend::attention_backward(const AttentionBackwardArgs& a) {
  const int64_t A = a.head_dim;
  const int64_t B = a.value_dim;
  for (int64_t t = 0; t < a.rows; ++t) {
    const int64_t position = a.positions[t];
    SY_CHECK(position <= t, "gradient through a cached position: row {} has position {}", t, position);
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t g = h / (a.heads / a.kv_heads);
      const int64_t row = (t * a.heads + h) * A;
      const int64_t out_row = (t * a.heads + h) * B;
      const double delta = dot(a.d_out + out_row, a.out + out_row, B);
      for (int64_t s = first_visible(position, a.window); s <= position; ++s) {
        const int64_t key_row = ((t - position + s) * a.kv_heads + g) * A;
        const int64_t value_row = ((t - position + s) * a.kv_heads + g) * B;
        const double score = a.scale * dot(a.q + row, a.k + key_row, A);
        const double p = std::exp(score - a.log_sum_exp[t * a.heads + h]);
        const double d_score = a.scale * p * (dot(a.d_out + out_row, a.v + value_row, B) - delta);
        for (int64_t i = 0; i < A; ++i) {
          if (a.d_q != nullptr) a.d_q[row + i] += static_cast<float>(d_score * a.k[key_row + i]);
          if (a.d_k != nullptr) a.d_k[key_row + i] += static_cast<float>(d_score * a.q[row + i]);
        }
        for (int64_t i = 0; i < B && a.d_v != nullptr; ++i)
          a.d_v[value_row + i] += static_cast<float>(p * a.d_out[out_row + i]);
      }
    }
  }
}

}  // namespace switchyard
