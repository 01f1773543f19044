// The byte alphabet of byte-level BPE: every byte has a printable character of its own, so that vocabularies
// can be JSON strings. Printable bytes of Latin-1 stand for themselves, the other 68 for U+0100, U+0101, ...
// in order of their value. Source: the encoder of GPT-2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace switchyard {

char32_t byte_to_char(uint8_t byte);
std::optional<uint8_t> char_to_byte(char32_t c);

// Appends the characters of all bytes, as UTF-8.
void append_byte_level(std::string_view bytes, std::string& out);

// Bytes that valid UTF-8 never contains; vocabularies may lack them.
inline bool occurs_in_utf8(uint8_t byte) {
  return byte != 0xC0 && byte != 0xC1 && byte <= 0xF4;
}

}  // namespace switchyard
