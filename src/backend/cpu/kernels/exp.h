// exp for a Vec, and what is made of it. Every lane is computed alike, so the last, partly filled Vec of a
// row has the bits that a full one would have.
#pragma once

#include "backend/cpu/kernels.h"

namespace switchyard {
namespace {

// exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, exp(r) by its Taylor series up to r^7:
// the first term left out is below 0.1 units in the last place, with rounding it is at most 2 (1.2 measured).
// Overflows to infinity, underflows through subnormal numbers to 0, keeps NaN.
inline Vec exp(Vec x) {
  const Vec log2_e = Vec::broadcast(0x1.715476p0f);
  const Vec ln2_high = Vec::broadcast(0x1.62e4p-1f);    // few bits: n * ln2_high is exact
  const Vec ln2_low = Vec::broadcast(0x1.7f7d1cp-20f);  // ln(2) - ln2_high
  const Vec bounded = min(Vec::broadcast(89.0f), max(Vec::broadcast(-105.0f), x));  // infinity and 0 beyond
  const Vec n = round_to_integer(bounded * log2_e);
  const Vec r = (bounded - n * ln2_high) - n * ln2_low;
  Vec series = Vec::broadcast(1.0f / 5040);
  series = fma(series, r, Vec::broadcast(1.0f / 720));
  series = fma(series, r, Vec::broadcast(1.0f / 120));
  series = fma(series, r, Vec::broadcast(1.0f / 24));
  series = fma(series, r, Vec::broadcast(1.0f / 6));
  series = fma(series, r, Vec::broadcast(0.5f));
  series = fma(series, r, Vec::broadcast(1.0f));
  series = fma(series, r, Vec::broadcast(1.0f));
  return scale_by_power_of_two(series, n);
}

inline Vec sigmoid(Vec z) {
  const Vec one = Vec::broadcast(1.0f);
  return one / (one + exp(Vec::zero() - z));
}

// Calls f(i, n) for the Vecs of [begin, end): n = kLanes, but for the last n may be less.
template <typename F>
inline void for_each_vec(int64_t begin, int64_t end, F f) {
  for (int64_t i = begin; i < end; i += Vec::kLanes)
    f(i, smaller(Vec::kLanes, end - i));
}

template <typename T>
inline Vec load_up_to(const T* p, int64_t n) {
  return n == Vec::kLanes ? Vec::load(p) : Vec::load_first(p, n);
}

inline void store_up_to(Vec a, float* p, int64_t n) {
  if (n == Vec::kLanes) {
    a.store(p);
  } else {
    a.store_first(p, n);
  }
}

// Calls f with a typed pointer to the elements of a weight.
template <typename F>
inline void with_elements(const void* data, DType dtype, F f) {
  if (dtype == DType::kF32) f(static_cast<const float*>(data));
  if (dtype == DType::kBF16) f(static_cast<const Bf16*>(data));
  if (dtype == DType::kF16) f(static_cast<const F16*>(data));
}

inline void exponentials(const float* x, int64_t count, float* out) {
  for_each_vec(0, count, [&](int64_t i, int64_t n) { store_up_to(exp(load_up_to(x + i, n)), out + i, n); });
}

}  // namespace
}  // namespace switchyard
