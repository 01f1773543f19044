// Products of rows that are contiguous along the sum: linear, and attention scores.
//
// Each output has one accumulating Vec that walks k upwards, then one sum over its lanes. How outputs are
// grouped into tiles of tokens x weight rows changes no bit of them: one token alone and a token among many
// get the same.
//
// One token is bound by the bandwidth of reading the weight. Many tokens are bound by fma as long as the
// block fits into the second-level cache; a tile then has more tokens than rows, because a 16-bit weight
// costs two more instructions to load and is used once per token.
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

// Adds the products of elements k, k + 1, ...: a whole Vec of them, or the first n. The operands of the
// shorter side wait in registers while those of the other pass.
template <int kTokens, int kRows, typename W, typename Load>
inline void dot_step(const DotBlock& b, const float* x, const W* weight, int64_t k, Load load,
                     Vec (&sums)[kTokens][kRows]) {
  constexpr bool kKeepTokens = kTokens <= kRows;
  constexpr int kKept = static_cast<int>(smaller(kTokens, kRows));
  constexpr int kPassing = static_cast<int>(larger(kTokens, kRows));
  const auto token = [&](int t) { return load(x + t * b.x_stride + k); };
  const auto row = [&](int r) { return load(weight + r * b.weight_stride + k); };
  Vec kept[kKept];
#pragma GCC unroll 8
  for (int i = 0; i < kKept; ++i)
    kept[i] = kKeepTokens ? token(i) : row(i);
#pragma GCC unroll 8
  for (int j = 0; j < kPassing; ++j) {
    const Vec passing = kKeepTokens ? row(j) : token(j);
#pragma GCC unroll 8
    for (int i = 0; i < kKept; ++i) {
      Vec& total = kKeepTokens ? sums[i][j] : sums[j][i];
      total = fma(passing, kept[i], total);
    }
  }
}

// Writes the outputs of a tile at (token, row).
template <int kTokens, int kRows>
inline void finish(const DotBlock& b, int64_t token, int64_t row, const Vec (&sums)[kTokens][kRows]) {
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    float* out = b.out + (token + t) * b.out_stride + row;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float total = sum(sums[t][r]);
      if (b.bias != nullptr) total += b.bias[row + r];
      out[r] = total;
    }
  }
}

template <int kTokens, int kRows, typename W>
void dot_tile(const DotBlock& b, int64_t token, int64_t row, const W* weights) {
  const auto whole = [](const auto* p) { return Vec::load(p); };
  const auto rest = [n = b.k % Vec::kLanes](const auto* p) { return Vec::load_first(p, n); };
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
  for (; k + Vec::kLanes <= b.k; k += Vec::kLanes)
    dot_step(b, x, weight, k, whole, sums);
  if (k < b.k) dot_step(b, x, weight, k, rest, sums);
  finish(b, token, row, sums);
}

// kTokens tokens against all weight rows. Every weight row is a stream of its own to the memory; more than
// eight at once gain nothing.
template <int kTokens, typename W>
void dot_tokens(const DotBlock& b, int64_t token, const W* weights) {
  constexpr int kFit = Vec::kAccumulators / kTokens;
  constexpr int kRows = kFit > 8 ? 8 : kFit;
  int64_t row = 0;
  for (; row + kRows <= b.weight_rows; row += kRows)
    dot_tile<kTokens, kRows>(b, token, row, weights);
  for (; row < b.weight_rows; ++row)
    dot_tile<kTokens, 1>(b, token, row, weights);
}

inline void dot(const DotBlock& b) {
  with_elements(b.weight, b.weight_dtype, [&](const auto* weights) {
    int64_t token = 0;
    for (; token + Vec::kDotTokens <= b.tokens; token += Vec::kDotTokens)
      dot_tokens<Vec::kDotTokens>(b, token, weights);
    for (; token + 4 <= b.tokens; token += 4)
      dot_tokens<4>(b, token, weights);
    for (; token + 2 <= b.tokens; token += 2)
      dot_tokens<2>(b, token, weights);
    if (token < b.tokens) dot_tokens<1>(b, token, weights);
  });
}

}  // namespace
}  // namespace switchyard
