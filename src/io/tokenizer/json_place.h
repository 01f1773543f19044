// Reading the components of a tokenizer.json strictly: every key is either understood or refused, and every
// error names the path of the value inside the document, e.g. "pre_tokenizer.pretokenizers[0].behavior".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace switchyard {

// Where a value stands: the document and the path inside it.
struct JsonPlace {
  std::string document;
  std::string path;

  JsonPlace key(std::string_view name) const;
  JsonPlace index(size_t i) const;
  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const;
};

// One JSON object of the document. It refers to `value`, which must outlive it.
class JsonObject {
 public:
  JsonObject(const Json& value, JsonPlace place);  // throws Error unless value is an object

  const JsonPlace& place() const { return place_; }
  JsonPlace place(std::string_view key) const { return place_.key(key); }

  // Throws Error when the object has a key that is not in the list.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  const Json* find(std::string_view key) const;  // nullptr when missing or null
  const Json& at(std::string_view key) const;    // throws Error when missing or null

  // Typed access; throws Error when the value is missing (without a default) or of another type.
  const std::string& string(std::string_view key) const;
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool if_missing) const;
  int64_t integer(std::string_view key, int64_t min, int64_t max) const;
  const Json& array(std::string_view key) const;
  char32_t character(std::string_view key) const;  // a string of one code point

 private:
  const Json& value_;
  JsonPlace place_;
};

// The string under `value`, or Error.
const std::string& string_at(const Json& value, const JsonPlace& place);

}  // namespace switchyard
