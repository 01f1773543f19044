// Rotary positions, the cache of keys and values, and attention with its backward pass.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "base/error.h"

namespace switchyard {
namespace {

constexpr double kSinCosNanoseconds = 20;  // per pair, scalar

// What one row sees in attention_backward: `count` rows of the step from `first` on.
struct VisibleRows {
  int64_t first;
  int64_t count;
};

VisibleRows visible_rows(const AttentionBackwardArgs& a, int64_t row) {
  const int64_t position = a.positions[row];
  const int64_t count = a.window == 0 ? position + 1 : std::min(position + 1, a.window);
  return {row - count + 1, count};
}

// products[h, s] = rows[h] . keys[s] for `group` heads and the visible rows of one key/value head.
DotBlock head_products(const AttentionBackwardArgs& a, const float* heads, const float* keys, int64_t dim,
                       VisibleRows seen, float* products) {
  return {.x = heads,
          .x_stride = dim,
          .tokens = a.heads / a.kv_heads,
          .weight = keys,
          .weight_dtype = DType::kF32,
          .weight_stride = a.kv_heads * dim,
          .weight_rows = seen.count,
          .k = dim,
          .bias = nullptr,
          .out = products,
          .out_stride = seen.count};
}

// d_heads[h] += sum_s factors[h, s] * keys[s]
OuterBlock to_heads(const AttentionBackwardArgs& a, const float* factors, const float* keys, VisibleRows seen,
                    float* d_heads) {
  return {.a = factors,
          .a_stride_i = seen.count,
          .a_stride_j = 1,
          .rows = a.heads / a.kv_heads,
          .terms = seen.count,
          .b = keys,
          .b_dtype = DType::kF32,
          .b_stride = a.kv_heads * a.head_dim,
          .cols = a.head_dim,
          .out = d_heads,
          .out_stride = a.head_dim};
}

// d_keys[s] += sum_h factors[h, s] * heads[h]
OuterBlock to_keys(const AttentionBackwardArgs& a, const float* factors, const float* heads, int64_t dim,
                   VisibleRows seen, float* d_keys) {
  return {.a = factors,
          .a_stride_i = 1,
          .a_stride_j = seen.count,
          .rows = seen.count,
          .terms = a.heads / a.kv_heads,
          .b = heads,
          .b_dtype = DType::kF32,
          .b_stride = dim,
          .cols = dim,
          .out = d_keys,
          .out_stride = a.kv_heads * dim};
}

float inner_product(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

// One row and one key/value head; the formulas are at ReferenceBackend::attention_backward.
void row_gradients(const Kernels& kernels, const AttentionBackwardArgs& a, int64_t row, int64_t g) {
  const int64_t A = a.head_dim;
  const int64_t B = a.value_dim;
  const int64_t group = a.heads / a.kv_heads;
  const VisibleRows seen = visible_rows(a, row);
  const int64_t first_head = row * a.heads + g * group;
  const int64_t heads = first_head * A;
  const int64_t keys = (seen.first * a.kv_heads + g) * A;
  const int64_t outs = first_head * B;
  const int64_t values = (seen.first * a.kv_heads + g) * B;
  float* weights = thread_scratch(2 * group * seen.count);
  float* slopes = weights + group * seen.count;
  kernels.dot(head_products(a, a.q + heads, a.k + keys, A, seen, weights));
  kernels.dot(head_products(a, a.d_out + outs, a.v + values, B, seen, slopes));
  for (int64_t h = 0; h < group; ++h) {
    const float delta = inner_product(a.d_out + outs + h * B, a.out + outs + h * B, B);
    kernels.attention_slopes(weights + h * seen.count, slopes + h * seen.count, seen.count, a.scale,
                             a.log_sum_exp[first_head + h], delta);
  }
  if (a.d_v != nullptr) kernels.outer(to_keys(a, weights, a.d_out + outs, B, seen, a.d_v + values));
  if (a.d_k != nullptr) kernels.outer(to_keys(a, slopes, a.q + heads, A, seen, a.d_k + keys));
  if (a.d_q != nullptr) kernels.outer(to_heads(a, slopes, a.k + keys, seen, a.d_q + heads));
}

// The cosines and sines that the kernels for a row take.
void write_angles(const RopeArgs& a, int64_t row, float* cosines, float* sines) {
  const int64_t half = a.head_dim / 2;
  const int64_t set = a.set_of_row == nullptr ? 0 : a.set_of_row[row];
  for (int64_t i = 0; i < half; ++i) {
    // The angle is rounded to float32, as every trained checkpoint saw it.
    const float angle = static_cast<float>(a.positions[row]) * a.inverse_frequencies[set * half + i];
    const float cosine = std::cos(angle) * a.attention_factor;
    const float sine = std::sin(angle) * a.attention_factor * a.direction;
    if (a.interleaved) {
      cosines[2 * i] = cosines[2 * i + 1] = cosine;
      sines[2 * i] = -sine;
      sines[2 * i + 1] = sine;
    } else {
      cosines[i] = cosine;
      sines[i] = sine;
    }
  }
}

}  // namespace

void CpuBackend::rope(const RopeArgs& a) {
  const int64_t half = a.head_dim / 2;
  const int64_t row = a.heads * a.head_dim;
  const double row_nanoseconds = kSinCosNanoseconds * static_cast<double>(half) + streaming(2 * row);
  for_ranges(a.rows, row_nanoseconds, [&](int64_t begin, int64_t end) {
    float* cosines = thread_scratch(2 * a.head_dim);
    float* sines = cosines + a.head_dim;
    const auto rotate = a.interleaved ? kernels_.rotate_interleaved : kernels_.rotate_halves;
    for (int64_t t = begin; t < end; ++t) {
      write_angles(a, t, cosines, sines);
      rotate(a.x + t * row, cosines, sines, a.heads, a.head_dim, a.out + t * row);
    }
  });
}

void CpuBackend::kv_write(const KvWriteArgs& a) {
  SY_CHECK(a.kv.dtype == DType::kF32, "a cache of {}", name(a.kv.dtype));
  const KvLayer& kv = a.kv;
  const int64_t A = kv.head_dim;
  const int64_t B = kv.value_dim;
  for_ranges(a.step.rows, streaming(2 * kv.kv_heads * (A + B)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t position = a.step.positions[t];
      const int64_t block =
          a.step.block_table[a.step.sequences[t] * a.step.max_blocks + position / kv.block_size];
      for (int64_t g = 0; g < kv.kv_heads; ++g) {
        const int64_t to = (block * kv.kv_heads + g) * kv.block_size + position % kv.block_size;
        const int64_t from = t * kv.kv_heads + g;
        std::copy_n(a.keys + from * A, A, static_cast<float*>(kv.keys) + to * A);
        if (kv.values != nullptr)
          std::copy_n(a.values + from * B, B, static_cast<float*>(kv.values) + to * B);
      }
    }
  });
}

const std::vector<AttentionRows>& CpuBackend::attention_tiles(const StepRows& step, int64_t max_rows) {
  attention_tiles_.clear();
  for (int64_t t = 0; t < step.rows; ++t) {
    const bool follows =
        t > 0 && step.sequences[t] == step.sequences[t - 1] && step.positions[t] == step.positions[t - 1] + 1;
    if (follows && attention_tiles_.back().rows < max_rows) {
      ++attention_tiles_.back().rows;
    } else {
      attention_tiles_.push_back({t, 1});
    }
  }
  return attention_tiles_;
}

void CpuBackend::attention(const AttentionArgs& a) {
  SY_CHECK(a.kv.dtype == DType::kF32, "a cache of {}", name(a.kv.dtype));
  if (a.step.rows == 0) return;
  constexpr int64_t kQueriesPerTile = 24;  // enough for fma to hide the reading of keys and values
  const int64_t G = a.kv.kv_heads;
  const int64_t group = a.heads / G;
  const int64_t max_rows = std::max<int64_t>(1, kQueriesPerTile / group);
  const std::vector<AttentionRows>& tiles = attention_tiles(a.step, max_rows);
  const int64_t positions = *std::max_element(a.step.positions, a.step.positions + a.step.rows) + 1;
  const int64_t seen = a.window == 0 ? positions : std::min(positions, a.window);
  const auto tasks = static_cast<int64_t>(tiles.size()) * G;
  for_tasks(tasks, streaming(2 * seen * a.kv.head_dim), [&](int64_t task) {
    const AttentionRows& tile = tiles[static_cast<size_t>(task / G)];
    float* scratch =
        thread_scratch(attention_scratch_floats(tile.rows * group, a.kv.head_dim, a.kv.value_dim));
    kernels_.attention(a, tile.row, tile.rows, task % G, scratch);
  });
}

// A key/value head is one task: its gradients sum over rows, in ascending order.
void CpuBackend::attention_backward(const AttentionBackwardArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    SY_CHECK(a.positions[t] <= t, "gradient through a cached position: row {} has position {}", t,
             a.positions[t]);
  }
  const double head_nanoseconds = streaming(a.rows * a.rows * (a.heads / a.kv_heads) * a.head_dim);
  for_tasks(a.kv_heads, head_nanoseconds, [&](int64_t g) {
    for (int64_t t = 0; t < a.rows; ++t)
      row_gradients(kernels_, a, t, g);
  });
}

}  // namespace switchyard
