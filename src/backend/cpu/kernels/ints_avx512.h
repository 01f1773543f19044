// Ints and Bytes for AVX-512, with VNNI where the file is compiled for it; see panel_dot.h for what they are
// for.
#pragma once

#include "backend/cpu/kernels/vec_avx512.h"

namespace switchyard {
namespace {

struct Bytes {
  __m512i v;
  static Bytes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
};

inline Bytes low_halves(Bytes a) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))};
}
inline Bytes high_halves(Bytes a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))};
}

struct Ints {
  __m512i v;
};

inline Ints operator+(Ints a, Ints b) {
  return {_mm512_add_epi32(a.v, b.v)};
}

inline __m512i broadcast_four(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

#if defined(__AVX512VNNI__)

template <int kZero>
inline Ints start_products(int32_t x_sum) {
  return {_mm512_set1_epi32(-kZero * x_sum)};
}

template <int kZero>
inline Ints add_products(Ints sums, Bytes codes, const int8_t* x) {
  return {_mm512_dpbusd_epi32(sums.v, codes.v, broadcast_four(x))};
}

#else

// Codes of 8 bits lose their zero below, because the sum of two products of 255 * 127 would not fit into 16
// bits.
template <int kZero>
inline Ints start_products(int32_t x_sum) {
  return {_mm512_set1_epi32(kZero == 128 ? 0 : -kZero * x_sum)};
}

template <int kZero>
inline Ints add_products(Ints sums, Bytes codes, const int8_t* x) {
  __m512i factors = broadcast_four(x);
  __m512i sizes = codes.v;
  if (kZero == 128) {
    const __m512i steps = _mm512_xor_si512(codes.v, _mm512_set1_epi8(-128));
    factors = _mm512_mask_sub_epi8(factors, _mm512_movepi8_mask(steps), _mm512_setzero_si512(), factors);
    sizes = _mm512_abs_epi8(steps);
  }
  const __m512i pairs = _mm512_maddubs_epi16(sizes, factors);
  return {_mm512_add_epi32(sums.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}

#endif

inline Vec to_vec(Ints a) {
  return {_mm512_cvtepi32_ps(a.v)};
}

// Whole numbers that fit into a byte.
inline void store_bytes(Vec a, int8_t* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}

}  // namespace
}  // namespace switchyard
