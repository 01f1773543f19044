// One function for each method, and what they share.
#pragma once

#include "io/packed/matrix_tensors.h"
#include "tensor/matrix.h"

namespace switchyard {

// Throws Error for tensors that do not fit the matrix, each other or the config.
PackedMatrix load_gptq(MatrixTensors& tensors, const QuantizationConfig& config);
PackedMatrix load_awq(MatrixTensors& tensors, const QuantizationConfig& config);
PackedMatrix load_fp8(MatrixTensors& tensors, const QuantizationConfig& config);
PackedMatrix load_compressed(MatrixTensors& tensors, const QuantizationConfig& config);

inline int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

// Codes of one 32-bit word; the first code is in its lowest bits.
inline int64_t codes_per_word(MatrixFormat format) {
  return format == MatrixFormat::kInt4Groups ? 8 : 4;
}

// Uninitialised host memory.
Tensor host_tensor(DType dtype, const Shape& shape);

// from [rows, cols] to [cols, rows], of 16- or 32-bit elements.
Tensor transposed(const Checkpoint::View& from, int64_t rows, int64_t cols);

// Gives `matrix` its zero points: `zeros`, uint8 in the shape of its scales, or one number where all are
// equal.
void set_zeros(PackedMatrix& matrix, Tensor zeros);

// Gives `matrix` the group of each column, in <leaf> int32 [cols]. Throws Error for a group that has no
// scale, and for columns that are out of order although the scheme keeps order.
void set_column_groups(PackedMatrix& matrix, MatrixTensors& tensors, std::string_view leaf,
                       const PackedScheme& scheme);

}  // namespace switchyard
