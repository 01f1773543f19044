#include "models/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace switchyard {
namespace {

double number(const RopeConfig& rope, const char* key) {
  return rope.parameters.at(key).get<double>();
}

double number_or(const RopeConfig& rope, const char* key, double absent) {
  return rope.parameters.contains(key) ? number(rope, key) : absent;
}

std::string item(const RopeConfig& rope, const std::string& key) {
  return fmt::format("{}.{}", rope.object, key);
}

// base^(2i/R): the inverse of the frequencies of type `default`.
std::vector<float> powers(double base, int64_t rotary_dim) {
  std::vector<float> result;
  for (int64_t i = 0; i < rotary_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rotary_dim);
    result.push_back(std::pow(static_cast<float>(base), exponent));
  }
  return result;
}

std::vector<float> inverses(std::vector<float> values) {
  for (float& value : values)
    value = 1.0f / value;
  return values;
}

std::vector<float> linear(const RopeConfig& rope, int64_t rotary_dim) {
  std::vector<float> inverse = inverses(powers(rope.theta, rotary_dim));
  for (float& frequency : inverse)
    frequency /= static_cast<float>(number(rope, "factor"));
  return inverse;
}

std::vector<float> dynamic(const RopeConfig& rope, int64_t rotary_dim, int64_t max_positions,
                           int64_t length) {
  if (rotary_dim <= 2) {
    throw Error(rope.path, item(rope, "rope_type"), "another one than dynamic for heads that rotate 2 values",
                "dynamic");
  }
  if (length <= max_positions) return inverses(powers(rope.theta, rotary_dim));
  const double factor = number(rope, "factor");
  const float stretch =
      static_cast<float>(factor) * static_cast<float>(length) / static_cast<float>(max_positions);
  const float growth = stretch - static_cast<float>(factor - 1);
  const double exponent = static_cast<double>(rotary_dim) / static_cast<double>(rotary_dim - 2);
  const float base = static_cast<float>(rope.theta) * std::pow(growth, static_cast<float>(exponent));
  return inverses(powers(base, rotary_dim));
}

// How much yarn lengthens cos and sin for a context stretched by `factor`.
double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeConfig& rope) {
  const double factor = number(rope, "factor");
  const double mscale = number_or(rope, "mscale", 0);
  const double mscale_all_dim = number_or(rope, "mscale_all_dim", 0);
  double result = yarn_mscale(factor, 1);
  if (mscale != 0 && mscale_all_dim != 0) {
    result = yarn_mscale(factor, mscale) / yarn_mscale(factor, mscale_all_dim);
  }
  return number_or(rope, "attention_factor", result);
}

std::vector<float> yarn(const RopeConfig& rope, int64_t rotary_dim) {
  if (rope.theta <= 1) {  // then every pair turns alike, and none has a place on the ramp
    throw Error(rope.path, item(rope, "rope_theta"), "a number above 1 for type yarn",
                fmt::format("{}", rope.theta));
  }
  const auto dim = static_cast<double>(rotary_dim);
  // The pair, as a fraction, that turns so many times within the original length.
  const auto pair_of = [&](double turns) {
    const double original = number(rope, "original_max_position_embeddings");
    return dim * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = pair_of(number_or(rope, "beta_fast", 32));
  double high = pair_of(number_or(rope, "beta_slow", 1));
  if (rope.parameters.value("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;

  const auto factor = static_cast<float>(number(rope, "factor"));
  std::vector<float> result = powers(rope.theta, rotary_dim);
  for (size_t i = 0; i < result.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float interpolated = 1.0f / (factor * result[i]);
    result[i] = interpolated * (1.0f - kept) + 1.0f / result[i] * kept;
  }
  return result;
}

std::vector<float> llama3(const RopeConfig& rope, int64_t rotary_dim) {
  const auto factor = static_cast<float>(number(rope, "factor"));
  const double low = number(rope, "low_freq_factor");
  const double high = number(rope, "high_freq_factor");
  const double original = number(rope, "original_max_position_embeddings");
  std::vector<float> result = inverses(powers(rope.theta, rotary_dim));
  for (float& frequency : result) {
    const float wavelength = 1.0f / frequency * static_cast<float>(2 * std::numbers::pi);
    if (wavelength > static_cast<float>(original / low)) {
      frequency /= factor;
    } else if (!(wavelength < static_cast<float>(original / high))) {
      const float turns = 1.0f / wavelength * static_cast<float>(original);
      const float smooth = (turns - static_cast<float>(low)) / static_cast<float>(high - low);
      frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
    }
  }
  return result;
}

std::vector<float> factors(const RopeConfig& rope, const char* key, int64_t rotary_dim) {
  auto result = rope.parameters.at(key).get<std::vector<float>>();
  if (static_cast<int64_t>(result.size()) != rotary_dim / 2) {
    throw Error(rope.path, item(rope, key), fmt::format("{} numbers, one for each pair", rotary_dim / 2),
                fmt::format("{}", result.size()));
  }
  return result;
}

std::vector<float> longrope(const RopeConfig& rope, int64_t rotary_dim, int64_t length) {
  const std::vector<float> short_factors = factors(rope, "short_factor", rotary_dim);
  const std::vector<float> long_factors = factors(rope, "long_factor", rotary_dim);
  const bool is_long = static_cast<double>(length) > number(rope, "original_max_position_embeddings");
  std::vector<float> result = powers(rope.theta, rotary_dim);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] *= (is_long ? long_factors : short_factors)[i];
  return inverses(result);
}

double longrope_attention_factor(const RopeConfig& rope, int64_t max_positions) {
  const double original = number(rope, "original_max_position_embeddings");
  const double factor = number_or(rope, "factor", static_cast<double>(max_positions) / original);
  const double result = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
  return number_or(rope, "attention_factor", result);
}

RopeFrequencies compute(const RopeConfig& rope, int64_t rotary_dim, int64_t max_positions, int64_t length) {
  if (rope.type == "default") return {.inverse = inverses(powers(rope.theta, rotary_dim))};
  if (rope.type == "linear") return {.inverse = linear(rope, rotary_dim)};
  if (rope.type == "dynamic") return {.inverse = dynamic(rope, rotary_dim, max_positions, length)};
  if (rope.type == "llama3") return {.inverse = llama3(rope, rotary_dim)};
  if (rope.type == "yarn") {
    return {.inverse = yarn(rope, rotary_dim),
            .attention_factor = static_cast<float>(yarn_attention_factor(rope))};
  }
  SY_CHECK(rope.type == "longrope", "rope type {}", rope.type);
  return {.inverse = longrope(rope, rotary_dim, length),
          .attention_factor = static_cast<float>(longrope_attention_factor(rope, max_positions))};
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeConfig& rope, int64_t rotary_dim, int64_t max_positions,
                                 int64_t length) {
  SY_CHECK(rotary_dim > 0 && rotary_dim % 2 == 0, "{} rotated values", rotary_dim);
  RopeFrequencies result = compute(rope, rotary_dim, max_positions, length);
  const auto check_finite = [&](const char* what, float value) {
    if (std::isfinite(value)) return;
    throw Error(rope.path, rope.object,
                fmt::format("parameters of type {} that give a finite {}", rope.type, what),
                fmt::format("{}", value));
  };
  for (const float frequency : result.inverse)
    check_finite("frequency", frequency);
  check_finite("attention factor", result.attention_factor);
  return result;
}

int64_t constant_rope_length(const RopeConfig& rope, int64_t max_positions) {
  if (rope.type == "dynamic") return max_positions;
  if (rope.type == "longrope") return rope.parameters.at("original_max_position_embeddings").get<int64_t>();
  return INT64_MAX;
}

double deepseek_attention_scale(const RopeConfig& rope, double scale) {
  const double mscale_all_dim = number_or(rope, "mscale_all_dim", 0);
  if (mscale_all_dim == 0) return scale;
  const double mscale = yarn_mscale(number(rope, "factor"), mscale_all_dim);
  return scale * mscale * mscale;
}

void check_full_rotation(const RopeConfig& rope) {
  const double part = number_or(rope, "partial_rotary_factor", 1);
  if (part == 1) return;
  throw Error(rope.path, item(rope, "partial_rotary_factor"), "1: this family rotates whole heads",
              fmt::format("{}", part));
}

}  // namespace switchyard
