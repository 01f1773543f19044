#include "jinja/utf8.h"

#include <algorithm>
#include <array>

namespace switchyard::jinja::utf8 {
namespace {

struct CodePointRange {
  char32_t first, last;
};

constexpr std::array<CodePointRange, 10> kSpaces = {{{0x09, 0x0D},
                                                     {0x1C, 0x20},
                                                     {0x85, 0x85},
                                                     {0xA0, 0xA0},
                                                     {0x1680, 0x1680},
                                                     {0x2000, 0x200A},
                                                     {0x2028, 0x2029},
                                                     {0x202F, 0x202F},
                                                     {0x205F, 0x205F},
                                                     {0x3000, 0x3000}}};

constexpr std::array<CodePointRange, 19> kUnprintable = {{{0x00, 0x1F},
                                                          {0x7F, 0xA0},
                                                          {0xAD, 0xAD},
                                                          {0x0600, 0x0605},
                                                          {0x061C, 0x061C},
                                                          {0x06DD, 0x06DD},
                                                          {0x1680, 0x1680},
                                                          {0x180E, 0x180E},
                                                          {0x2000, 0x200F},
                                                          {0x2028, 0x202F},
                                                          {0x205F, 0x206F},
                                                          {0x3000, 0x3000},
                                                          {0xD800, 0xF8FF},
                                                          {0xFEFF, 0xFEFF},
                                                          {0xFFF0, 0xFFFB},
                                                          {0xFFFE, 0xFFFF},
                                                          {0x1D173, 0x1D17A},
                                                          {0xE0000, 0xE00FF},
                                                          {0xE01F0, 0x10FFFF}}};

template <size_t N>
bool within(const std::array<CodePointRange, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const CodePointRange& r) { return c >= r.first && c <= r.last; });
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

size_t length_from_lead(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The smallest code point that needs a sequence of n bytes; anything below is an overlong form.
constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};

bool valid_at(std::string_view text, size_t i, size_t& length) {
  const auto lead = static_cast<unsigned char>(text[i]);
  if (lead >= 0x80 && (lead < 0xC2 || lead > 0xF4)) return false;
  length = length_from_lead(lead);
  if (i + length > text.size()) return false;
  for (size_t k = 1; k < length; ++k) {
    if (!is_continuation(text[i + k])) return false;
  }
  size_t end = i;
  const char32_t c = decode(text, end);
  return c >= kSmallest[length] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
}

}  // namespace

std::optional<size_t> first_invalid(std::string_view text) {
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    if (!valid_at(text, i, length)) return i;
  }
  return std::nullopt;
}

int64_t count(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); });
}

size_t offset(std::string_view text, int64_t index) {
  size_t i = 0;
  for (int64_t k = 0; k < index; ++k)
    i += length_from_lead(static_cast<unsigned char>(text[i]));
  return i;
}

char32_t decode(std::string_view text, size_t& i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  const size_t length = length_from_lead(lead);
  char32_t c = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k)
    c = (c << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
  i += length;
  return c;
}

size_t previous(std::string_view text, size_t end) {
  size_t i = end - 1;
  while (is_continuation(text[i]))
    --i;
  return i;
}

void encode(char32_t c, std::string& out) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

bool is_space(char32_t c) {
  return within(kSpaces, c);
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  return !within(kUnprintable, c);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char b) { return static_cast<unsigned char>(b) < 0x80; });
}

}  // namespace switchyard::jinja::utf8
