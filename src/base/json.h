// JSON from untrusted bytes: nlohmann/json behind two limits that the library leaves open. Nesting is
// bounded, and a key that stands twice in one object is refused, since silently keeping one of them hides
// mistakes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace switchyard {

using Json = nlohmann::json;                 // objects sorted by key: configs, vocabularies, indexes
using OrderedJson = nlohmann::ordered_json;  // objects keep the order of the text: chat messages and tools

inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON document. `where` names the source in errors. Throws Error on malformed JSON (with the byte
// offset), invalid UTF-8, nesting deeper than kMaxJsonDepth, and duplicate keys.
Json parse_json(std::string_view text, const std::string& where);
OrderedJson parse_ordered_json(std::string_view text, const std::string& where);

// Takes the items of one container of a document in the order of the text, so that a vocabulary of a hundred
// thousand tokens needs no tree.
template <typename AnyJson>
struct JsonStreamOf {
  std::vector<std::string> path;  // the keys that lead to the container, from the root
  nlohmann::json::value_t type;   // object or array; a value of another type there is parsed as usual
  // Called with each member of the object, or with each element of the array and an empty key. `item` may be
  // moved from. Whether a key of the object stood there before is for the callee to check.
  std::function<void(const std::string& key, AnyJson& item)> take;
};
using JsonStream = JsonStreamOf<Json>;

// The same, but hands the items of some containers to their streams; the result has these containers empty.
Json parse_json(std::string_view text, const std::string& where, std::span<const JsonStream> streams);

// Throws the Error of parse_json() for duplicate keys.
[[noreturn]] void refuse_duplicate_key(std::string_view key, const std::string& where);

// The name of a value's JSON type with the value itself where it is short, for "got ..." in errors.
std::string describe(const Json& value);

// Reads a whole file. Throws Error when it is missing, not a regular file, or larger than max_bytes.
std::string read_file(const std::string& path, int64_t max_bytes);

}  // namespace switchyard
