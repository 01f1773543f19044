// Hand-made safetensors files: any header text, right or wrong, before any data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace switchyard {

inline std::string little_endian_64(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

// The header is padded with spaces to a multiple of 8 bytes, as writers do.
inline std::string safetensors_bytes(std::string header, std::string_view data) {
  while (header.size() % 8 != 0)
    header += ' ';
  return little_endian_64(header.size()) + header + std::string(data);
}

}  // namespace switchyard
