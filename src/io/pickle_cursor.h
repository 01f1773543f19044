// The bytes of a pickle, opcode by opcode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace switchyard {

inline constexpr size_t kMaxPickleLineBytes = 256;

class PickleCursor {
 public:
  PickleCursor(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  // Moves on to the next opcode; false at STOP. Throws Error at the end of the bytes.
  bool next();
  uint8_t opcode() const { return opcode_; }

  // Operands of the opcode. Throw Error where the bytes end before.
  std::string_view take(size_t count);
  uint64_t take_unsigned(size_t count);  // little-endian, count <= 8
  std::string_view take_line();          // without its end; at most kMaxPickleLineBytes with it

  size_t rest() const { return bytes_.size() - position_; }

  // Throws Error that names the place and the opcode.
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const;

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t position_ = 0;
  size_t opcode_at_ = 0;
  uint8_t opcode_ = 0;
};

}  // namespace switchyard
