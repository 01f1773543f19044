#include "io/tokenizer/json_place.h"

#include <algorithm>

#include "io/tokenizer/unicode.h"

namespace switchyard {

JsonPlace JsonPlace::key(std::string_view name) const {
  return {document, path.empty() ? printable(name) : fmt::format("{}.{}", path, printable(name))};
}

JsonPlace JsonPlace::index(size_t i) const {
  return {document, fmt::format("{}[{}]", path, i)};
}

void JsonPlace::refuse(const std::string& expected, const std::string& got) const {
  throw Error(document, path, expected, got);
}

JsonObject::JsonObject(const Json& value, JsonPlace place) : value_(value), place_(std::move(place)) {
  if (!value.is_object()) place_.refuse("an object", describe(value));
}

void JsonObject::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& item : value_.items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end()) {
      place_.key(item.key()).refuse("no such key", describe(item.value()));
    }
  }
}

const Json* JsonObject::find(std::string_view key) const {
  const auto it = value_.find(key);
  return it == value_.end() || it->is_null() ? nullptr : &*it;
}

const Json& JsonObject::at(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) place(key).refuse("a value", "none");
  return *value;
}

const std::string& JsonObject::string(std::string_view key) const {
  return string_at(at(key), place(key));
}

bool JsonObject::boolean(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_boolean()) place(key).refuse("true or false", describe(value));
  return value.get<bool>();
}

bool JsonObject::boolean_or(std::string_view key, bool if_missing) const {
  return find(key) == nullptr ? if_missing : boolean(key);
}

int64_t JsonObject::integer(std::string_view key, int64_t min, int64_t max) const {
  const Json& value = at(key);
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                               : value.is_number_integer();
  if (!fits || value.get<int64_t>() < min || value.get<int64_t>() > max) {
    place(key).refuse(fmt::format("an integer from {} to {}", min, max), describe(value));
  }
  return value.get<int64_t>();
}

const Json& JsonObject::array(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_array()) place(key).refuse("an array", describe(value));
  return value;
}

char32_t JsonObject::character(std::string_view key) const {
  const std::string& text = string(key);
  size_t end = 0;
  const char32_t c = text.empty() ? 0 : next_char(text, end);
  if (text.empty() || end != text.size()) place(key).refuse("one character", describe(at(key)));
  return c;
}

const std::string& string_at(const Json& value, const JsonPlace& place) {
  if (!value.is_string()) place.refuse("a string", describe(value));
  return value.get_ref<const std::string&>();
}

}  // namespace switchyard
