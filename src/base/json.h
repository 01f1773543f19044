// JSON from untrusted bytes: nlohmann/json behind two limits that the library leaves open. Nesting is
// bounded, and a key that stands twice in one object is refused, since silently keeping one of them hides
// mistakes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace switchyard {

using Json = nlohmann::json;                 // objects sorted by key: configs, vocabularies, indexes
using OrderedJson = nlohmann::ordered_json;  // objects keep the order of the text: chat messages and tools

inline constexpr int kMaxJsonDepth = 64;

// Parses one JSON document. `where` names the source in errors. Throws Error on malformed JSON (with the byte
// offset), invalid UTF-8, nesting deeper than kMaxJsonDepth, and duplicate keys.
Json parse_json(std::string_view text, const std::string& where);
OrderedJson parse_ordered_json(std::string_view text, const std::string& where);

// The name of a value's JSON type with the value itself where it is short, for "got ..." in errors.
std::string describe(const Json& value);

// Reads a whole file. Throws Error when it is missing, not a regular file, or larger than max_bytes.
std::string read_file(const std::string& path, int64_t max_bytes);

}  // namespace switchyard
