// AWQ, version gemm, with N rows and K columns of the matrix and G groups:
//   qweight  int32 [K, N / 8]   code (k, n) in word (k, n / 8)
//   qzeros   int32 [G, N / 8]   zero points, likewise
//   scales   float [G, N]
//   weight[n, k] = scales[k / group_size, n] * (code - zero)
// The fields of a word hold, from the lowest bits on, the rows 0, 2, 4, 6, 1, 3, 5, 7 of its eight. Source:
// AutoAWQ's WQLinear_GEMM.
#include <algorithm>
#include <cstring>

#include "io/packed/methods.h"

namespace switchyard {
namespace {

constexpr int64_t kCodes = 8;
constexpr int64_t kRowOfField[kCodes] = {0, 2, 4, 6, 1, 3, 5, 7};

uint32_t word_at(const Checkpoint::View& words, int64_t i) {
  uint32_t word = 0;
  std::memcpy(&word, words.data + i * 4, sizeof word);
  return word;
}

// The codes as rows of consecutive columns; eight columns of eight rows at a time.
Tensor repack(const Checkpoint::View& words, int64_t rows, int64_t cols) {
  const int64_t row_bytes = (cols + 1) / 2;
  const Tensor data = host_tensor(DType::kU8, {rows, row_bytes});
  auto* out = static_cast<std::byte*>(data.mutable_data());
  const int64_t words_per_col = rows / kCodes;
  for (int64_t i = 0; i < words_per_col; ++i) {
    for (int64_t col = 0; col < cols; col += kCodes) {
      uint32_t eight[kCodes] = {};
      for (int64_t c = 0; c < std::min(kCodes, cols - col); ++c)
        eight[c] = word_at(words, (col + c) * words_per_col + i);
      for (int64_t field = 0; field < kCodes; ++field) {
        uint32_t packed = 0;
        for (int64_t c = 0; c < kCodes; ++c)
          packed |= (eight[c] >> (4 * field) & 0x0Fu) << (4 * c);
        const int64_t row = i * kCodes + kRowOfField[field];
        std::memcpy(out + row * row_bytes + col / 2, &packed,
                    static_cast<size_t>(std::min<int64_t>(4, row_bytes - col / 2)));
      }
    }
  }
  return data;
}

Tensor unpack_zeros(const Checkpoint::View& words, int64_t groups, int64_t rows) {
  const Tensor zeros = host_tensor(DType::kU8, {rows, groups});
  auto* out = static_cast<uint8_t*>(zeros.mutable_data());
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t i = 0; i < rows / kCodes; ++i) {
      const uint32_t word = word_at(words, g * (rows / kCodes) + i);
      for (int64_t field = 0; field < kCodes; ++field)
        out[(i * kCodes + kRowOfField[field]) * groups + g] = word >> (4 * field) & 0x0Fu;
    }
  }
  return zeros;
}

}  // namespace

PackedMatrix load_awq(MatrixTensors& tensors, const QuantizationConfig& config) {
  const int64_t N = tensors.rows();
  const int64_t K = tensors.cols();
  const std::vector<int64_t>& words = tensors.shape("qweight");
  const std::vector<int64_t>& scales = tensors.shape("scales");
  const PackedScheme scheme = tensors.scheme(config, [&](const PackedScheme& s) {
    return N % kCodes == 0 && words == std::vector{K, N / kCodes} &&
           scales == std::vector{ceil_div(K, s.cols_per_group), N};
  });
  const int64_t G = ceil_div(K, scheme.cols_per_group);
  PackedMatrix matrix{.format = scheme.format, .rows = N, .cols = K};
  matrix.cols_per_group = scheme.cols_per_group;
  matrix.data = repack(tensors.to_copy("qweight", {DType::kI32}, {K, N / kCodes}), N, K);
  matrix.scales = transposed(tensors.to_copy("scales", kScaleTypes, {G, N}), G, N);
  set_zeros(matrix, unpack_zeros(tensors.to_copy("qzeros", {DType::kI32}, {G, N / kCodes}), G, N));
  return matrix;
}

}  // namespace switchyard
