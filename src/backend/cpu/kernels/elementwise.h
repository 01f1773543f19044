// Ops on rows and elements, all bound by memory bandwidth.
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

inline void embedding(const EmbeddingArgs& a, int64_t begin, int64_t end) {
  const int64_t D = a.table.cols;
  with_elements(a.table.data, a.table.dtype, [&](const auto* table) {
    for (int64_t t = begin; t < end; ++t) {
      const auto* row = table + a.ids[t] * D;
      for_each_vec(0, D,
                   [&](int64_t d, int64_t n) { store_up_to(load_up_to(row + d, n), a.out + t * D + d, n); });
    }
  });
}

// Four partial sums hide the latency of the additions.
inline float sum_of_squares(const float* x, int64_t count) {
  constexpr int kSums = 4;
  Vec sums[kSums] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  for_each_vec(0, count, [&](int64_t i, int64_t n) {
    const Vec v = load_up_to(x + i, n);
    Vec& partial = sums[i / Vec::kLanes % kSums];
    partial = fma(v, v, partial);
  });
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

inline void rms_norm(const RmsNormArgs& a, int64_t begin, int64_t end) {
  with_elements(a.weight, a.weight_dtype, [&](const auto* weight) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = a.x + t * a.cols;
      float* out = a.out + t * a.cols;
      const float mean = sum_of_squares(x, a.cols) / static_cast<float>(a.cols);
      const Vec scale = Vec::broadcast(1.0f / __builtin_sqrtf(mean + a.eps));
      for_each_vec(0, a.cols, [&](int64_t d, int64_t n) {
        store_up_to(load_up_to(x + d, n) * scale * load_up_to(weight + d, n), out + d, n);
      });
    }
  });
}

inline void add(const AddArgs& a, int64_t begin, int64_t end) {
  const Vec scale = Vec::broadcast(a.scale);
  for_each_vec(begin, end, [&](int64_t i, int64_t n) {
    store_up_to(fma(scale, load_up_to(a.b + i, n), load_up_to(a.a + i, n)), a.out + i, n);
  });
}

inline void swiglu(const SwigluArgs& a, int64_t begin, int64_t end) {
  for_each_vec(begin, end, [&](int64_t i, int64_t n) {
    const Vec gate = load_up_to(a.gate + i, n);
    store_up_to(gate * sigmoid(gate) * load_up_to(a.up + i, n), a.out + i, n);
  });
}

// With s = sigmoid(z):  d_gate = d_out up s (1 + z (1 - s)),  d_up = d_out z s.
inline void swiglu_backward(const SwigluBackwardArgs& a, int64_t begin, int64_t end) {
  const Vec one = Vec::broadcast(1.0f);
  for_each_vec(begin, end, [&](int64_t i, int64_t n) {
    const Vec z = load_up_to(a.forward.gate + i, n);
    const Vec d_out = load_up_to(a.d_out + i, n);
    const Vec s = sigmoid(z);
    if (a.d_gate != nullptr) {
      const Vec slope = s * fma(z, one - s, one);
      const Vec d_silu = d_out * load_up_to(a.forward.up + i, n);
      store_up_to(fma(d_silu, slope, load_up_to(a.d_gate + i, n)), a.d_gate + i, n);
    }
    if (a.d_up != nullptr) store_up_to(fma(d_out, z * s, load_up_to(a.d_up + i, n)), a.d_up + i, n);
  });
}

inline void gated_add(const GatedAddArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const Vec gate = sigmoid(Vec::broadcast(a.gate[t]));
    for_each_vec(t * a.cols, (t + 1) * a.cols, [&](int64_t i, int64_t n) {
      store_up_to(fma(gate, load_up_to(a.b + i, n), load_up_to(a.a + i, n)), a.out + i, n);
    });
  }
}

inline void combine(const CombineArgs& a, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    float* out = a.out + t * a.cols;
    for_each_vec(0, a.cols, [&](int64_t d, int64_t n) {
      Vec total = a.accumulate ? load_up_to(out + d, n) : Vec::zero();
      for (int64_t slot = t * a.top_k; slot < (t + 1) * a.top_k; ++slot) {
        if (a.row_of_slot[slot] < 0) continue;
        const Vec weight = Vec::broadcast(a.weights == nullptr ? 1.0f : a.weights[slot]);
        total = fma(weight, load_up_to(a.y + a.row_of_slot[slot] * a.cols + d, n), total);
      }
      store_up_to(total, out + d, n);
    });
  }
}

// (x, y) of each pair becomes (x cos - y sin, y cos + x sin).
inline void rotate_halves(const float* x, const float* cosines, const float* sines, int64_t heads,
                          int64_t head_dim, float* out) {
  const int64_t half = head_dim / 2;
  for (int64_t h = 0; h < heads; ++h) {
    const float* first = x + h * head_dim;
    float* out_first = out + h * head_dim;
    for_each_vec(0, half, [&](int64_t i, int64_t n) {
      const Vec a = load_up_to(first + i, n);
      const Vec b = load_up_to(first + half + i, n);
      const Vec c = load_up_to(cosines + i, n);
      const Vec s = load_up_to(sines + i, n);
      store_up_to(a * c - b * s, out_first + i, n);
      store_up_to(fma(b, c, a * s), out_first + half + i, n);
    });
  }
}

inline void rotate_interleaved(const float* x, const float* cosines, const float* sines, int64_t heads,
                               int64_t head_dim, float* out) {
  for (int64_t h = 0; h < heads; ++h) {
    for_each_vec(0, head_dim, [&](int64_t i, int64_t n) {
      const Vec a = load_up_to(x + h * head_dim + i, n);
      const Vec turned = swap_neighbours(a) * load_up_to(sines + i, n);
      store_up_to(fma(a, load_up_to(cosines + i, n), turned), out + h * head_dim + i, n);
    });
  }
}

}  // namespace
}  // namespace switchyard
