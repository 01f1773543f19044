#include "io/packed/methods.h"

#include <algorithm>

#include "base/error.h"

namespace switchyard {
namespace {

template <typename T>
void transpose(const std::byte* from, int64_t rows, int64_t cols, void* to) {
  constexpr int64_t kTile = 64 / sizeof(T);  // a cache line each way
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      for (int64_t c = c0; c < std::min(c0 + kTile, cols); ++c) {
        for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r)
          out[c * rows + r] = in[r * cols + c];
      }
    }
  }
}

}  // namespace

Tensor host_tensor(DType dtype, const Shape& shape) {
  const auto bytes = static_cast<size_t>(shape.elements() * size_bytes(dtype));
  auto memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
  const void* data = memory.get();
  return Tensor::external(data, dtype, shape, std::move(memory));
}

Tensor transposed(const Checkpoint::View& from, int64_t rows, int64_t cols) {
  const Tensor to = host_tensor(from.dtype, {cols, rows});
  if (size_bytes(from.dtype) == 2) {
    transpose<uint16_t>(from.data, rows, cols, to.mutable_data());
  } else {
    transpose<uint32_t>(from.data, rows, cols, to.mutable_data());
  }
  return to;
}

void set_zeros(PackedMatrix& matrix, Tensor zeros) {
  const auto* first = static_cast<const uint8_t*>(zeros.data());
  const auto* last = first + zeros.elements();
  if (std::adjacent_find(first, last, std::not_equal_to<>()) == last) {
    matrix.zero_point = *first;
  } else {
    matrix.zeros = std::move(zeros);
  }
}

void set_column_groups(PackedMatrix& matrix, MatrixTensors& tensors, std::string_view leaf,
                       const PackedScheme& scheme) {
  const int64_t groups = matrix.scales.dim(1);
  const Checkpoint::View view = tensors.to_copy(leaf, {DType::kI32}, {matrix.cols});
  const Tensor group_of_column = Tensor::external(view.data, view.dtype, {matrix.cols}, view.keep_alive);
  bool in_order = true;
  for (int64_t col = 0; col < matrix.cols; ++col) {
    const int32_t group = group_of_column.i32()[col];
    if (group < 0 || group >= groups) {
      tensors.refuse(leaf, fmt::format("groups below {}", groups),
                     fmt::format("{} for column {}", group, col));
    }
    in_order = in_order && group == col / matrix.cols_per_group;
  }
  if (in_order) return;
  if (!scheme.any_order) {
    tensors.refuse(leaf, "columns in order, as the quantization_config says", "another order");
  }
  matrix.group_of_column = group_of_column;
}

}  // namespace switchyard
