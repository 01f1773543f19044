// Number and string literals of the template language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace switchyard::jinja {

struct NumberLiteral {
  bool is_integer = true;
  int64_t integer = 0;
  double real = 0;
  size_t length = 0;  // bytes of the literal
  std::string error;  // empty, or why the literal is refused
};

// Reads the literal at the start of `text`, which begins with a digit: decimal, 0x, 0o and 0b integers,
// floats, and '_' between digits. Behind a '.', as in `x.0.1`, a number is always an integer.
NumberLiteral parse_number(std::string_view text, bool behind_dot);

// Decodes the escapes of a Python string literal. An unknown escape stays as it is. \N{...} and surrogates
// are refused: `error` then says so.
std::string decode_escapes(std::string_view body, std::string& error);

}  // namespace switchyard::jinja
