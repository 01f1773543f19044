// Products of rows that are contiguous along the sum: linear, and attention scores.
//
// Each output has one accumulating Vec that walks k upwards, then one sum over its lanes. Tiles of tokens x
// weight rows only decide which outputs are computed next to each other, so one token alone and a token among
// many get the same bits. One token is bound by the bandwidth of reading the weight; many tokens, by fma.
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

// Adds the products of n elements from k on.
template <int kTokens, int kRows, typename W, typename Load>
inline void dot_step(const DotBlock& b, const float* x, const W* weight, int64_t k, Load load,
                     Vec (&sums)[kTokens][kRows]) {
  Vec w[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    w[r] = load(weight + r * b.weight_stride + k);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const Vec xt = load(x + t * b.x_stride + k);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      sums[t][r] = fma(xt, w[r], sums[t][r]);
  }
}

template <int kTokens, int kRows, typename W>
void dot_tile(const DotBlock& b, int64_t token, int64_t row, const W* weights) {
  const float* x = b.x + token * b.x_stride;
  const W* weight = weights + row * b.weight_stride;
  Vec sums[kTokens][kRows];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      sums[t][r] = Vec::zero();
  }
  int64_t k = 0;
  for (; k + Vec::kLanes <= b.k; k += Vec::kLanes) {
    dot_step<kTokens, kRows>(
        b, x, weight, k, [](const auto* p) { return Vec::load(p); }, sums);
  }
  if (k < b.k) {
    const int64_t n = b.k - k;
    dot_step<kTokens, kRows>(
        b, x, weight, k, [n](const auto* p) { return Vec::load_first(p, n); }, sums);
  }
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    float* out = b.out + (token + t) * b.out_stride + row;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float total = sum(sums[t][r]);
      if (b.bias != nullptr) total += b.bias[row + r];
      out[r] = b.accumulate ? out[r] + total : total;
    }
  }
}

// All tokens against kRows weight rows, in tiles as high as they come.
template <int kRows, typename W>
void dot_rows(const DotBlock& b, int64_t row, const W* weights) {
  int64_t t = 0;
  for (; t + Vec::kDotTokens <= b.tokens; t += Vec::kDotTokens)
    dot_tile<Vec::kDotTokens, kRows>(b, t, row, weights);
  switch (b.tokens - t) {
    case 5:
      return dot_tile<5, kRows>(b, t, row, weights);
    case 4:
      return dot_tile<4, kRows>(b, t, row, weights);
    case 3:
      return dot_tile<3, kRows>(b, t, row, weights);
    case 2:
      return dot_tile<2, kRows>(b, t, row, weights);
    case 1:
      return dot_tile<1, kRows>(b, t, row, weights);
  }
}

inline void dot(const DotBlock& b) {
  // One token: more rows at once, each a stream of its own to the memory.
  constexpr int kStreams = 8;
  with_elements(b.weight, b.weight_dtype, [&](const auto* weights) {
    int64_t row = 0;
    if (b.tokens == 1) {
      for (; row + kStreams <= b.weight_rows; row += kStreams)
        dot_tile<1, kStreams>(b, 0, row, weights);
    }
    for (; row + Vec::kDotRows <= b.weight_rows; row += Vec::kDotRows)
      dot_rows<Vec::kDotRows>(b, row, weights);
    for (; row < b.weight_rows; ++row)
      dot_rows<1>(b, row, weights);
  });
}

}  // namespace
}  // namespace switchyard
