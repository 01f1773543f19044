// Vec for AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers, masked loads and stores. See vec.h.
#pragma once

#include <immintrin.h>

#include "backend/cpu/kernels/vec.h"

namespace switchyard {
namespace {

struct Vec {
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 24;  // of 32 registers
  static constexpr int kDotTokens = 6;
  static constexpr int kPanelTokens = 8;
  static constexpr int kOuterRows = 6;
  static constexpr int kOuterVecs = 4;

  __m512 v;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec broadcast(float value) { return {_mm512_set1_ps(value)}; }

  static __mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static Vec of_bf16(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }

  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load(const Bf16* p) { return of_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static Vec load(const F16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec load_first(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  static Vec load_first(const Bf16* p, int64_t n) { return of_bf16(_mm256_maskz_loadu_epi16(first(n), p)); }
  static Vec load_first(const F16* p, int64_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
  }

  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_first(float* p, int64_t n) const { _mm512_mask_storeu_ps(p, first(n), v); }
};

inline Vec operator+(Vec a, Vec b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec max(Vec a, Vec b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Vec min(Vec a, Vec b) {
  return {_mm512_min_ps(a.v, b.v)};
}

inline Vec keep_first(Vec a, int64_t n, Vec other) {
  return {_mm512_mask_blend_ps(Vec::first(n), other.v, a.v)};
}

inline Vec swap_neighbours(Vec a) {
  return {_mm512_permute_ps(a.v, 0b10110001)};
}

inline Vec round_to_integer(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

inline Vec scale_by_power_of_two(Vec a, Vec power) {
  return {_mm512_scalef_ps(a.v, power.v)};
}

inline __m256 upper_half(__m512 v) {
  return _mm512_extractf32x8_ps(v, 1);
}

inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper_half(a.v));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper_half(a.v));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace switchyard
