// Products of bfloat16 activations with bfloat16 weights, both contiguous along k, by the processor's own dot
// products: two neighbouring products and the sum so far in float32. Orders and tiles are those of dot.h.
// Numbers below 2^-126 count as zero.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/cpu/kernels/vec_avx512.h"

namespace switchyard {
namespace {

constexpr int64_t kBf16Lanes = 32;

inline __mmask32 first_bf16(int64_t n) {
  return static_cast<__mmask32>((uint64_t{1} << n) - 1);
}

template <int kTokens, int kRows, typename Load>
inline void bf16_step(const Bf16Dot& d, const uint16_t* x, const uint16_t* weight, int64_t k, Load load,
                      __m512 (&sums)[kTokens][kRows]) {
  __m512bh rows[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    rows[r] = load(weight + r * d.weight_stride + k);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const __m512bh token = load(x + t * d.x_stride + k);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      sums[t][r] = _mm512_dpbf16_ps(sums[t][r], rows[r], token);
  }
}

template <int kTokens, int kRows>
void bf16_tile(const Bf16Dot& d, int64_t token, int64_t row) {
  const auto whole = [](const uint16_t* p) { return (__m512bh)_mm512_loadu_si512(p); };
  const auto rest = [mask = first_bf16(d.k % kBf16Lanes)](const uint16_t* p) {
    return (__m512bh)_mm512_maskz_loadu_epi16(mask, p);
  };
  const uint16_t* x = d.x + token * d.x_stride;
  const uint16_t* weight = d.weight + row * d.weight_stride;
  __m512 sums[kTokens][kRows];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      sums[t][r] = _mm512_setzero_ps();
  }
  int64_t k = 0;
  for (; k + kBf16Lanes <= d.k; k += kBf16Lanes)
    bf16_step(d, x, weight, k, whole, sums);
  if (k < d.k) bf16_step(d, x, weight, k, rest, sums);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float total = sum(Vec{sums[t][r]});
      if (d.bias != nullptr) total += d.bias[row + r];
      d.out[(token + t) * d.out_stride + row + r] = total;
    }
  }
}

template <int kTokens>
void bf16_tokens(const Bf16Dot& d, int64_t token) {
  constexpr int kFit = Vec::kAccumulators / kTokens;
  constexpr int kRows = kFit > 8 ? 8 : kFit;
  int64_t row = 0;
  for (; row + kRows <= d.weight_rows; row += kRows)
    bf16_tile<kTokens, kRows>(d, token, row);
  for (; row < d.weight_rows; ++row)
    bf16_tile<kTokens, 1>(d, token, row);
}

inline void dot_bf16(const Bf16Dot& d) {
  int64_t token = 0;
  for (; token + 6 <= d.tokens; token += 6)
    bf16_tokens<6>(d, token);
  for (; token + 3 <= d.tokens; token += 3)
    bf16_tokens<3>(d, token);
  for (; token < d.tokens; ++token)
    bf16_tokens<1>(d, token);
}

inline void round_bf16(const float* x, int64_t begin, int64_t end, uint16_t* out) {
  for (int64_t i = begin; i < end; i += Vec::kLanes) {
    const int64_t n = smaller(Vec::kLanes, end - i);
    const __mmask16 mask = n == Vec::kLanes ? static_cast<__mmask16>(0xFFFF) : Vec::first(n);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
    _mm256_mask_storeu_epi16(out + i, mask, (__m256i)rounded);
  }
}

}  // namespace
}  // namespace switchyard
