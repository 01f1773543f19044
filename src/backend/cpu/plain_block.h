// Parts of a weight as elements that any kernel reads.
#pragma once

#include "backend/cpu/parallel.h"
#include "tensor/matrix.h"

namespace switchyard {

// Elements that a kernel reads: those of a plain matrix in place, those of a packed one decoded.
struct PlainBlock {
  const void* data;
  DType dtype;
  int64_t stride;  // elements from one row to the next
};

// Rows [row, row + rows) and columns [col, col + cols). What is decoded is gone with the thread's next call.
inline PlainBlock plain_block(const Matrix& m, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  if (m.is_plain()) {
    const auto* data = static_cast<const std::byte*>(m.data);
    return {data + (row * m.cols + col) * size_bytes(m.dtype), m.dtype, m.cols};
  }
  float* decoded = thread_scratch(rows * cols);
  for (int64_t r = 0; r < rows; ++r)
    decode_row(m, row + r, col, cols, decoded + r * cols);
  return {decoded, DType::kF32, cols};
}

}  // namespace switchyard
