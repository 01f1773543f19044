#include "io/rope_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr double kMinTheta = 1.0;
constexpr double kMaxTheta = 1e15;
constexpr const char* kOriginalLength = "original_max_position_embeddings";

enum class Kind { kFactor, kFraction, kPositive, kNumber, kLength, kBool, kPositives };

struct Parameter {
  std::string_view key;
  Kind kind;
};

constexpr std::array<Parameter, 13> kParameters = {{
    {"factor", Kind::kFactor},
    {"partial_rotary_factor", Kind::kFraction},
    {"attention_factor", Kind::kPositive},
    {"beta_fast", Kind::kPositive},
    {"beta_slow", Kind::kPositive},
    {"low_freq_factor", Kind::kPositive},
    {"high_freq_factor", Kind::kPositive},
    {"mscale", Kind::kNumber},
    {"mscale_all_dim", Kind::kNumber},
    {kOriginalLength, Kind::kLength},
    {"truncate", Kind::kBool},
    {"short_factor", Kind::kPositives},
    {"long_factor", Kind::kPositives},
}};

// What transformers' _validate_<type>_rope_parameters wants; partial_rotary_factor is optional everywhere.
struct Type {
  std::string_view name;
  std::vector<std::string_view> required;
  std::vector<std::string_view> optional;
};

const std::vector<Type>& types() {
  static const std::vector<Type> kTypes = {
      {"default", {}, {}},
      {"linear", {"factor"}, {}},
      {"dynamic", {"factor"}, {}},
      {"yarn",
       {"factor", kOriginalLength},
       {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}},
      {"longrope", {"short_factor", "long_factor", kOriginalLength}, {"attention_factor", "factor"}},
      {"llama3", {"factor", "low_freq_factor", "high_freq_factor", kOriginalLength}, {}},
  };
  return kTypes;
}

bool contains(const std::vector<std::string_view>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

bool is_positive(const Json& value) {
  return value.is_number() && value.get<double>() > 0;
}

// What a value of this kind must be; nullptr when it is.
const char* violation(Kind kind, const Json& value) {
  switch (kind) {
    case Kind::kFactor:
      return value.is_number() && value.get<double>() >= 1 ? nullptr : "a number of at least 1";
    case Kind::kFraction:
      return is_positive(value) && value.get<double>() <= 1 ? nullptr : "a number in (0, 1]";
    case Kind::kPositive:
      return is_positive(value) ? nullptr : "a number above 0";
    case Kind::kNumber:
      return value.is_number() ? nullptr : "a number";
    case Kind::kLength:
      return value.is_number_unsigned() && value.get<uint64_t>() >= 1 && value.get<uint64_t>() <= INT32_MAX
                 ? nullptr
                 : "an integer in [1, 2^31)";
    case Kind::kBool:
      return value.is_boolean() ? nullptr : "true or false";
    case Kind::kPositives:
      return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_positive)
                 ? nullptr
                 : "a list of numbers above 0";
  }
  return nullptr;
}

// Brings both dialects into one object, then takes its parts out.
class RopeReader {
 public:
  explicit RopeReader(const ConfigReader& config) : config_(config) {}

  RopeConfig read(double default_theta) {
    choose_object();
    RopeConfig rope;
    rope.type = take_type();
    rope.theta = take_theta(default_theta);
    const Type& type = find_type(rope.type);
    add_original_length(type);
    check(type);
    rope.parameters = std::move(parameters_);
    rope.path = config_.path();
    rope.object = source_;
    return rope;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& expected, const std::string& got) const {
    throw Error(config_.path(), fmt::format("{}.{}", source_, key), expected, got);
  }

  // An object without its null values; empty when absent or null.
  Json object(const char* key) const {
    const Json* found = config_.find(key);
    if (found == nullptr || found->is_null()) return Json::object();
    if (!found->is_object()) throw Error(config_.path(), key, "an object or null", describe(*found));
    Json result = Json::object();
    for (const auto& [name, value] : found->items()) {
      if (value.is_object()) {
        throw Error(config_.path(), fmt::format("{}.{}", key, printable(name)),
                    "one set of rope parameters for all layers", "an object: parameters by layer type");
      }
      if (!value.is_null()) result[name] = value;
    }
    return unify_type(std::move(result), key);
  }

  // `type` is the older name of `rope_type`.
  Json unify_type(Json object, const char* key) const {
    const auto old_name = object.find("type");
    if (old_name == object.end()) return object;
    const auto new_name = object.find("rope_type");
    if (new_name != object.end() && *new_name != *old_name) {
      throw Error(config_.path(), fmt::format("{}.rope_type", key),
                  fmt::format("the same as 'type', {}", describe(*old_name)), describe(*new_name));
    }
    object["rope_type"] = *old_name;
    object.erase("type");
    return object;
  }

  void choose_object() {
    Json parameters = object("rope_parameters");
    Json scaling = object("rope_scaling");
    if (!parameters.empty() && !scaling.empty() && !agree(parameters, scaling)) {
      throw Error(config_.path(), "rope_scaling", "what rope_parameters says, or only one of the two",
                  "a contradiction");
    }
    source_ = parameters.empty() && !scaling.empty() ? "rope_scaling" : "rope_parameters";
    parameters_ = parameters.empty() ? std::move(scaling) : std::move(parameters);
  }

  // The older object lacks the theta, which then stands beside it.
  static bool agree(Json parameters, const Json& scaling) {
    if (!scaling.contains("rope_theta")) parameters.erase("rope_theta");
    if (!scaling.contains("rope_type") && parameters.value("rope_type", Json()) == "default") {
      parameters.erase("rope_type");
    }
    return parameters == scaling;
  }

  std::string take_type() {
    const auto found = parameters_.find("rope_type");
    if (found == parameters_.end()) return "default";
    if (!found->is_string()) fail("rope_type", "a string", describe(*found));
    std::string type = found->get<std::string>();
    parameters_.erase(found);
    return type;
  }

  const Type& find_type(const std::string& name) const {
    std::string known;
    for (const Type& type : types()) {
      if (type.name == name) return type;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
    }
    fail("rope_type", fmt::format("one of {}", known), fmt::format("'{}'", printable(name)));
  }

  double take_theta(double default_theta) {
    const double beside = config_.number_or("rope_theta", default_theta, kMinTheta, kMaxTheta);
    const auto found = parameters_.find("rope_theta");
    if (found == parameters_.end()) return beside;
    const double theta = found->is_number() ? found->get<double>() : 0;
    if (!(theta >= kMinTheta && theta <= kMaxTheta)) {
      fail("rope_theta", fmt::format("a number in [{}, {}]", kMinTheta, kMaxTheta), describe(*found));
    }
    if (config_.find("rope_theta") != nullptr && beside != theta) {
      throw Error(config_.path(), "rope_theta", fmt::format("{}, as {}.rope_theta says", theta, source_),
                  fmt::format("{}", beside));
    }
    parameters_.erase(found);
    return theta;
  }

  // Phi-3 and its relatives keep the length beside the object; where nobody states it, the longest position
  // of the model is meant.
  void add_original_length(const Type& type) {
    if (!contains(type.required, kOriginalLength)) return;
    const auto beside = config_.optional_int(kOriginalLength, 1, INT32_MAX);
    const auto found = parameters_.find(kOriginalLength);
    if (beside && found != parameters_.end() && *found != Json(*beside)) {
      throw Error(config_.path(), kOriginalLength,
                  fmt::format("{}, as {}.{} says", describe(*found), source_, kOriginalLength),
                  fmt::format("{}", *beside));
    }
    if (found != parameters_.end()) return;
    parameters_[kOriginalLength] = static_cast<uint64_t>(
        beside ? *beside : config_.required_int("max_position_embeddings", 1, INT32_MAX));
  }

  void check(const Type& type) const {
    for (const std::string_view key : type.required) {
      if (!parameters_.contains(key)) {
        fail(std::string(key), fmt::format("a value, which rope type '{}' needs", type.name), "none");
      }
    }
    for (const auto& [key, value] : parameters_.items()) {
      const bool known =
          contains(type.required, key) || contains(type.optional, key) || key == "partial_rotary_factor";
      if (!known)
        fail(printable(key), fmt::format("only keys of rope type '{}'", type.name), describe(value));
      check_value(key, value);
    }
  }

  void check_value(const std::string& key, const Json& value) const {
    const auto parameter = std::find_if(kParameters.begin(), kParameters.end(),
                                        [&](const Parameter& candidate) { return candidate.key == key; });
    SY_CHECK(parameter != kParameters.end(), "rope parameter {} has no kind", key);
    const char* expected = violation(parameter->kind, value);
    if (expected != nullptr) fail(key, expected, describe(value));
  }

  const ConfigReader& config_;
  Json parameters_;
  const char* source_ = "rope_parameters";
};

}  // namespace

RopeConfig read_rope_config(const ConfigReader& config, double default_theta) {
  return RopeReader(config).read(default_theta);
}

}  // namespace switchyard
