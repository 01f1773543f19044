// The bytes of a GGUF file in the order of the file; see gguf_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "jinja/utf8.h"

namespace switchyard {

// Takes numbers and strings off the front of a file. `item` names what is read, for errors.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> file, const std::string& where) : file_(file), where_(where) {}

  int64_t position() const { return position_; }
  int64_t left() const { return static_cast<int64_t>(file_.size()) - position_; }

  template <typename Number>
  Number number(const std::string& item) {
    Number value;
    std::memcpy(&value, take(sizeof(value), item), sizeof(value));
    return value;
  }

  // A uint64 of at most `max`.
  int64_t count(const std::string& item, int64_t max) {
    const auto value = number<uint64_t>(item);
    if (value > static_cast<uint64_t>(max)) {
      throw Error(where_, item, fmt::format("at most {}", max), fmt::format("{}", value));
    }
    return static_cast<int64_t>(value);
  }

  std::string string(const std::string& item, int64_t max_bytes) {
    const int64_t bytes = count(item + ", length", max_bytes);
    std::string text(reinterpret_cast<const char*>(take(bytes, item)), static_cast<size_t>(bytes));
    if (const auto bad = jinja::utf8::first_invalid(text)) {
      throw Error(where_, item, "valid UTF-8",
                  fmt::format("'{}' at byte {}", printable(text.substr(*bad, 4)), *bad));
    }
    return text;
  }

 private:
  const std::byte* take(int64_t bytes, const std::string& item) {
    if (bytes > left()) {
      throw Error(where_, item, fmt::format("{} bytes", bytes),
                  fmt::format("the end of the file after {}: it is cut", left()));
    }
    const std::byte* at = file_.data() + position_;
    position_ += bytes;
    return at;
  }

  std::span<const std::byte> file_;
  const std::string& where_;
  int64_t position_ = 0;
};

}  // namespace switchyard
