// Softmax of router logits, attention scores and vocabulary logits.
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

inline bool any_nan(const float* x, int64_t count) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i)
    found |= x[i] != x[i];
  return found;
}

// Insertion into the list of the best so far; equal scores stay in ascending id.
inline void choose_best(const float* scores, int64_t count, int64_t top_k, int32_t* ids) {
  int64_t chosen = 0;
  for (int64_t e = 0; e < count; ++e) {
    if (chosen == top_k && !(scores[e] > scores[ids[top_k - 1]])) continue;
    int64_t place = chosen < top_k ? chosen++ : top_k - 1;
    for (; place > 0 && scores[e] > scores[ids[place - 1]]; --place)
      ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(e);
  }
}

inline bool route(const RouteArgs& a, int64_t row) {
  const float* logits = a.logits + row * a.experts;
  float* probabilities = a.probabilities + row * a.experts;
  int32_t* ids = a.expert_ids + row * a.top_k;
  float* weights = a.weights + row * a.top_k;
  if (any_nan(logits, a.experts)) return false;

  const float total = exp_and_sum(logits, a.experts, largest_of(logits, a.experts), probabilities);
  for_each_vec(0, a.experts, [&](int64_t e, int64_t n) {
    store_up_to(load_up_to(probabilities + e, n) / Vec::broadcast(total), probabilities + e, n);
  });
  choose_best(probabilities, a.experts, a.top_k, ids);
  float chosen = 0;
  for (int64_t k = 0; k < a.top_k; ++k)
    chosen += probabilities[ids[k]];
  for (int64_t k = 0; k < a.top_k; ++k)
    weights[k] = a.scaling * probabilities[ids[k]] / (a.normalize ? chosen : 1.0f);
  return true;
}

}  // namespace
}  // namespace switchyard
