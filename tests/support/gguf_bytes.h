// GGUF files put together byte by byte, so that tests can break each part.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace switchyard {

template <typename Number>
std::string gguf_number(Number value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return gguf_number<uint64_t>(text.size()) + std::string(text);
}

// A metadata pair: type 4 is uint32, 8 a string.
inline std::string gguf_pair(std::string_view key, uint32_t type, const std::string& value) {
  return gguf_string(key) + gguf_number(type) + value;
}

inline std::string gguf_tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                               uint64_t offset) {
  std::string bytes = gguf_string(name) + gguf_number(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims)
    bytes += gguf_number(dim);
  return bytes + gguf_number(type) + gguf_number(offset);
}

inline std::string gguf_bytes(const std::vector<std::string>& pairs, const std::vector<std::string>& tensors,
                              size_t data_bytes, uint32_t version = 3) {
  std::string bytes = "GGUF" + gguf_number(version) + gguf_number<uint64_t>(tensors.size()) +
                      gguf_number<uint64_t>(pairs.size());
  for (const std::string& pair : pairs)
    bytes += pair;
  for (const std::string& tensor : tensors)
    bytes += tensor;
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + std::string(data_bytes, '\0');
}

}  // namespace switchyard
