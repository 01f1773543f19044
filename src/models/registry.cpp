#include "models/registry.h"

#include <array>

#include <fmt/ranges.h>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr std::array kFamilies = {
    Family{"qwen2_moe", "Qwen2MoeForCausalLM", make_qwen2_moe},
    Family{"qwen3_moe", "Qwen3MoeForCausalLM", make_qwen3_moe},
    Family{"mixtral", "MixtralForCausalLM", make_mixtral},
    Family{"olmoe", "OlmoeForCausalLM", make_olmoe},
    Family{"deepseek", "DeepseekForCausalLM", make_deepseek},
    Family{"deepseek_v2", "DeepseekV2ForCausalLM", make_deepseek_v2},
    Family{"deepseek_v3", "DeepseekV3ForCausalLM", make_deepseek_v3},
    Family{"qwen2", "Qwen2ForCausalLM", make_qwen2},
    Family{"qwen3", "Qwen3ForCausalLM", make_qwen3},
    Family{"llama", "LlamaForCausalLM", make_llama},
    Family{"mistral", "MistralForCausalLM", make_mistral},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family& find_family(const ConfigReader& config) {
  const std::string model_type = config.model_type();
  for (const Family& family : kFamilies) {
    if (family.model_type != model_type) continue;
    const auto architecture = config.architecture();
    if (architecture && *architecture != family.architecture) {
      throw Error(config.path(), "key 'architectures'",
                  fmt::format("{} for model_type {}", family.architecture, family.model_type),
                  printable(*architecture));
    }
    return family;
  }
  std::vector<std::string_view> known;
  for (const Family& family : kFamilies)
    known.push_back(family.model_type);
  throw Error(config.path(), "key 'model_type'", fmt::format("one of: {}", fmt::join(known, ", ")),
              printable(model_type));
}

std::unique_ptr<Model> make_model(const ConfigReader& config, WeightSource& source, Backend& backend,
                                  const LoadOptions& options) {
  std::unique_ptr<Model> model = find_family(config).make(config, source, backend, options);
  source.finish();
  return model;
}

std::unique_ptr<Model> load_model(const ModelFiles& files, Backend& backend, const LoadOptions& options) {
  const ConfigReader config = files.config();
  const ModelFiles::Weights weights = files.weights(config, options.ignored_keys);
  std::unique_ptr<Model> model = make_model(config, *weights.source, backend, options);
  model->set_weights_check(weights.verify_unchanged);
  if (options.on_note) {
    for (const std::string& note : weights.all_notes())
      options.on_note(note);
  }
  return model;
}

std::unique_ptr<Model> load_model(const std::string& path, Backend& backend, const LoadOptions& options) {
  return load_model(*ModelFiles::open(path), backend, options);
}

}  // namespace switchyard
