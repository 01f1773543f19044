// Sums of scaled rows: the backward passes of linear, and the values of attention. Bound by fma where `b` is
// used for several rows at once.
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

// The first n lanes of a Vec in a tile that is not full, all lanes in one that is.
template <bool kFull, typename T>
inline Vec load_lanes(const T* p, int64_t n) {
  return kFull ? Vec::load(p) : Vec::load_first(p, n);
}

// kRows x kVecs Vecs of the output, full or of n lanes.
template <int kRows, int kVecs, bool kFull, typename B>
void outer_tile(const OuterBlock& o, int64_t row, int64_t col, int64_t n, const B* b) {
  float* out = o.out + row * o.out_stride + col;
  Vec sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      sums[i][v] = load_lanes<kFull>(out + i * o.out_stride + v * Vec::kLanes, n);
  }
  const float* a = o.a + row * o.a_stride_i;
  for (int64_t j = 0; j < o.terms; ++j, a += o.a_stride_j) {
    Vec terms[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      terms[v] = load_lanes<kFull>(b + j * o.b_stride + col + v * Vec::kLanes, n);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec factor = Vec::broadcast(a[i * o.a_stride_i]);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        sums[i][v] = fma(factor, terms[v], sums[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      store_up_to(sums[i][v], out + i * o.out_stride + v * Vec::kLanes, n);
  }
}

template <int kVecs, bool kFull, typename B>
void outer_cols(const OuterBlock& o, int64_t col, int64_t n, const B* b) {
  int64_t i = 0;
  for (; i + Vec::kOuterRows <= o.rows; i += Vec::kOuterRows)
    outer_tile<Vec::kOuterRows, kVecs, kFull>(o, i, col, n, b);
  for (; i + 2 <= o.rows; i += 2)
    outer_tile<2, kVecs, kFull>(o, i, col, n, b);
  if (i < o.rows) outer_tile<1, kVecs, kFull>(o, i, col, n, b);
}

inline void outer(const OuterBlock& o) {
  constexpr int64_t kWide = Vec::kOuterVecs * Vec::kLanes;
  with_elements(o.b, o.b_dtype, [&](const auto* b) {
    int64_t col = 0;
    for (; col + kWide <= o.cols; col += kWide)
      outer_cols<Vec::kOuterVecs, true>(o, col, Vec::kLanes, b);
    for (; col + Vec::kLanes <= o.cols; col += Vec::kLanes)
      outer_cols<1, true>(o, col, Vec::kLanes, b);
    if (col < o.cols) outer_cols<1, false>(o, col, o.cols - col, b);
  });
}

}  // namespace
}  // namespace switchyard
