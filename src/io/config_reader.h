// config.json, read key by key: types and ranges are checked, and what nobody reads is refused.
//
// A model family reads each key that its transformers config class knows, with that class's default:
//   const auto config = ConfigReader::open(folder + "/config.json");
//   hidden_size = config.required_int("hidden_size", 1, 1 << 20);
//   kv_heads = config.optional_int("num_key_value_heads", 1, 1 << 16).value_or(heads);   // int | None
//   ...
//   config.finish();
// finish() throws for keys that were neither read nor are known not to change inference: an unread key may
// change the result, and silence about it would hide a wrong answer.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tensor/dtype.h"

namespace switchyard {

inline constexpr int64_t kMaxConfigBytes = 16 << 20;

class ConfigReader {
 public:
  // `path` names the source in errors. Throws Error when `config` is not an object.
  ConfigReader(Json config, std::string path);
  // Throws Error when the file is missing, larger than kMaxConfigBytes, or not a JSON object.
  static ConfigReader open(const std::string& path);

  const std::string& path() const { return path_; }
  const Json& json() const { return config_; }

  // Every function below marks its key as read, and throws Error (file, key, expected, got) on a value of
  // another type, including null, or out of [min, max].
  int64_t required_int(const std::string& key, int64_t min, int64_t max) const;
  int64_t int_or(const std::string& key, int64_t absent, int64_t min, int64_t max) const;
  double number_or(const std::string& key, double absent, double min, double max) const;
  bool bool_or(const std::string& key, bool absent) const;
  std::string required_string(const std::string& key) const;
  std::string string_or(const std::string& key, const std::string& absent) const;

  // For keys that the transformers class declares as `... | None`: null reads as absent.
  std::optional<int64_t> optional_int(const std::string& key, int64_t min, int64_t max) const;
  std::optional<double> optional_number(const std::string& key, double min, double max) const;
  std::optional<bool> optional_bool(const std::string& key) const;
  std::optional<std::string> optional_string(const std::string& key) const;
  std::optional<std::vector<int64_t>> optional_int_list(const std::string& key, int64_t min,
                                                        int64_t max) const;
  std::optional<std::vector<std::string>> optional_string_list(const std::string& key) const;

  // The same with a default for absent and null.
  std::vector<int64_t> int_list_or(const std::string& key, std::vector<int64_t> absent, int64_t min,
                                   int64_t max) const;

  // One id or a list of ids in [0, vocab_size); absent and null read as none.
  std::vector<int32_t> token_ids(const std::string& key, int64_t vocab_size) const;

  // `dtype` (transformers 5) or `torch_dtype`; nullopt when absent or null. Throws Error on a contradiction.
  std::optional<DType> dtype() const;

  std::string model_type() const { return required_string("model_type"); }
  // The class in `architectures`, which must have exactly one entry where it is present.
  std::optional<std::string> architecture() const;

  // Throws Error for the keys that nobody understood: see the top. A null value counts as not there.
  // `ignored_keys` are keys that the user has declared harmless. A `quantization_config` that was not read is
  // refused by its method, whatever the user has declared.
  void finish(const std::set<std::string>& ignored_keys = {}) const;

  // The value of a key, marked as read; nullptr when absent. For values that no function above reads.
  const Json* find(const std::string& key) const;
  // The keys that no function has read so far, sorted.
  std::vector<std::string> unread_keys() const;

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& expected, const Json& got) const;
  const Json* find_non_null(const std::string& key) const;
  int64_t as_int(const std::string& key, const Json& value, int64_t min, int64_t max) const;
  double as_number(const std::string& key, const Json& value, double min, double max) const;
  bool as_bool(const std::string& key, const Json& value) const;
  std::string as_string(const std::string& key, const Json& value) const;
  const std::vector<Json>& as_list(const std::string& key, const Json& value) const;
  std::string suggestion(const std::string& key) const;

  Json config_;
  std::string path_;
  mutable std::set<std::string> read_;  // keys asked for, whether present or not
};

}  // namespace switchyard
