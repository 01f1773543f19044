// Weight matrices [rows, cols] in the formats that checkpoints keep them in. A format is a property of each
// matrix, never of a model. Whatever the format, a matrix stands for one exact matrix of float32 numbers,
// the one that decode_row gives; ops compute with it and with no other.
//
// Adding a format: a row in MatrixFormat and its decoder, in matrix.cpp for codes with groups, in
// blocks/block_format.cpp's table for blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "tensor/tensor.h"

namespace switchyard {

enum class MatrixFormat : uint8_t {
  kPlain,  // elements of `dtype`: F32, F16 or BF16, row-major

  // Codes with a scale, and perhaps a zero point, for each group; see GroupScales. Row-major.
  kF8E4M3Groups,  // one float8 code a byte
  kInt8Groups,    // one unsigned code a byte
  kInt4Groups,    // two unsigned codes a byte, the lower column in the lower half; rows start at a byte

  // 16 rows together, for dot products of bytes; see panels.h.
  kInt8Panels,
  kInt4Panels,

  // Blocks along the columns that hold their own scales; see blocks/<format>.h.
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ4K,
  kQ5K,
  kQ6K,
};

std::string_view name(MatrixFormat format);

// value[n, k] = scale[n / rows_per_group, g(k)] * (code[n, k] - zero), with g(k) = group_of_column[k] or
// k / cols_per_group, and zero = zeros[n / rows_per_group, g(k)] or zero_point. One multiplication in
// float32.
struct GroupScales {
  const void* scales = nullptr;    // [ceil(rows / rows_per_group), groups]
  DType dtype = DType::kF32;       // of scales: F32, F16 or BF16
  const uint8_t* zeros = nullptr;  // as scales, or null: zero_point everywhere; never for float8 codes
  int32_t zero_point = 0;
  const int32_t* group_of_column = nullptr;  // [cols], each in [0, groups), or null
  int64_t rows_per_group = 1;
  int64_t cols_per_group = 1;
  int64_t groups = 0;  // along the columns
};

// What a device op gets: pointers of the device.
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // of plain elements
  int64_t rows = 0;
  int64_t cols = 0;
  MatrixFormat format = MatrixFormat::kPlain;
  GroupScales groups = {};  // of the formats with groups

  bool is_plain() const { return format == MatrixFormat::kPlain; }
};

// Bytes of one row of `data`: of the codes alone, or of the blocks. Not for panels, which have no row alone.
int64_t row_bytes(const Matrix& matrix);

// out[i] = element [row, begin + i] of a matrix in host memory, i < count.
void decode_row(const Matrix& matrix, int64_t row, int64_t begin, int64_t count, float* out);

// The parts of a packed matrix, each on the device that the matrix is for.
struct PackedMatrix {
  MatrixFormat format;
  int64_t rows;
  int64_t cols;
  Tensor data = {};             // bytes: [rows, row_bytes], or [panels, panel_bytes]
  Tensor scales = {};           // [row groups, groups] or absent: a block format
  Tensor zeros = {};            // uint8, as scales, or absent
  Tensor group_of_column = {};  // int32 [cols] or absent
  int32_t zero_point = 0;
  int64_t rows_per_group = 1;
  int64_t cols_per_group = 1;

  Matrix matrix() const;
  int64_t bytes() const;  // of all parts
};

// A weight matrix of a model: a plain tensor, which may be trained, or a packed one, which stays as it is and
// passes gradients on.
struct Weight {
  Tensor plain;                                // [N, K], absent when packed
  std::shared_ptr<const PackedMatrix> packed;  // null when plain

  Weight() = default;
  Weight(Tensor elements) : plain(std::move(elements)) {}  // NOLINT: a tensor is a weight
  explicit Weight(PackedMatrix parts) : packed(std::make_shared<const PackedMatrix>(std::move(parts))) {}

  explicit operator bool() const { return plain || packed != nullptr; }
  int64_t rows() const { return packed != nullptr ? packed->rows : plain.dim(0); }
  int64_t cols() const { return packed != nullptr ? packed->cols : plain.dim(1); }
  int64_t bytes() const { return packed != nullptr ? packed->bytes() : plain.bytes(); }
  bool requires_grad() const { return plain.requires_grad(); }
  Matrix matrix() const;  // as a backend takes it
};

std::string_view format_name(const Weight& weight);  // "BF16", or that of a packed matrix, such as "int4"

}  // namespace switchyard
