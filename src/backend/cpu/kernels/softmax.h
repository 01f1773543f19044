// Softmax of attention scores and vocabulary logits, and its parts.
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

constexpr float kInfinity = __builtin_inff();

// NaN elements are passed over.
inline float largest_of(const float* x, int64_t count) {
  const Vec lowest = Vec::broadcast(-kInfinity);
  Vec best = lowest;
  for_each_vec(0, count,
               [&](int64_t i, int64_t n) { best = max(keep_first(load_up_to(x + i, n), n, lowest), best); });
  return largest(best);
}

// out[i] = exp(x[i] - shift); returns their sum. out may be x.
inline float exp_and_sum(const float* x, int64_t count, float shift, float* out) {
  Vec total = Vec::zero();
  const Vec shifts = Vec::broadcast(shift);
  for_each_vec(0, count, [&](int64_t i, int64_t n) {
    const Vec e = exp(load_up_to(x + i, n) - shifts);
    store_up_to(e, out + i, n);
    total = total + keep_first(e, n, Vec::zero());
  });
  return sum(total);
}

// Float sums of short pieces, added up in double: a vocabulary has 10^5 terms.
inline SoftmaxParts softmax_parts(const float* x, int64_t count) {
  constexpr int64_t kPiece = 1024;
  float scratch[kPiece];
  const float shift = largest_of(x, count);
  double total = 0;
  for (int64_t i = 0; i < count; i += kPiece)
    total += static_cast<double>(exp_and_sum(x + i, smaller(kPiece, count - i), shift, scratch));
  return {shift, total};
}

inline void add_scaled_exp(const float* x, int64_t count, float shift, float scale, float* out) {
  const Vec shifts = Vec::broadcast(shift);
  const Vec scales = Vec::broadcast(scale);
  for_each_vec(0, count, [&](int64_t i, int64_t n) {
    const Vec e = exp(load_up_to(x + i, n) - shifts);
    store_up_to(fma(scales, e, load_up_to(out + i, n)), out + i, n);
  });
}

inline void attention_slopes(float* weights, float* slopes, int64_t count, float scale, float log_sum_exp,
                             float delta) {
  const Vec scales = Vec::broadcast(scale);
  const Vec shifts = Vec::broadcast(log_sum_exp);
  const Vec deltas = Vec::broadcast(delta);
  for_each_vec(0, count, [&](int64_t i, int64_t n) {
    const Vec weight = exp(load_up_to(weights + i, n) * scales - shifts);
    store_up_to(weight, weights + i, n);
    store_up_to(scales * weight * (load_up_to(slopes + i, n) - deltas), slopes + i, n);
  });
}

}  // namespace
}  // namespace switchyard
