// Ints and Bytes for AVX2; see panel_dot.h for what they are for.
#pragma once

#include "backend/cpu/kernels/vec_avx2.h"

namespace switchyard {
namespace {

struct Bytes {
  __m256i v;
  static Bytes load(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
};

inline Bytes low_halves(Bytes a) {
  return {_mm256_and_si256(a.v, _mm256_set1_epi8(15))};
}
inline Bytes high_halves(Bytes a) {
  return {_mm256_and_si256(_mm256_srli_epi16(a.v, 4), _mm256_set1_epi8(15))};
}

struct Ints {
  __m256i v;
};

inline Ints operator+(Ints a, Ints b) {
  return {_mm256_add_epi32(a.v, b.v)};
}

// Codes of 8 bits lose their zero below, because the sum of two products of 255 * 127 would not fit into 16
// bits.
template <int kZero>
inline Ints start_products(int32_t x_sum) {
  return {_mm256_set1_epi32(kZero == 128 ? 0 : -kZero * x_sum)};
}

template <int kZero>
inline Ints add_products(Ints sums, Bytes codes, const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  __m256i factors = _mm256_set1_epi32(four);
  __m256i sizes = codes.v;
  if (kZero == 128) {
    const __m256i steps = _mm256_xor_si256(codes.v, _mm256_set1_epi8(-128));
    factors = _mm256_sign_epi8(factors, steps);
    sizes = _mm256_abs_epi8(steps);
  }
  const __m256i pairs = _mm256_maddubs_epi16(sizes, factors);
  return {_mm256_add_epi32(sums.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
}

inline Vec to_vec(Ints a) {
  return {_mm256_cvtepi32_ps(a.v)};
}

// Whole numbers that fit into a byte.
inline void store_bytes(Vec a, int8_t* p) {
  const __m256i whole = _mm256_cvtps_epi32(a.v);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

}  // namespace
}  // namespace switchyard
