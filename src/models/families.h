// One constructor per family. Each reads its keys from the config, asks reader.finish() so that nothing stays
// unread, and binds its tensors from the source; the caller then asks source.finish().
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "models/model.h"

namespace switchyard {

class ConfigReader;

struct LoadOptions {
  std::set<std::string> ignored_keys = {};  // config keys that the user has declared harmless
  // Rotary frequencies are float32. kBF16 rounds them, as `model.to(torch.bfloat16)` does with a whole model:
  // only for comparison with results that were made that way.
  DType rope_precision = DType::kF32;
  std::function<void(const std::string&)> on_note = {};  // gets what a user should know of the files
};

using MakeModel = std::unique_ptr<Model>(const ConfigReader& config, WeightSource& source, Backend& backend,
                                         const LoadOptions& options);

MakeModel make_qwen2_moe;
MakeModel make_qwen3_moe;
MakeModel make_mixtral;
MakeModel make_olmoe;
MakeModel make_deepseek;
MakeModel make_deepseek_v2;
MakeModel make_deepseek_v3;
MakeModel make_qwen2;
MakeModel make_qwen3;
MakeModel make_llama;
MakeModel make_mistral;

}  // namespace switchyard
