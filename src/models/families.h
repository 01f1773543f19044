// One constructor per family. Each reads its keys from the config, asks reader.finish() so that nothing stays
// unread, and binds its tensors from the source; the caller then asks source.finish().
#pragma once

#include <memory>
#include <set>
#include <string>

#include "models/model.h"

namespace switchyard {

class ConfigReader;

struct LoadOptions {
  std::set<std::string> ignored_keys;  // config keys that the user has declared harmless
  // Rotary frequencies are float32. kBF16 rounds them, as `model.to(torch.bfloat16)` does with a whole model:
  // only for comparison with results that were made that way.
  DType rope_precision = DType::kF32;
};

std::unique_ptr<Model> make_qwen2_moe(const ConfigReader& reader, WeightSource& source, Backend& backend,
                                      const LoadOptions& options);

}  // namespace switchyard
