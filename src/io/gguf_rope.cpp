#include "io/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "io/safetensors.h"

namespace switchyard {
namespace {

constexpr const char* kFactorsName = "rope_freqs.weight";
// Llama 3.1 and later; the factor is 8 or 32.
constexpr double kLowFactor = 1;
constexpr double kHighFactor = 4;
constexpr double kOriginalLength = 8192;

// What rope type llama3 divides the frequency `f` by (transformers, _compute_llama3_parameters).
double llama3_divisor(double f, double factor) {
  const double turns = kOriginalLength * f / (2 * std::numbers::pi);  // in the original context
  if (turns > kHighFactor) return 1;
  if (turns < kLowFactor) return factor;
  const double smooth = (turns - kLowFactor) / (kHighFactor - kLowFactor);
  return 1 / ((1 - smooth) / factor + smooth);
}

// The file keeps one divisor for each frequency, config.json the rule that they follow.
Json scaling_of_factors(const GgufFile& file, const GgufTensor& tensor, double theta) {
  const auto fail = [&](const std::string& got) {
    throw Error(file.path(), tensor_item(kFactorsName), "factors of rope type llama3", got);
  };
  if (tensor.format != MatrixFormat::kPlain || tensor.shape.size() != 1) fail("another kind of tensor");
  std::vector<float> factors(static_cast<size_t>(tensor.cols()));
  convert_to_f32(tensor.dtype, file.data(tensor), tensor.cols(), factors.data());
  const double factor = *std::max_element(factors.begin(), factors.end());
  if (factor == 1 && std::count(factors.begin(), factors.end(), 1.0f) == tensor.cols()) return nullptr;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(factors.size());
    const double want = llama3_divisor(std::pow(theta, -exponent), factor);
    if (!(std::fabs(factors[i] - want) <= 1e-4 * want)) {
      fail(fmt::format("{} for frequency {} instead of {}", factors[i], i, want));
    }
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLowFactor},
          {"high_freq_factor", kHighFactor},
          {"original_max_position_embeddings", static_cast<uint64_t>(kOriginalLength)}};
}

Json yarn(const ConfigReader& keys, const std::string& scaling, double factor, bool latent) {
  Json result = {{"rope_type", "yarn"}, {"factor", factor}};
  if (const auto length = keys.optional_int(scaling + "original_context_length", 1, INT32_MAX)) {
    result["original_max_position_embeddings"] = static_cast<uint64_t>(*length);
  }
  for (const char* beta : {"beta_fast", "beta_slow"}) {
    if (const auto value = keys.optional_number(scaling + "yarn_" + beta, 0, 1e6)) result[beta] = *value;
  }
  const std::string multiplier = scaling + "yarn_log_multiplier";
  const auto value = keys.optional_number(multiplier, 0, 1e3);
  if (latent && !value) {
    throw Error(keys.path(), fmt::format("key '{}'", multiplier), "a number, which deepseek2 needs for yarn",
                "none");
  }
  if (value) {
    // Stored times 0.1. The published models have equal values for both.
    result["mscale"] = result["mscale_all_dim"] = *value * 10;
  }
  return result;
}

}  // namespace

Json gguf_rope_scaling(const GgufFile& file, const ConfigReader& keys, const std::string& prefix,
                       bool latent) {
  const std::string scaling = prefix + "rope.scaling.";
  const std::string type = keys.string_or(scaling + "type", "none");
  const double old_linear = keys.number_or(prefix + "rope.scale_linear", 1, 1e-3, 1e6);
  const double factor = keys.number_or(scaling + "factor", old_linear, 1e-3, 1e6);
  if (keys.number_or(scaling + "attn_factor", 1, 0, 1e6) != 1) {
    throw Error(file.path(), fmt::format("key '{}attn_factor'", scaling), "1", "another number");
  }
  keys.bool_or(scaling + "finetuned", true);  // whether training knew of the scaling: a description
  const GgufTensor* factors = file.find(kFactorsName);
  const auto refuse_factors = [&] {
    if (factors == nullptr) return;
    throw Error(file.path(), tensor_item(kFactorsName),
                fmt::format("none with scaling type {}", printable(type)), "a tensor");
  };
  if (type == "none") {
    if (factors == nullptr)
      return old_linear == 1 ? Json() : Json{{"rope_type", "linear"}, {"factor", old_linear}};
    return scaling_of_factors(file, *factors, keys.number_or(prefix + "rope.freq_base", 10000.0, 1, 1e15));
  }
  refuse_factors();
  if (type == "linear") return factor == 1 ? Json() : Json{{"rope_type", "linear"}, {"factor", factor}};
  if (type == "yarn") return yarn(keys, scaling, factor, latent);
  throw Error(file.path(), fmt::format("key '{}type'", scaling), "none, linear or yarn", printable(type));
}

}  // namespace switchyard
