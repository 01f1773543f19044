// Packed weight matrices for op tests, each with the plain float32 matrix that it stands for.
#pragma once

#include <string>
#include <vector>

#include "ops/device.h"

namespace switchyard {

struct Packing {
  std::string name;
  MatrixFormat format;
  int64_t rows_per_group;  // 0: all rows
  int64_t cols_per_group;  // 0: all columns
  DType scale_dtype;
  bool zeros;      // a zero point for each group
  bool any_order;  // a group for each column
};

// Every format with groups, by rows, columns, blocks and in any order, and panels.
const std::vector<Packing>& packings();

struct PackedPair {
  Matrix packed;
  Matrix plain;
  std::vector<float> values;  // row-major
};

constexpr bool is_panel_packing(const Packing& packing) {
  return packing.format == MatrixFormat::kInt8Panels || packing.format == MatrixFormat::kInt4Panels;
}

// Random codes, scales and zero points; values in [-1, 1].
PackedPair packed_pair(Device& device, const Packing& packing, int64_t rows, int64_t cols, uint32_t seed);

}  // namespace switchyard
