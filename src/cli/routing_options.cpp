#include "cli/routing_options.h"

#include <charconv>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "cli/common.h"

namespace switchyard {
namespace {

constexpr int64_t kMaxBiasFileBytes = 64 << 20;

// What a preset stands for.
struct Preset {
  int64_t top_k;
  bool may_have_capacity;
  std::optional<double> capacity_factor;
};

const std::map<std::string, Preset>& presets() {
  static const std::map<std::string, Preset> all{
      {"switch", {1, true, {}}}, {"glam", {2, false, {}}}, {"gshard", {2, true, 2.0}}};
  return all;
}

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "0" is layer 0; "*" all layers with experts.
std::vector<int> layers_of(const ModelShape& model, std::string_view text) {
  if (text != "*") {
    const auto layer = parse_int(text);
    return layer ? std::vector{*layer} : std::vector<int>{};
  }
  std::vector<int> layers;
  for (int i = 0; i < static_cast<int>(model.layers.size()); ++i) {
    if (model.layers[static_cast<size_t>(i)].experts > 0) layers.push_back(i);
  }
  return layers;
}

// The parser takes an empty text for an absent option.
std::string not_empty(const std::string& text) {
  return text.empty() ? "expected a text, got an empty one" : "";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

std::map<int, std::vector<int32_t>> parse_mask(const ModelShape& model, std::string_view text) {
  std::map<int, std::vector<int32_t>> mask;
  for (const std::string_view entry : split(text, ';')) {
    const std::vector<std::string_view> sides = split(entry, ':');
    const std::vector<int> layers = sides.size() == 2 ? layers_of(model, sides[0]) : std::vector<int>{};
    bool valid = !layers.empty();
    for (const std::string_view part : split(sides.back(), ',')) {
      const auto expert = parse_int(part);
      valid = valid && expert;
      for (const int layer : layers)
        mask[layer].push_back(expert.value_or(-1));
    }
    if (!valid) {
      throw Error("--expert-mask", "", "LAYER:EXPERT,EXPERT;LAYER:EXPERT with numbers, or * for all layers",
                  fmt::format("'{}'", printable(entry)));
    }
  }
  return mask;
}

std::map<int, std::vector<float>> read_bias(const std::string& path) {
  const Json document = parse_json(read_file(path, kMaxBiasFileBytes), path);
  const std::string expected = "an object of lists of numbers by layer";
  if (!document.is_object()) throw Error(path, "", expected, describe(document));
  std::map<int, std::vector<float>> bias;
  for (const auto& [key, list] : document.items()) {
    const auto layer = parse_int(key);
    const std::string item = fmt::format("key '{}'", printable(key));
    if (!layer || std::to_string(*layer) != key)
      throw Error(path, item, "the number of a layer", "another key");
    if (!list.is_array()) throw Error(path, item, "a list of numbers", describe(list));
    for (const Json& number : list) {
      if (!number.is_number()) throw Error(path, item, "numbers", describe(number));
      bias[*layer].push_back(number.get<float>());
    }
    if (list.empty()) throw Error(path, item, "one number for each expert", "none");
  }
  return bias;
}

}  // namespace

void RouterOptions::add_to(CLI::App& app) {
  app.add_option("--routing", preset,
                 "switch: one expert per token; glam: two; gshard: two, with --capacity-factor 2")
      ->check(CLI::IsMember({"switch", "glam", "gshard"}));
  add_policy_to(app);
  CLI::Option* fixed =
      app.add_option("--expert-capacity", capacity, "Assignments that an expert takes in a step")
          ->check(is_integer());
  app.add_option("--capacity-factor", capacity_factor, "The same as a multiple of an even load")
      ->check(is_number())
      ->excludes(fixed);
  app.add_option("--overflow", overflow,
                 "What becomes of assignments beyond the capacity: drop (default), or reroute to the next "
                 "best expert")
      ->check(CLI::IsMember({"drop", "reroute"}));
  app.parse_complete_callback([this] { check_usage(); });
}

void RouterOptions::add_policy_to(CLI::App& app) {
  app.add_option("--top-k-experts", top_k, "Experts per token; default: as the model was trained")
      ->check(is_integer());
  app.add_option("--router-temperature", temperature,
                 "Divides the router's logits: below 1 sharper, above 1 more even")
      ->check(is_number());
  app.add_option("--expert-mask", mask,
                 "Experts never to choose: LAYER:EXPERT,EXPERT;LAYER:EXPERT, * for all layers")
      ->check(not_empty);
  CLI::Option* bias =
      app.add_option("--expert-bias", bias_file,
                     "JSON file, added to the router's logits: {\"LAYER\": [a number for each expert]}")
          ->check(not_empty);
  app.add_option("--expert-bias-strength", bias_strength, "What that is multiplied by")
      ->check(is_number())
      ->needs(bias)
      ->capture_default_str();
}

void RouterOptions::check_usage() const {
  const auto refuse = [&](const std::string& option, const std::string& why) {
    throw CLI::ValidationError(option, why);
  };
  const Preset meant = preset ? presets().at(*preset) : Preset{0, true, {}};
  const bool limited = capacity || capacity_factor;
  if (overflow && !limited && !meant.capacity_factor) {
    refuse("--overflow", "needs --expert-capacity or --capacity-factor");
  }
  if (!preset) return;
  const std::string name = "--routing " + *preset;
  if (top_k && *top_k != meant.top_k) {
    refuse("--top-k-experts", fmt::format("{} contradicts {}, which is {}", *top_k, name, meant.top_k));
  }
  if (limited && !meant.may_have_capacity) refuse(name, "has no capacity");
  if (meant.capacity_factor && capacity) refuse("--expert-capacity", "contradicts " + name);
  if (meant.capacity_factor && capacity_factor && *capacity_factor != *meant.capacity_factor) {
    refuse("--capacity-factor",
           fmt::format("{} contradicts {}, which is {}", *capacity_factor, name, *meant.capacity_factor));
  }
}

RoutingOptions RouterOptions::for_model(Backend& backend, const ModelShape& model) const {
  if (!preset && !top_k && !temperature && !bias_file && !mask && !capacity && !capacity_factor) return {};
  check_has_experts(model);
  RoutingPolicyOptions policy{.top_k = top_k};
  std::optional<double> factor = capacity_factor;
  if (preset) {
    policy.top_k = presets().at(*preset).top_k;
    if (presets().at(*preset).capacity_factor) factor = presets().at(*preset).capacity_factor;
  }
  policy.temperature = temperature.value_or(1);
  policy.strength = bias_strength;
  if (bias_file) policy.bias = read_bias(*bias_file);
  if (mask) policy.mask = parse_mask(model, *mask);
  RoutingOptions routing;
  if (policy.top_k || temperature || bias_file || mask) {
    routing.policy = make_routing_policy(backend, model, policy);
  }
  if (capacity || factor) {
    routing.capacity = Capacity{.fixed = capacity};
    if (factor) routing.capacity->factor = *factor;
    if (overflow == "reroute") routing.capacity->overflow = Overflow::kReroute;
    check(*routing.capacity, model);
  }
  return routing;
}

}  // namespace switchyard
