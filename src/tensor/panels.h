// Panels: our own low-bit formats, laid out for the dot products of processors. 16 rows of a matrix stand
// together; along the columns a block holds 32 columns of them, then one scale for each row:
//   value[row, col] = scale[row] * (code[row, col] - zero)
// Four neighbouring columns of a row lie in four neighbouring bytes, so that one vector of 64 bytes is what a
// dot-product instruction adds to 16 sums, one for each row, when four activations are broadcast to all.
//
// A panel is its blocks in the order of columns, a matrix its panels in the order of rows; the last of both
// are filled with zeros. Blocks have no padding, so int8 takes 8.5 and int4 4.5 bits for a weight.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/matrix.h"

namespace switchyard {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kPanelCols = 32;

struct Int8PanelBlock {
  static constexpr int kZero = 128;
  // The code of (row r, column k) at 64 * (k / 4) + 4 * r + k % 4.
  uint8_t codes[kPanelRows * kPanelCols];
  uint16_t scales[kPanelRows];  // binary16
};
static_assert(sizeof(Int8PanelBlock) == 544);

struct Int4PanelBlock {
  static constexpr int kZero = 8;
  // The code of (row r, column k) in the lower (k % 8 < 4) or upper half of 64 * (k / 8) + 4 * r + k % 4.
  uint8_t codes[kPanelRows * kPanelCols / 2];
  uint16_t scales[kPanelRows];
};
static_assert(sizeof(Int4PanelBlock) == 288);

constexpr bool is_panels(MatrixFormat format) {
  return format == MatrixFormat::kInt8Panels || format == MatrixFormat::kInt4Panels;
}

// Blocks along the columns, and bytes of a panel and of a whole matrix.
constexpr int64_t panel_blocks(int64_t cols) {
  return (cols + kPanelCols - 1) / kPanelCols;
}
int64_t panel_bytes(MatrixFormat format, int64_t cols);
constexpr int64_t panel_count(int64_t rows) {
  return (rows + kPanelRows - 1) / kPanelRows;
}

// The codes and the scale of 32 columns of one row.
struct PanelGroup {
  uint8_t codes[kPanelCols];
  uint16_t scale;  // binary16
};

// Reads and writes the part of row `row` (< kPanelRows) in one block of a panel.
PanelGroup read_panel_group(MatrixFormat format, const std::byte* block, int64_t row);
void write_panel_group(MatrixFormat format, const PanelGroup& group, int64_t row, std::byte* block);

float panel_value(MatrixFormat format, const PanelGroup& group, int64_t col);

// How a group of 32 values is rounded: the scale, of binary16, and with it the nearest codes whose squared
// error, each weighted by importance[col] (null: alike), is the smallest of those tried. Values must be
// finite and below 65504 in size.
PanelGroup round_panel_group(MatrixFormat format, const float* values, const float* importance = nullptr);

// out: panel_bytes(format, cols) for rows [16 panel, 16 panel + 16) of `source`, in host memory. Throws Error
// that names `item` for values that are not finite or too large.
void pack_panel(const Matrix& source, int64_t panel, MatrixFormat format, std::string_view item,
                std::byte* out);

}  // namespace switchyard
