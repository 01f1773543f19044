#include "io/packed/packed_matrix.h"

#include "base/error.h"
#include "io/packed/methods.h"

namespace switchyard {
namespace {

// The tensor that makes a matrix a packed one, or "".
std::string packed_leaf(const MatrixTensors& tensors) {
  for (const char* leaf : {"qweight", "weight_packed"}) {
    if (!tensors.has(leaf)) continue;
    if (tensors.has("weight")) tensors.refuse("weight", fmt::format("none beside {}", leaf), "a plain one");
    return leaf;
  }
  return tensors.has("weight", DType::kF8E4M3) ? "weight" : "";
}

using Load = PackedMatrix (*)(MatrixTensors&, const QuantizationConfig&);

// Null: the method has no such tensor.
Load loader(QuantizationMethod method, const std::string& leaf) {
  switch (method) {
    case QuantizationMethod::kGptq:
      return leaf == "qweight" ? load_gptq : nullptr;
    case QuantizationMethod::kAwq:
      return leaf == "qweight" ? load_awq : nullptr;
    case QuantizationMethod::kFp8:
      return leaf == "weight" ? load_fp8 : nullptr;
    case QuantizationMethod::kCompressedTensors:
      return leaf != "qweight" ? load_compressed : nullptr;
  }
  return nullptr;
}

}  // namespace

std::optional<LoadedMatrix> load_packed_matrix(const Checkpoint& checkpoint,
                                               const std::optional<QuantizationConfig>& config,
                                               const std::string& name, int64_t rows, int64_t cols) {
  MatrixTensors tensors(checkpoint, name, rows, cols);
  const std::string leaf = packed_leaf(tensors);
  if (leaf.empty()) return std::nullopt;
  const Load load = config ? loader(config->method, leaf) : nullptr;
  if (load == nullptr) {
    tensors.refuse(leaf, "a quantization_config that says what it means",
                   config ? fmt::format("one of method {}", switchyard::name(config->method)) : "none");
  }
  LoadedMatrix loaded{load(tensors, *config), tensors.used()};
  tensors.release_copied();
  return loaded;
}

}  // namespace switchyard
