#include "jinja/literals.h"

#include <charconv>

#include "base/error.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Length of a run of digits of `base` in which single '_' may stand between digits, from `at`.
size_t digits_length(std::string_view text, size_t at, int base) {
  const auto is_digit = [&](size_t i) { return i < text.size() && digit_value(text[i]) < base; };
  size_t end = at;
  while (is_digit(end) || (end > at && end < text.size() && text[end] == '_' && is_digit(end + 1)))
    ++end;
  return end - at;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

NumberLiteral make_integer(std::string_view digits, int base, size_t length) {
  NumberLiteral out;
  out.length = length;
  const std::string plain = without_underscores(digits);
  const auto [end, failure] = std::from_chars(plain.data(), plain.data() + plain.size(), out.integer, base);
  if (failure != std::errc{} || end != plain.data() + plain.size()) {
    out.error = fmt::format("the integer '{}' does not fit 64 bits", printable(plain, 40));
  }
  return out;
}

int prefix_base(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  const char c = static_cast<char>(text[1] | 0x20);
  const int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
  return base != 10 && digit_value(text[2]) < base ? base : 10;
}

// Length of a float's fraction and exponent behind its `whole` leading digits; 0 for an integer.
size_t float_tail(std::string_view text, size_t whole) {
  size_t end = whole;
  if (end + 1 < text.size() && text[end] == '.') {
    const size_t fraction = digits_length(text, end + 1, 10);
    if (fraction > 0) end += 1 + fraction;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const size_t exponent = digits_length(text, digits, 10);
    if (exponent > 0) end = digits + exponent;
  }
  return end - whole;
}

void decode_code_point(std::string_view body, size_t& i, size_t digits, std::string& out,
                       std::string& error) {
  char32_t c = 0;
  for (size_t k = 0; k < digits; ++k) {
    const int value = i + k < body.size() ? digit_value(body[i + k]) : 99;
    if (value >= 16) {
      error = fmt::format("an escape of {} hexadecimal digits is cut short", digits);
      return;
    }
    c = c * 16 + static_cast<char32_t>(value);
  }
  i += digits;
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
    error = fmt::format("an escape gives U+{:X}, which is no character", static_cast<uint32_t>(c));
    return;
  }
  utf8::encode(c, out);
}

void decode_octal(std::string_view body, size_t& i, std::string& out) {
  char32_t c = 0;
  for (size_t k = 0; k < 3 && i < body.size() && digit_value(body[i]) < 8; ++k, ++i) {
    c = c * 8 + static_cast<char32_t>(digit_value(body[i]));
  }
  utf8::encode(c, out);
}

// The escape whose letter stands at i.
void decode_escape(std::string_view body, size_t& i, std::string& out, std::string& error) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = body[i];
  if (digit_value(c) < 8) return decode_octal(body, i, out);
  ++i;
  if (c == '\n') return;  // a line continued
  if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
    out += kMeanings[known];
  } else if (c == 'x' || c == 'u' || c == 'U') {
    decode_code_point(body, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, out, error);
  } else if (c == 'N') {
    error = "the escape \\N{...} is not supported";
  } else {
    out += '\\';
    out += c;
  }
}

}  // namespace

NumberLiteral parse_number(std::string_view text, bool behind_dot) {
  if (const int base = prefix_base(text); base != 10) {
    const size_t n = digits_length(text, 2, base);
    return make_integer(text.substr(2, n), base, 2 + n);
  }
  const size_t whole = digits_length(text, 0, 10);
  const size_t tail = behind_dot ? 0 : float_tail(text, whole);
  if (tail == 0) {
    const bool is_zero = text.substr(0, whole).find_first_not_of("0_") == std::string_view::npos;
    NumberLiteral out = make_integer(text.substr(0, whole), 10, whole);
    if (text[0] == '0' && !is_zero) out.error = "an integer must not begin with 0";
    return out;
  }
  NumberLiteral out;
  out.is_integer = false;
  out.length = whole + tail;
  const std::string plain = without_underscores(text.substr(0, out.length));
  const auto result = std::from_chars(plain.data(), plain.data() + plain.size(), out.real);
  if (result.ec != std::errc{}) {
    out.error = fmt::format("the number '{}' is outside the range of a double", printable(plain, 40));
  }
  return out;
}

std::string decode_escapes(std::string_view body, std::string& error) {
  std::string out;
  for (size_t i = 0; i < body.size() && error.empty();) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i++];
      continue;
    }
    ++i;
    decode_escape(body, i, out, error);
  }
  return out;
}

}  // namespace switchyard::jinja
