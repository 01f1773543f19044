#include "io/pickle_cursor.h"

#include <algorithm>

#include "base/error.h"
#include "io/pickle_opcodes.h"

namespace switchyard {

bool PickleCursor::next() {
  opcode_at_ = position_;
  if (position_ == bytes_.size()) throw Error(where_, "", "a pickle that ends with STOP", "its end before");
  opcode_ = static_cast<uint8_t>(bytes_[position_++]);
  return opcode_ != static_cast<uint8_t>(PickleOpcode::kStop);
}

void PickleCursor::fail(const std::string& expected, const std::string& got) const {
  throw Error(where_, fmt::format("byte {}, {}", opcode_at_, pickle_opcode_name(opcode_)), expected, got);
}

std::string_view PickleCursor::take(size_t count) {
  if (count > bytes_.size() - position_) {
    fail(fmt::format("{} more bytes", count),
         fmt::format("{}: the pickle is cut", bytes_.size() - position_));
  }
  const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + position_;
  position_ += count;
  return {begin, count};
}

uint64_t PickleCursor::take_unsigned(size_t count) {
  uint64_t value = 0;
  const std::string_view operand = take(count);
  for (size_t i = count; i-- > 0;)
    value = (value << 8) | static_cast<unsigned char>(operand[i]);
  return value;
}

std::string_view PickleCursor::take_line() {
  const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + position_;
  const std::string_view rest(begin, std::min(bytes_.size() - position_, kMaxPickleLineBytes));
  const size_t length = rest.find('\n');
  if (length == std::string_view::npos) {
    fail(fmt::format("a line of at most {} bytes", kMaxPickleLineBytes),
         fmt::format("'{}'", printable(rest)));
  }
  position_ += length + 1;
  return rest.substr(0, length);
}

}  // namespace switchyard
