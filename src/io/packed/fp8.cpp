// FP8 in blocks, with N rows and K columns of the matrix and blocks of b rows and d columns:
//   weight            float8 E4M3 [N, K]
//   weight_scale_inv  float [ceil(N / b), ceil(K / d)]; in spite of its name it multiplies
//   weight[n, k] = scale[n / b, k / d] * code; blocks at the edges are smaller
// Source: DeepSeek-V3, and transformers' integrations/finegrained_fp8.py.
#include "io/packed/methods.h"

namespace switchyard {

PackedMatrix load_fp8(MatrixTensors& tensors, const QuantizationConfig& config) {
  const PackedScheme& scheme = config.schemes.front();
  PackedMatrix matrix{.format = scheme.format, .rows = tensors.rows(), .cols = tensors.cols()};
  matrix.rows_per_group = scheme.rows_per_group;
  matrix.cols_per_group = scheme.cols_per_group;
  matrix.data = tensors.in_place("weight", {DType::kF8E4M3}, {matrix.rows, matrix.cols});
  matrix.scales = tensors.in_place(
      "weight_scale_inv", kScaleTypes,
      {ceil_div(matrix.rows, scheme.rows_per_group), ceil_div(matrix.cols, scheme.cols_per_group)});
  return matrix;
}

}  // namespace switchyard
