// Matrices that a checkpoint keeps packed. The tensors beside <name> say whether and how:
//   qweight, qzeros, scales [, g_idx]                       gptq.cpp or awq.cpp, by the config's method
//   weight (float8), weight_scale_inv                       fp8.cpp
//   weight_packed, weight_scale, weight_shape               compressed_tensors.cpp
//     [, weight_zero_point] [, weight_g_idx]
//   weight (float8), weight_scale                           compressed_tensors.cpp
// Codes that lie as tensor/matrix.h wants them stay in the mapped file; others are copied into its layout,
// and the pages they came from are released, so that loading needs no more memory than the weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/quantization_config.h"
#include "tensor/matrix.h"

namespace switchyard {

struct LoadedMatrix {
  PackedMatrix matrix;
  std::vector<std::string> tensors;  // that it was made of
};

// The matrix <name>.weight [rows, cols], or nullopt when the checkpoint has no packed one. Throws Error for
// tensors that are incomplete, contradict each other or `config`, or when `config`, absent for a checkpoint
// without one, does not go with them.
std::optional<LoadedMatrix> load_packed_matrix(const Checkpoint& checkpoint,
                                               const std::optional<QuantizationConfig>& config,
                                               const std::string& name, int64_t rows, int64_t cols);

}  // namespace switchyard
