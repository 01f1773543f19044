// `quantization_config` of config.json: what the codes of a checkpoint's packed matrices mean. Which matrices
// are packed, and by which scheme, is for their tensors to say (io/packed/packed_matrix.h): checkpoints keep
// single layers plain or in other bits, and the rules that chose them need not be evaluated again.
//
// Methods, as in transformers' utils/quantization_config.py and the projects that write the files:
//   gptq                 int4 or int8 codes, group scales and zero points
//   awq                  int4 codes, group scales and zero points
//   fp8                  float8 (E4M3) codes, a scale for each block
//   compressed-tensors   pack-quantized: int4 or int8 codes; float-quantized: float8 codes
// Activations are float32 here. A config that has them quantised with scales found at run time (`dynamic`) is
// accepted: such scales never clip, and what is left out is rounding. One with fixed scales (`static`), which
// clip, is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/config_reader.h"
#include "tensor/matrix.h"

namespace switchyard {

enum class QuantizationMethod : uint8_t { kGptq, kAwq, kFp8, kCompressedTensors };
std::string_view name(QuantizationMethod method);  // as in `quant_method`

// A way to pack a matrix.
struct PackedScheme {
  MatrixFormat format;
  int64_t rows_per_group = 1;  // 0: all rows
  int64_t cols_per_group = 0;  // 0: all columns
  bool symmetric = false;      // every zero point is the middle code
  bool any_order = false;      // the columns of a group may stand anywhere: g_idx says where
};

struct QuantizationConfig {
  std::string path;  // for errors
  QuantizationMethod method;
  std::vector<PackedScheme> schemes;  // that the config names; at least one
  bool zeros_less_one = false;        // gptq: zero points are stored less one
};

// nullopt when there is none, or null. Throws Error for a method, format, width or activation scheme that is
// not supported, and for keys that are not understood unless "quantization_config.<key>" is in
// `ignored_keys`.
std::optional<QuantizationConfig> read_quantization_config(const ConfigReader& config,
                                                           const std::set<std::string>& ignored_keys = {});

}  // namespace switchyard
