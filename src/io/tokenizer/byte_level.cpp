#include "io/tokenizer/byte_level.h"

#include <array>

#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr size_t kSubstitutes = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<char32_t, 256> kChars = [] {
  std::array<char32_t, 256> chars{};
  char32_t next = kFirstSubstitute;
  for (unsigned byte = 0; byte < 256; ++byte)
    chars[byte] = stands_for_itself(byte) ? byte : next++;
  return chars;
}();

constexpr std::array<uint8_t, kSubstitutes> kSubstituted = [] {
  std::array<uint8_t, kSubstitutes> bytes{};
  size_t next = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) bytes[next++] = static_cast<uint8_t>(byte);
  }
  return bytes;
}();

}  // namespace

char32_t byte_to_char(uint8_t byte) {
  return kChars[byte];
}

std::optional<uint8_t> char_to_byte(char32_t c) {
  if (c < kFirstSubstitute) {
    return stands_for_itself(c) ? std::optional(static_cast<uint8_t>(c)) : std::nullopt;
  }
  if (c >= kFirstSubstitute + kSubstitutes) return std::nullopt;
  return kSubstituted[c - kFirstSubstitute];
}

void append_byte_level(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    const char32_t c = byte_to_char(static_cast<uint8_t>(byte));
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {  // all of them are below U+0800
      out += static_cast<char>(0xC0 | (c >> 6));
      out += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
}

}  // namespace switchyard
