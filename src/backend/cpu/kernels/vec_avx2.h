// Vec for AVX2 with FMA and F16C: 8 lanes, 16 registers. See vec.h.
#pragma once

#include <immintrin.h>

#include "backend/cpu/kernels/vec.h"

namespace switchyard {
namespace {

struct Vec {
  static constexpr int kLanes = 8;
  static constexpr int kAccumulators = 12;  // of 16 registers
  static constexpr int kPanelTokens = 4;
  static constexpr int kDotTokens = 4;  // 6 x 2 has half the speed of 4 x 3 on Zen 5
  static constexpr int kOuterRows = 6;
  static constexpr int kOuterVecs = 2;

  __m256 v;

  static Vec zero() { return {_mm256_setzero_ps()}; }
  static Vec broadcast(float value) { return {_mm256_set1_ps(value)}; }

  static __m256i first(int64_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  }
  // AVX2 masks no 16-bit loads: the first n through a buffer.
  static __m128i first_16bit(const void* p, int64_t n) {
    uint16_t buffer[kLanes] = {};
    __builtin_memcpy(buffer, p, static_cast<size_t>(n) * sizeof buffer[0]);
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(buffer));
  }
  static Vec of_bf16(__m128i bits) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }

  static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec load(const Bf16* p) { return of_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static Vec load(const F16* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static Vec load_first(const float* p, int64_t n) { return {_mm256_maskload_ps(p, first(n))}; }
  static Vec load_first(const Bf16* p, int64_t n) { return of_bf16(first_16bit(p, n)); }
  static Vec load_first(const F16* p, int64_t n) { return {_mm256_cvtph_ps(first_16bit(p, n))}; }

  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store_first(float* p, int64_t n) const { _mm256_maskstore_ps(p, first(n), v); }
};

inline Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.v, b.v)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm256_div_ps(a.v, b.v)};
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec max(Vec a, Vec b) {
  return {_mm256_max_ps(a.v, b.v)};
}
inline Vec min(Vec a, Vec b) {
  return {_mm256_min_ps(a.v, b.v)};
}

inline Vec keep_first(Vec a, int64_t n, Vec other) {
  return {_mm256_blendv_ps(other.v, a.v, _mm256_castsi256_ps(Vec::first(n)))};
}

inline Vec swap_neighbours(Vec a) {
  return {_mm256_permute_ps(a.v, 0b10110001)};
}

inline Vec round_to_integer(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

// In two factors, each a normal number: the product is rounded once, also where it is subnormal.
inline Vec scale_by_power_of_two(Vec a, Vec power) {
  const __m256i n = _mm256_cvtps_epi32(power.v);
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i low = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i high = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
  return {_mm256_mul_ps(_mm256_mul_ps(a.v, _mm256_castsi256_ps(low)), _mm256_castsi256_ps(high))};
}

inline float sum(Vec a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest(Vec a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace switchyard
