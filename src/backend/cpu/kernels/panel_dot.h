// Products of rounded activations with panels of low-bit weights (tensor/panels.h): sums of whole numbers in
// each block, which are exact, then
//   out += float(block sum) * scale of the activations * scale of the row,
// blocks in ascending order. So the bits of an output depend neither on the tokens of a call nor on how they
// are tiled. A lane is a row: no sum over lanes is needed.
//
// One token is bound by the bandwidth of reading panels, which follow each other in memory. Many are bound by
// the dot-product instructions; the codes of a block are unpacked once for all tokens of a tile.
//
// What ints_*.h define for it, with a Bytes being 4 codes for each lane of a Vec:
//   low_halves, high_halves       of each byte
//   start_products<kZero>(sum)    sums for codes around kZero, given the sum of the activations
//   add_products<kZero>(a, b, x)  each lane of `a` plus its four codes of `b` times x[0..3]
//   to_vec                        to float32
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

struct Int8Codes {
  using Block = Int8PanelBlock;
  static constexpr int64_t kColsPerLine = 4;
  template <int kZero, typename F>
  static void for_each_step(const uint8_t* line, F add) {
    add(Bytes::load(line), 0);
  }
};

struct Int4Codes {
  using Block = Int4PanelBlock;
  static constexpr int64_t kColsPerLine = 8;
  template <int kZero, typename F>
  static void for_each_step(const uint8_t* line, F add) {
    const Bytes both = Bytes::load(line);
    add(low_halves(both), 0);
    add(high_halves(both), 4);
  }
};

constexpr int kPanelParts = kPanelRows / Vec::kLanes;  // Vecs that hold a value for each row of a panel

// One block for kTokens tokens and kParts Vecs of rows.
template <typename Codes, int kTokens, int kParts>
inline void add_block(const PanelDot& d, int64_t token, int64_t b, const typename Codes::Block& block,
                      int part, Vec (&totals)[kTokens][kParts]) {
  constexpr int kZero = Codes::Block::kZero;
  const int64_t first_group = token * d.x.groups + b;
  Ints sums[kTokens][kParts];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p)
      sums[t][p] = start_products<kZero>(d.x.sums[first_group + t * d.x.groups]);
  }
#pragma GCC unroll 8
  for (int64_t k = 0; k < kPanelCols; k += Codes::kColsPerLine) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      const uint8_t* line = block.codes + k / Codes::kColsPerLine * 64 + (part + p) * 4 * Vec::kLanes;
      Codes::template for_each_step<kZero>(line, [&](Bytes codes, int64_t col) {
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          const int8_t* x = d.x.codes + (first_group + t * d.x.groups) * kRoundedGroup + k + col;
          sums[t][p] = add_products<kZero>(sums[t][p], codes, x);
        }
      });
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) {
    const Vec scales = Vec::load(reinterpret_cast<const F16*>(block.scales) + (part + p) * Vec::kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const Vec scaled = to_vec(sums[t][p]) * Vec::broadcast(d.x.scales[first_group + t * d.x.groups]);
      totals[t][p] = fma(scaled, scales, totals[t][p]);
    }
  }
}

inline void finish_rows(const PanelDot& d, int64_t token, int64_t row, Vec total) {
  const int64_t n = smaller(Vec::kLanes, d.weight_rows - row);
  if (n <= 0) return;
  if (d.bias != nullptr) total = total + load_up_to(d.bias + row, n);
  store_up_to(total, d.out + token * d.out_stride + row, n);
}

// kTokens tokens against kParts Vecs of rows of one panel.
template <typename Codes, int kTokens, int kParts>
void panel_tile(const PanelDot& d, int64_t token, int64_t panel, int part) {
  const auto* blocks = static_cast<const typename Codes::Block*>(d.panels) + panel * d.x.groups;
  Vec totals[kTokens][kParts];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p)
      totals[t][p] = Vec::zero();
  }
  for (int64_t b = 0; b < d.x.groups; ++b)
    add_block<Codes, kTokens, kParts>(d, token, b, blocks[b], part, totals);
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p)
      finish_rows(d, token + t, panel * kPanelRows + (part + p) * Vec::kLanes, totals[t][p]);
  }
}

// A single token takes a panel as a whole, as it lies in memory; several fill the registers with fewer rows.
template <typename Codes, int kTokens>
void panel_tokens(const PanelDot& d, int64_t token, int64_t panel) {
  constexpr int kParts = kTokens == 1 ? kPanelParts : 1;
  for (int part = 0; part < kPanelParts; part += kParts)
    panel_tile<Codes, kTokens, kParts>(d, token, panel, part);
}

// The last tokens, fewer than a full tile: one tile of just that size, so that no batch pays for two.
template <typename Codes, int kTokens>
void panel_rest(const PanelDot& d, int64_t token, int64_t panel) {
  if constexpr (kTokens > 0) {
    if (d.tokens - token == kTokens) return panel_tokens<Codes, kTokens>(d, token, panel);
    panel_rest<Codes, kTokens - 1>(d, token, panel);
  }
}

template <typename Codes>
void panel_dot_of(const PanelDot& d) {
  for (int64_t panel = 0; panel * kPanelRows < d.weight_rows; ++panel) {
    int64_t token = 0;
    for (; token + Vec::kPanelTokens <= d.tokens; token += Vec::kPanelTokens)
      panel_tokens<Codes, Vec::kPanelTokens>(d, token, panel);
    panel_rest<Codes, Vec::kPanelTokens - 1>(d, token, panel);
  }
}

inline void panel_dot(const PanelDot& d) {
  if (d.format == MatrixFormat::kInt8Panels) return panel_dot_of<Int8Codes>(d);
  panel_dot_of<Int4Codes>(d);
}

}  // namespace
}  // namespace switchyard
