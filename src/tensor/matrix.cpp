#include "tensor/matrix.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/blocks/block_format.h"
#include "tensor/panels.h"

namespace switchyard {
namespace {

const std::byte* row_data(const Matrix& m, int64_t row) {
  return static_cast<const std::byte*>(m.data) + row * row_bytes(m);
}

float code(MatrixFormat format, const uint8_t* row, int64_t col) {
  switch (format) {
    case MatrixFormat::kF8E4M3Groups:
      return f8_e4m3_to_f32(row[col]);
    case MatrixFormat::kInt8Groups:
      return static_cast<float>(row[col]);
    default:
      return static_cast<float>(col % 2 == 0 ? row[col / 2] & 0x0F : row[col / 2] >> 4);
  }
}

float scale_at(const GroupScales& g, int64_t i) {
  float value = 0;
  convert_to_f32(g.dtype, static_cast<const std::byte*>(g.scales) + i * size_bytes(g.dtype), 1, &value);
  return value;
}

void decode_groups(const Matrix& m, int64_t row, int64_t begin, int64_t count, float* out) {
  const GroupScales& g = m.groups;
  const auto* codes = reinterpret_cast<const uint8_t*>(row_data(m, row));
  const int64_t first = row / g.rows_per_group * g.groups;
  int64_t current = -1;  // group whose scale is at hand
  float scale = 0;
  auto zero = static_cast<float>(g.zero_point);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t col = begin + i;
    const int64_t group = g.group_of_column != nullptr ? g.group_of_column[col] : col / g.cols_per_group;
    if (group != current) {
      current = group;
      scale = scale_at(g, first + group);
      if (g.zeros != nullptr) zero = static_cast<float>(g.zeros[first + group]);
    }
    out[i] = scale * (code(m.format, codes, col) - zero);
  }
}

void decode_blocks(const BlockFormat& f, const std::byte* row, int64_t begin, int64_t count, float* out) {
  constexpr int64_t kMaxCols = 256;
  SY_CHECK(f.cols <= kMaxCols, "blocks of {} columns", f.cols);
  float whole[kMaxCols];
  for (int64_t done = 0; done < count;) {
    const std::byte* block = row + (begin + done) / f.cols * f.bytes;
    const int64_t skipped = (begin + done) % f.cols;
    const int64_t taken = std::min(f.cols - skipped, count - done);
    if (taken == f.cols) {
      f.decode(block, out + done);
    } else {
      f.decode(block, whole);
      std::copy_n(whole + skipped, taken, out + done);
    }
    done += taken;
  }
}

void decode_panels(const Matrix& m, int64_t row, int64_t begin, int64_t count, float* out) {
  const int64_t panel = panel_bytes(m.format, m.cols);
  const int64_t block = panel / panel_blocks(m.cols);
  const auto* data = static_cast<const std::byte*>(m.data) + row / kPanelRows * panel;
  for (int64_t done = 0; done < count;) {
    const int64_t col = begin + done;
    const PanelGroup group = read_panel_group(m.format, data + col / kPanelCols * block, row % kPanelRows);
    const int64_t taken = std::min(kPanelCols - col % kPanelCols, count - done);
    for (int64_t i = 0; i < taken; ++i)
      out[done + i] = panel_value(m.format, group, col % kPanelCols + i);
    done += taken;
  }
}

}  // namespace

std::string_view name(MatrixFormat format) {
  if (const BlockFormat* blocks = find_block_format(format)) return blocks->name;
  switch (format) {
    case MatrixFormat::kPlain:
      return "plain";
    case MatrixFormat::kF8E4M3Groups:
      return "fp8";
    case MatrixFormat::kInt8Groups:
      return "int8";
    case MatrixFormat::kInt4Groups:
      return "int4";
    case MatrixFormat::kInt8Panels:
      return "int8 panels";
    case MatrixFormat::kInt4Panels:
      return "int4 panels";
    default:
      return "";
  }
}

int64_t row_bytes(const Matrix& matrix) {
  if (const BlockFormat* blocks = find_block_format(matrix.format)) {
    return matrix.cols / blocks->cols * blocks->bytes;
  }
  switch (matrix.format) {
    case MatrixFormat::kPlain:
      return matrix.cols * size_bytes(matrix.dtype);
    case MatrixFormat::kF8E4M3Groups:
    case MatrixFormat::kInt8Groups:
      return matrix.cols;
    case MatrixFormat::kInt4Groups:
      return (matrix.cols + 1) / 2;
    default:
      SY_CHECK(false, "one row of {}", name(matrix.format));
  }
}

void decode_row(const Matrix& matrix, int64_t row, int64_t begin, int64_t count, float* out) {
  if (matrix.is_plain()) {
    convert_to_f32(matrix.dtype, row_data(matrix, row) + begin * size_bytes(matrix.dtype), count, out);
  } else if (is_panels(matrix.format)) {
    decode_panels(matrix, row, begin, count, out);
  } else if (const BlockFormat* blocks = find_block_format(matrix.format)) {
    decode_blocks(*blocks, row_data(matrix, row), begin, count, out);
  } else {
    decode_groups(matrix, row, begin, count, out);
  }
}

Matrix PackedMatrix::matrix() const {
  Matrix m{.data = data.data(), .rows = rows, .cols = cols, .format = format};
  if (!scales) return m;
  m.groups = {.scales = scales.data(),
              .dtype = scales.dtype(),
              .zeros = zeros ? static_cast<const uint8_t*>(zeros.data()) : nullptr,
              .zero_point = zero_point,
              .group_of_column = group_of_column ? group_of_column.i32() : nullptr,
              .rows_per_group = rows_per_group,
              .cols_per_group = cols_per_group,
              .groups = scales.dim(1)};
  return m;
}

int64_t PackedMatrix::bytes() const {
  int64_t total = data.bytes();
  for (const Tensor* part : {&scales, &zeros, &group_of_column}) {
    if (*part) total += part->bytes();
  }
  return total;
}

std::string_view format_name(const Weight& weight) {
  return weight.packed != nullptr ? name(weight.packed->format) : name(weight.plain.dtype());
}

Matrix Weight::matrix() const {
  if (packed != nullptr) return packed->matrix();
  SY_CHECK(plain.shape().rank() == 2, "a matrix of shape {}", to_string(plain.shape()));
  return {.data = plain.data(), .dtype = plain.dtype(), .rows = plain.dim(0), .cols = plain.dim(1)};
}

}  // namespace switchyard
