#include "ops/packed_matrices.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace switchyard {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// By the definition of E4M3: sign, four bits of exponent with bias 7, three of mantissa.
double f8_value(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return (code & 0x80) != 0 ? -size : size;
}

bool has_4_bits(MatrixFormat format) {
  return format == MatrixFormat::kInt4Groups || format == MatrixFormat::kInt4Panels;
}

struct Parts {
  std::vector<uint8_t> codes;  // one a byte, row-major
  std::vector<float> scales;
  std::vector<uint8_t> zeros;
  std::vector<int32_t> group_of_column;
};

Parts random_parts(const Packing& p, int64_t rows, int64_t cols, int64_t row_groups, int64_t groups,
                   uint32_t seed) {
  std::mt19937 random(seed);
  const bool is_float = p.format == MatrixFormat::kF8E4M3Groups;
  const uint32_t top = has_4_bits(p.format) ? 16 : 256;
  Parts parts;
  for (int64_t i = 0; i < rows * cols; ++i) {
    uint32_t code = random() % top;
    if (is_float) code = (code & 0x80u) | (code % 0x38u);  // at most 1
    parts.codes.push_back(static_cast<uint8_t>(code));
  }
  for (int64_t i = 0; i < row_groups * groups; ++i) {
    const float unit = static_cast<float>(random() % 97 + 3) / 100.0f;
    parts.scales.push_back(is_float ? unit : unit / static_cast<float>(top));
    parts.zeros.push_back(static_cast<uint8_t>(random() % top));
  }
  for (int64_t k = 0; k < cols; ++k)
    parts.group_of_column.push_back(static_cast<int32_t>(k / p.cols_per_group));
  if (p.any_order) std::shuffle(parts.group_of_column.begin(), parts.group_of_column.end(), random);
  // As the device will hold them.
  for (float& scale : parts.scales) {
    if (p.scale_dtype == DType::kF16) scale = f16_to_f32(f32_to_f16(scale));
    if (p.scale_dtype == DType::kBF16) scale = bf16_to_f32(f32_to_bf16(scale));
  }
  return parts;
}

std::vector<uint8_t> packed_rows(const Parts& parts, MatrixFormat format, int64_t rows, int64_t cols) {
  if (format != MatrixFormat::kInt4Groups) return parts.codes;
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * ceil_div(cols, 2)), 0);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const int64_t col = i % cols;
    bytes[static_cast<size_t>(i / cols * ceil_div(cols, 2) + col / 2)] |=
        static_cast<uint8_t>(parts.codes[static_cast<size_t>(i)] << (col % 2 * 4));
  }
  return bytes;
}

// The bytes of panels (tensor/panels.h): blocks of 16 rows and 32 columns, codes then scales.
std::vector<uint8_t> panel_rows(const Parts& parts, MatrixFormat format, int64_t rows, int64_t cols) {
  const bool is_int8 = format == MatrixFormat::kInt8Panels;
  const int64_t code_bytes = is_int8 ? 512 : 256;
  const int64_t blocks = ceil_div(cols, 32);
  std::vector<uint8_t> bytes(static_cast<size_t>(ceil_div(rows, 16) * blocks * (code_bytes + 32)), 0);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const int64_t row = i / cols;
    const int64_t col = i % cols;
    const int64_t block = (row / 16 * blocks + col / 32) * (code_bytes + 32);
    const int64_t k = col % 32;
    const int64_t place = block + (is_int8 ? k / 4 : k / 8) * 64 + row % 16 * 4 + k % 4;
    const int shift = !is_int8 && k % 8 >= 4 ? 4 : 0;
    bytes[static_cast<size_t>(place)] |= static_cast<uint8_t>(parts.codes[static_cast<size_t>(i)] << shift);
    const uint16_t scale = f32_to_f16(parts.scales[static_cast<size_t>(row * blocks + col / 32)]);
    std::memcpy(bytes.data() + block + code_bytes + row % 16 * 2, &scale, sizeof scale);
  }
  return bytes;
}

}  // namespace

const std::vector<Packing>& packings() {
  using enum MatrixFormat;
  static const std::vector<Packing> all = {
      {"int4_g32", kInt4Groups, 1, 32, DType::kF16, false, false},
      {"int4_g24_zeros", kInt4Groups, 1, 24, DType::kF32, true, false},
      {"int4_rows", kInt4Groups, 1, 0, DType::kBF16, true, false},
      {"int4_any_order", kInt4Groups, 1, 16, DType::kF16, true, true},
      {"int8_g40_zeros", kInt8Groups, 1, 40, DType::kF16, true, false},
      {"int8_any_order", kInt8Groups, 1, 8, DType::kBF16, false, true},
      {"fp8_blocks", kF8E4M3Groups, 128, 128, DType::kF32, false, false},
      {"fp8_odd_blocks", kF8E4M3Groups, 7, 5, DType::kBF16, false, false},
      {"fp8_rows", kF8E4M3Groups, 1, 0, DType::kF32, false, false},
      {"fp8_whole", kF8E4M3Groups, 0, 0, DType::kBF16, false, false},
      {"int8_panels", kInt8Panels, 1, 32, DType::kF16, false, false},
      {"int4_panels", kInt4Panels, 1, 32, DType::kF16, false, false},
  };
  return all;
}

PackedPair packed_pair(Device& device, const Packing& packing, int64_t rows, int64_t cols, uint32_t seed) {
  Packing p = packing;
  if (p.rows_per_group == 0) p.rows_per_group = rows;
  if (p.cols_per_group == 0) p.cols_per_group = cols;
  const int64_t groups = ceil_div(cols, p.cols_per_group);
  const Parts parts = random_parts(p, rows, cols, ceil_div(rows, p.rows_per_group), groups, seed);
  const bool is_float = p.format == MatrixFormat::kF8E4M3Groups;
  const uint8_t middle = is_float ? 0 : has_4_bits(p.format) ? 8 : 128;

  PackedPair pair;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto col = static_cast<size_t>(i % cols);
    const auto group = static_cast<size_t>(i / cols / p.rows_per_group * groups + parts.group_of_column[col]);
    const uint8_t code = parts.codes[static_cast<size_t>(i)];
    const double value = is_float ? f8_value(code) : code - (p.zeros ? parts.zeros[group] : middle);
    pair.values.push_back(static_cast<float>(parts.scales[group] * value));
  }
  pair.plain = device.matrix(pair.values, rows, cols, DType::kF32);
  if (is_panel_packing(p)) {
    pair.packed = {.data = device.blocks(panel_rows(parts, p.format, rows, cols)),
                   .rows = rows,
                   .cols = cols,
                   .format = p.format};
    return pair;
  }
  pair.packed = {.data = device.bytes(packed_rows(parts, p.format, rows, cols)),
                 .rows = rows,
                 .cols = cols,
                 .format = p.format,
                 .groups = {.scales = device.weights(parts.scales, p.scale_dtype),
                            .dtype = p.scale_dtype,
                            .zeros = p.zeros ? device.bytes(parts.zeros) : nullptr,
                            .zero_point = middle,
                            .group_of_column = p.any_order ? device.ints(parts.group_of_column) : nullptr,
                            .rows_per_group = p.rows_per_group,
                            .cols_per_group = p.cols_per_group,
                            .groups = groups}};
  return pair;
}

}  // namespace switchyard
