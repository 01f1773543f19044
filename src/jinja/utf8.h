// UTF-8 helpers. Everything but first_invalid() expects valid UTF-8: templates and context strings are
// checked on the way in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace switchyard::jinja::utf8 {

// Offset of the first byte that is not part of valid UTF-8, or nothing.
std::optional<size_t> first_invalid(std::string_view text);

// Number of code points.
int64_t count(std::string_view text);

// Byte offset of code point `index`, 0 <= index <= count(text).
size_t offset(std::string_view text, int64_t index);

// The code point at byte i; moves i behind it.
char32_t decode(std::string_view text, size_t& i);

// Start of the code point that ends before byte `end`.
size_t previous(std::string_view text, size_t end);

void encode(char32_t code_point, std::string& out);

// str.isspace() of one character, and the line ends of str.splitlines().
bool is_space(char32_t c);
bool is_line_end(char32_t c);

// What repr() prints as it is. Covers controls, separators, format and private-use characters; code points
// that Unicode has not assigned count as printable here although Python escapes them.
bool is_printable(char32_t c);

bool is_ascii(std::string_view text);

}  // namespace switchyard::jinja::utf8
