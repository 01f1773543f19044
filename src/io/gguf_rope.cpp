#include "io/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "io/tensor_file.h"

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

Json yarn(const GgufKeys& keys, double factor, bool latent) {
  Json result = {{"rope_type", "yarn"}, {"factor", factor}};
  if (const int64_t length = keys.int_or("rope.scaling.original_context_length", 0)) {
    result["original_max_position_embeddings"] = static_cast<uint64_t>(length);
  }
  for (const char* beta : {"beta_fast", "beta_slow"}) {
    if (const auto value = keys.optional_number(fmt::format("rope.scaling.yarn_{}", beta)))
      result[beta] = *value;
  }
  const char* multiplier_key = "rope.scaling.yarn_log_multiplier";
  const auto multiplier = keys.optional_number(multiplier_key);
  if (latent && !multiplier) keys.fail(multiplier_key, "a number, which deepseek2 needs for yarn", "none");
  if (multiplier) {
    // Stored times 0.1. The published models have equal values for both.
    result["mscale"] = result["mscale_all_dim"] = *multiplier * 10;
  }
  return result;
}

Json linear(double factor) {
  return factor == 1 ? Json() : Json{{"rope_type", "linear"}, {"factor", factor}};
}

}  // namespace

Json gguf_rope_scaling(const GgufKeys& keys, bool latent) {
  const std::string type = keys.string_or("rope.scaling.type", "none");
  const double old_factor = keys.number_or("rope.scale_linear", 1);
  const double factor = keys.number_or("rope.scaling.factor", old_factor);
  if (keys.number_or("rope.scaling.attn_factor", 1) != 1)
    keys.fail("rope.scaling.attn_factor", "1", "another number");
  keys.bool_or("rope.scaling.finetuned", true);  // whether training knew of the scaling: a description
  if (const GgufTensor* factors = keys.file().find(kFactorsName)) {
    if (type == "none")
      return scaling_of_factors(keys.file(), *factors, keys.number_or("rope.freq_base", 10000.0));
    throw Error(keys.file().path(), tensor_item(kFactorsName),
                fmt::format("none with scaling type {}", printable(type)), "a tensor");
  }
  if (type == "none") return linear(old_factor);
  if (type == "linear") return linear(factor);
  if (type == "yarn") return yarn(keys, factor, latent);
  keys.fail("rope.scaling.type", "none, linear or yarn", printable(type));
}

}  // namespace switchyard
