// GPTQ, with N rows and K columns of the matrix, c codes a word and G groups:
//   qweight  int32 [K / c, N]   code (k, n) in word (k / c, n), k % c from the lowest bits on
//   qzeros   int32 [G, N / c]   zero point (g, n) in word (g, n / c)
//   scales   float [G, N]
//   g_idx    int32 [K]          the group of each column; absent in some files without desc_act
//   weight[n, k] = scales[g, n] * (code - zero)
// Older files (checkpoint_format gptq) hold words of zero points less one in every field, gptq_v2 files the
// zero points themselves. Source: AutoGPTQ and GPTQModel, which converts whole words as it is done here: only
// so does a zero point of 0, which borrows from the next field, come back.
#include <cstring>

#include "base/error.h"
#include "io/packed/methods.h"

namespace switchyard {
namespace {

// The zero points [G, N] of the words [G, N / c], as bytes [N, G].
Tensor unpack_zeros(const Checkpoint::View& words, int64_t groups, int64_t rows, MatrixFormat format,
                    bool less_one) {
  const bool four_bits = format == MatrixFormat::kInt4Groups;
  const int64_t codes = codes_per_word(format);
  const int64_t bits = 32 / codes;
  const uint32_t one_each = less_one ? (four_bits ? 0x11111111u : 0x01010101u) : 0;
  const Tensor zeros = host_tensor(DType::kU8, {rows, groups});
  auto* out = static_cast<uint8_t*>(zeros.mutable_data());
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t i = 0; i < rows / codes; ++i) {
      uint32_t word = 0;
      std::memcpy(&word, words.data + (g * (rows / codes) + i) * 4, sizeof word);
      word += one_each;
      for (int64_t j = 0; j < codes; ++j)
        out[(i * codes + j) * groups + g] =
            static_cast<uint8_t>(word >> (j * bits) & (four_bits ? 0x0Fu : 0xFFu));
    }
  }
  return zeros;
}

void check_symmetric(const PackedMatrix& matrix, const MatrixTensors& tensors) {
  const int32_t middle = matrix.format == MatrixFormat::kInt4Groups ? 8 : 128;
  if (!matrix.zeros && matrix.zero_point == middle) return;
  tensors.refuse("qzeros", fmt::format("zero points of {} by sym and checkpoint_format", middle),
                 matrix.zeros ? "others" : fmt::format("{}", matrix.zero_point));
}

}  // namespace

PackedMatrix load_gptq(MatrixTensors& tensors, const QuantizationConfig& config) {
  const int64_t N = tensors.rows();
  const int64_t K = tensors.cols();
  const std::vector<int64_t>& words = tensors.shape("qweight");
  const std::vector<int64_t>& scales = tensors.shape("scales");
  const PackedScheme scheme = tensors.scheme(config, [&](const PackedScheme& s) {
    const int64_t codes = codes_per_word(s.format);
    return K % codes == 0 && N % codes == 0 && words == std::vector{K / codes, N} &&
           scales == std::vector{ceil_div(K, s.cols_per_group), N};
  });
  const int64_t codes = codes_per_word(scheme.format);
  const int64_t G = ceil_div(K, scheme.cols_per_group);
  PackedMatrix matrix{.format = scheme.format, .rows = N, .cols = K};
  matrix.cols_per_group = scheme.cols_per_group;
  matrix.data = transposed(tensors.to_copy("qweight", {DType::kI32}, {K / codes, N}), K / codes, N);
  matrix.scales = transposed(tensors.to_copy("scales", kScaleTypes, {G, N}), G, N);
  set_zeros(matrix, unpack_zeros(tensors.to_copy("qzeros", {DType::kI32}, {G, N / codes}), G, N,
                                 scheme.format, config.zeros_less_one));
  if (scheme.symmetric) check_symmetric(matrix, tensors);
  if (tensors.has("g_idx")) {
    set_column_groups(matrix, tensors, "g_idx", scheme);
  } else if (scheme.any_order && G > 1) {
    tensors.shape("g_idx");  // throws: without it the groups of desc_act are unknown
  }
  return matrix;
}

}  // namespace switchyard
