// compressed-tensors, with N rows and K columns of the matrix, c codes a word and G groups.
// pack-quantized:
//   weight_packed      int32 [N, ceil(K / c)]   code (n, k) in word (n, k / c), k % c from the lowest bits on
//   weight_scale       float [N, G]
//   weight_zero_point  int32 [ceil(N / c), G]   zero point (n, g) in word (n / c, g); absent when symmetric
//   weight_g_idx       int32 [K]                the group of each column, with actorder group
//   weight_shape       int64 [2]                N, K
// Codes and zero points are signed numbers plus half their range, so that weight = scale * (code - zero)
// holds without change, with a zero of half the range where none is stored. float-quantized:
//   weight             float8 E4M3 [N, K]
//   weight_scale       float [N, 1] by channel, [1] or [] by tensor, or one for each block
// Source: vLLM's compressed-tensors.
#include <cstring>

#include "base/error.h"
#include "io/packed/methods.h"

namespace switchyard {
namespace {

// The codes without the padding at the end of each row.
Tensor without_padding(const Checkpoint::View& packed, int64_t rows, int64_t packed_bytes,
                       int64_t row_bytes) {
  const Tensor data = host_tensor(DType::kU8, {rows, row_bytes});
  auto* out = static_cast<std::byte*>(data.mutable_data());
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(out + row * row_bytes, packed.data + row * packed_bytes, static_cast<size_t>(row_bytes));
  return data;
}

// As bytes [rows, groups].
Tensor unpack_zeros(const Checkpoint::View& words, int64_t rows, int64_t groups, MatrixFormat format) {
  const int64_t codes = codes_per_word(format);
  const int64_t bits = 32 / codes;
  const Tensor zeros = host_tensor(DType::kU8, {rows, groups});
  auto* out = static_cast<uint8_t*>(zeros.mutable_data());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t g = 0; g < groups; ++g) {
      uint32_t word = 0;
      std::memcpy(&word, words.data + (row / codes * groups + g) * 4, sizeof word);
      out[row * groups + g] = static_cast<uint8_t>(word >> (row % codes * bits) & ((1u << bits) - 1));
    }
  }
  return zeros;
}

void check_shape(MatrixTensors& tensors) {
  const Checkpoint::View shape = tensors.to_copy("weight_shape", {DType::kI64}, {2});
  int64_t dims[2] = {};
  std::memcpy(dims, shape.data, sizeof dims);
  if (dims[0] == tensors.rows() && dims[1] == tensors.cols()) return;
  tensors.refuse("weight_shape", fmt::format("{}, {} by the config", tensors.rows(), tensors.cols()),
                 fmt::format("{}, {}", dims[0], dims[1]));
}

PackedMatrix load_integers(MatrixTensors& tensors, const QuantizationConfig& config) {
  const int64_t N = tensors.rows();
  const int64_t K = tensors.cols();
  const std::vector<int64_t>& words = tensors.shape("weight_packed");
  const std::vector<int64_t>& scales = tensors.shape("weight_scale");
  const bool has_zeros = tensors.has("weight_zero_point");
  const PackedScheme scheme = tensors.scheme(config, [&](const PackedScheme& s) {
    return s.format != MatrixFormat::kF8E4M3Groups && s.symmetric == !has_zeros &&
           words == std::vector{N, ceil_div(K, codes_per_word(s.format))} &&
           scales == std::vector{N, ceil_div(K, s.cols_per_group)};
  });
  check_shape(tensors);
  const int64_t codes = codes_per_word(scheme.format);
  const int64_t G = ceil_div(K, scheme.cols_per_group);
  PackedMatrix matrix{.format = scheme.format, .rows = N, .cols = K};
  matrix.cols_per_group = scheme.cols_per_group;
  const Shape packed_shape{N, ceil_div(K, codes)};
  if (K % codes == 0) {
    matrix.data = tensors.in_place("weight_packed", {DType::kI32}, packed_shape);
  } else {
    const Checkpoint::View packed = tensors.to_copy("weight_packed", {DType::kI32}, packed_shape);
    matrix.data = without_padding(packed, N, packed_shape[1] * 4,
                                  row_bytes({.rows = N, .cols = K, .format = scheme.format}));
  }
  matrix.scales = tensors.in_place("weight_scale", kScaleTypes, {N, G});
  matrix.zero_point = scheme.format == MatrixFormat::kInt4Groups ? 8 : 128;
  if (has_zeros) {
    set_zeros(matrix,
              unpack_zeros(tensors.to_copy("weight_zero_point", {DType::kI32}, {ceil_div(N, codes), G}), N, G,
                           scheme.format));
  }
  if (tensors.has("weight_g_idx")) {
    set_column_groups(matrix, tensors, "weight_g_idx", scheme);
  } else if (scheme.any_order && G > 1) {
    tensors.shape("weight_g_idx");  // throws: without it the groups of actorder are unknown
  }
  return matrix;
}

PackedMatrix load_floats(MatrixTensors& tensors, const QuantizationConfig& config) {
  const int64_t N = tensors.rows();
  const int64_t K = tensors.cols();
  const std::vector<int64_t>& scales = tensors.shape("weight_scale");
  const PackedScheme scheme = tensors.scheme(config, [&](const PackedScheme& s) {
    const std::vector<int64_t> want{ceil_div(N, s.rows_per_group), ceil_div(K, s.cols_per_group)};
    const bool whole = want == std::vector<int64_t>{1, 1} && scales.size() < 2;
    return s.format == MatrixFormat::kF8E4M3Groups && (scales == want || whole);
  });
  PackedMatrix matrix{.format = scheme.format, .rows = N, .cols = K};
  matrix.rows_per_group = scheme.rows_per_group;
  matrix.cols_per_group = scheme.cols_per_group;
  matrix.data = tensors.in_place("weight", {DType::kF8E4M3}, {N, K});
  matrix.scales = tensors.in_place("weight_scale", kScaleTypes, Shape(scales))
                      .reshaped({ceil_div(N, scheme.rows_per_group), ceil_div(K, scheme.cols_per_group)});
  return matrix;
}

}  // namespace

PackedMatrix load_compressed(MatrixTensors& tensors, const QuantizationConfig& config) {
  return tensors.has("weight_packed") ? load_integers(tensors, config) : load_floats(tensors, config);
}

}  // namespace switchyard
