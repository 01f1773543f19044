// The golden folders: small checkpoints with results by an independent implementation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/safetensors.h"

namespace switchyard {

struct ReferenceTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;  // integers by value

  std::vector<int32_t> ids() const { return {values.begin(), values.end()}; }
};

inline std::map<std::string, ReferenceTensor> read_reference(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  std::map<std::string, ReferenceTensor> tensors;
  for (const TensorInfo& info : file->tensors()) {
    ReferenceTensor& t = tensors[info.name];
    t.shape = info.shape;
    t.values.resize(static_cast<size_t>(info.size_bytes / size_bytes(info.dtype)));
    convert_to_f32(info.dtype, file->data(info), static_cast<int64_t>(t.values.size()), t.values.data());
  }
  return tensors;
}

inline std::string golden_root() {
  return SWITCHYARD_SOURCE_DIR "/tests/data/golden/";
}

std::vector<std::string> golden_cases();  // names of the folders, sorted

// input_ids [B, T] as B sequences.
std::vector<std::vector<int32_t>> sequences_of(const ReferenceTensor& input_ids);

// The largest absolute difference; NaN when there is one.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b);
// Norm of the difference over the norm of what is wanted.
double relative_norm(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace switchyard
