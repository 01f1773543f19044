#include "io/config_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "io/config_keys.h"

namespace switchyard {
namespace {

constexpr size_t kMaxKeysInMessage = 5;

// Edit distance (Levenshtein: insertions, deletions, substitutions) of two short strings.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
    }
  }
  return row[b.size()];
}

bool is_harmless(std::string_view key) {
  const auto keys = harmless_config_keys();
  return std::any_of(keys.begin(), keys.end(), [&](const HarmlessKey& k) { return k.key == key; });
}

const NeutralKey* find_neutral(std::string_view key) {
  for (const NeutralKey& neutral : neutral_config_keys()) {
    if (neutral.key == key) return &neutral;
  }
  return nullptr;
}

// The spelling of torch, without its "torch." prefix.
std::optional<DType> dtype_from_torch_name(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DType>, 6> kNames = {
      {{"float64", DType::kF64},
       {"float32", DType::kF32},
       {"float16", DType::kF16},
       {"bfloat16", DType::kBF16},
       {"float8_e4m3fn", DType::kF8E4M3},
       {"float8_e5m2", DType::kF8E5M2}}};
  for (const auto& [torch_name, dtype] : kNames) {
    if (torch_name == name) return dtype;
  }
  return std::nullopt;
}

// The current name, that of older compressed-tensors files, and that of MLX.
bool is_quantization(std::string_view key) {
  return key == "quantization_config" || key == "compression_config" || key == "quantization";
}

[[noreturn]] void refuse_quantization(const std::string& path, const std::string& key, const Json& value) {
  std::string method = "without a quant_method";
  if (value.is_object() && value.contains("quant_method")) method = describe(value["quant_method"]);
  throw Error(path, key, "a checkpoint without quantisation", fmt::format("{} (not supported yet)", method));
}

}  // namespace

ConfigReader::ConfigReader(Json config, std::string path)
    : config_(std::move(config)), path_(std::move(path)) {
  if (!config_.is_object()) throw Error(path_, "", "a JSON object", describe(config_));
}

ConfigReader ConfigReader::open(const std::string& path) {
  return {parse_json(read_file(path, kMaxConfigBytes), path), path};
}

void ConfigReader::fail(const std::string& key, const std::string& expected, const Json& got) const {
  throw Error(path_, key, expected, describe(got));
}

const Json* ConfigReader::find(const std::string& key) const {
  read_.insert(key);
  const auto found = config_.find(key);
  return found != config_.end() ? &*found : nullptr;
}

const Json* ConfigReader::find_non_null(const std::string& key) const {
  const Json* value = find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

int64_t ConfigReader::as_int(const std::string& key, const Json& value, int64_t min, int64_t max) const {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                               : value.is_number_integer();
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < min || number > max)
    fail(key, fmt::format("an integer in [{}, {}]", min, max), value);
  return number;
}

double ConfigReader::as_number(const std::string& key, const Json& value, double min, double max) const {
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!value.is_number() || number < min || number > max) {
    fail(key, fmt::format("a number in [{}, {}]", min, max), value);
  }
  return number;
}

bool ConfigReader::as_bool(const std::string& key, const Json& value) const {
  if (!value.is_boolean()) fail(key, "true or false", value);
  return value.get<bool>();
}

std::string ConfigReader::as_string(const std::string& key, const Json& value) const {
  if (!value.is_string()) fail(key, "a string", value);
  return value.get<std::string>();
}

const std::vector<Json>& ConfigReader::as_list(const std::string& key, const Json& value) const {
  if (!value.is_array()) fail(key, "a list", value);
  return value.get_ref<const Json::array_t&>();
}

int64_t ConfigReader::required_int(const std::string& key, int64_t min, int64_t max) const {
  const Json* value = find(key);
  if (value == nullptr)
    throw Error(path_, key, fmt::format("an integer in [{}, {}]", min, max), "no such key");
  return as_int(key, *value, min, max);
}

int64_t ConfigReader::int_or(const std::string& key, int64_t absent, int64_t min, int64_t max) const {
  const Json* value = find(key);
  return value != nullptr ? as_int(key, *value, min, max) : absent;
}

double ConfigReader::number_or(const std::string& key, double absent, double min, double max) const {
  const Json* value = find(key);
  return value != nullptr ? as_number(key, *value, min, max) : absent;
}

bool ConfigReader::bool_or(const std::string& key, bool absent) const {
  const Json* value = find(key);
  return value != nullptr ? as_bool(key, *value) : absent;
}

std::string ConfigReader::required_string(const std::string& key) const {
  const Json* value = find(key);
  if (value == nullptr) throw Error(path_, key, "a string", "no such key");
  return as_string(key, *value);
}

std::string ConfigReader::string_or(const std::string& key, const std::string& absent) const {
  const Json* value = find(key);
  return value != nullptr ? as_string(key, *value) : absent;
}

std::optional<int64_t> ConfigReader::optional_int(const std::string& key, int64_t min, int64_t max) const {
  const Json* value = find_non_null(key);
  if (value == nullptr) return std::nullopt;
  return as_int(key, *value, min, max);
}

std::optional<double> ConfigReader::optional_number(const std::string& key, double min, double max) const {
  const Json* value = find_non_null(key);
  if (value == nullptr) return std::nullopt;
  return as_number(key, *value, min, max);
}

std::optional<bool> ConfigReader::optional_bool(const std::string& key) const {
  const Json* value = find_non_null(key);
  if (value == nullptr) return std::nullopt;
  return as_bool(key, *value);
}

std::optional<std::string> ConfigReader::optional_string(const std::string& key) const {
  const Json* value = find_non_null(key);
  if (value == nullptr) return std::nullopt;
  return as_string(key, *value);
}

std::optional<std::vector<int64_t>> ConfigReader::optional_int_list(const std::string& key, int64_t min,
                                                                    int64_t max) const {
  const Json* value = find_non_null(key);
  if (value == nullptr) return std::nullopt;
  std::vector<int64_t> list;
  for (const Json& entry : as_list(key, *value))
    list.push_back(as_int(key, entry, min, max));
  return list;
}

std::optional<std::vector<std::string>> ConfigReader::optional_string_list(const std::string& key) const {
  const Json* value = find_non_null(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> list;
  for (const Json& entry : as_list(key, *value))
    list.push_back(as_string(key, entry));
  return list;
}

std::vector<int64_t> ConfigReader::int_list_or(const std::string& key, std::vector<int64_t> absent,
                                               int64_t min, int64_t max) const {
  return optional_int_list(key, min, max).value_or(std::move(absent));
}

std::vector<int32_t> ConfigReader::token_ids(const std::string& key, int64_t vocab_size) const {
  SY_CHECK(vocab_size > 0 && vocab_size <= INT32_MAX, "vocabulary of {} tokens", vocab_size);
  const Json* value = find_non_null(key);
  if (value == nullptr) return {};
  const auto as_id = [&](const Json& id) { return static_cast<int32_t>(as_int(key, id, 0, vocab_size - 1)); };
  if (!value->is_array()) return {as_id(*value)};
  std::vector<int32_t> ids;
  for (const Json& id : as_list(key, *value))
    ids.push_back(as_id(id));
  return ids;
}

std::optional<DType> ConfigReader::dtype() const {
  const auto new_name = optional_string("dtype");
  const auto old_name = optional_string("torch_dtype");
  if (new_name && old_name && *new_name != *old_name) {
    throw Error(path_, "torch_dtype", fmt::format("'{}', as dtype says", printable(*new_name)),
                fmt::format("'{}'", printable(*old_name)));
  }
  const auto& name = new_name ? new_name : old_name;
  if (!name) return std::nullopt;
  const auto dtype = dtype_from_torch_name(*name);
  if (!dtype) {
    throw Error(path_, new_name ? "dtype" : "torch_dtype", "a floating-point type of torch",
                fmt::format("'{}'", printable(*name)));
  }
  return dtype;
}

std::optional<std::string> ConfigReader::architecture() const {
  const auto list = optional_string_list("architectures");
  if (!list) return std::nullopt;
  if (list->size() != 1) fail("architectures", "exactly one class", *find("architectures"));
  return list->front();
}

std::vector<std::string> ConfigReader::unread_keys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : config_.items()) {
    if (!read_.contains(key)) unread.push_back(key);
  }
  return unread;
}

std::string ConfigReader::suggestion(const std::string& key) const {
  constexpr size_t kMaxLength = 64;
  constexpr size_t kMaxDistance = 2;
  if (key.size() > kMaxLength || key.size() <= 2 * kMaxDistance) return "";
  std::string best;
  size_t best_distance = kMaxDistance + 1;
  const auto consider = [&](std::string_view candidate) {
    const size_t distance = edit_distance(key, candidate);
    if (distance >= best_distance) return;
    best_distance = distance;
    best = candidate;
  };
  for (const std::string& known : read_)
    consider(known);
  for (const HarmlessKey& known : harmless_config_keys())
    consider(known.key);
  return best.empty() ? "" : fmt::format(" (did you mean '{}'?)", best);
}

void ConfigReader::finish(const std::set<std::string>& ignored_keys) const {
  std::string unknown;
  size_t unknown_count = 0;
  for (const std::string& key : unread_keys()) {
    const Json& value = config_[key];
    if (is_quantization(key) && !value.is_null()) refuse_quantization(path_, key, value);
    if (ignored_keys.contains(key) || is_harmless(key) || value.is_null()) continue;
    if (const NeutralKey* neutral = find_neutral(key)) {
      if (value == Json::parse(neutral->neutral_json)) continue;
      throw Error(path_, key, fmt::format("{} (nothing else is supported)", neutral->neutral_json),
                  describe(value));
    }
    if (++unknown_count > kMaxKeysInMessage) continue;
    unknown += fmt::format("{}'{}'{}", unknown.empty() ? "" : ", ", printable(key), suggestion(key));
  }
  if (unknown_count == 0) return;
  if (unknown_count > kMaxKeysInMessage)
    unknown += fmt::format(" and {} more", unknown_count - kMaxKeysInMessage);
  throw Error(path_, "", "only keys that are understood", fmt::format("unknown {}", unknown));
}

}  // namespace switchyard
