#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace switchyard {
namespace {

// Length of the valid UTF-8 sequence at text[i], or 0.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(i);
  const size_t n = lead < 0x80                   ? 1
                   : lead >= 0xC2 && lead < 0xE0 ? 2
                   : lead >= 0xE0 && lead < 0xF0 ? 3
                   : lead >= 0xF0 && lead < 0xF5 ? 4
                                                 : 0;
  if (n == 0 || i + n > text.size()) return 0;
  for (size_t k = 1; k < n; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(i + 1) < 0xA0) return 0;
  if (lead == 0xED && byte(i + 1) > 0x9F) return 0;
  if (lead == 0xF0 && byte(i + 1) < 0x90) return 0;
  if (lead == 0xF4 && byte(i + 1) > 0x8F) return 0;
  return n;
}

// Of the characters that begin with these bytes; C1 is U+0080 to U+009F.
bool is_control(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= max_bytes) return out + "...";
    const size_t n = utf8_length(text, i);
    if (n != 0 && !is_control(text.substr(i, n))) {
      out.append(text.substr(i, n));
      i += n;
      continue;
    }
    // The bytes after the first of an escaped character are invalid UTF-8 by themselves.
    const auto byte = static_cast<unsigned char>(text[i]);
    out += byte == '\n' ? "\\n" : fmt::format("\\x{:02x}", byte);
    ++i;
  }
  return out;
}

namespace {

constexpr size_t kMaxPathBytes = 4096;  // PATH_MAX of Linux

// A path may hold any byte but NUL, line breaks too.
std::string place(const std::string& where, const std::string& item) {
  const std::string path = printable(where, kMaxPathBytes);
  return item.empty() ? path : path + ": " + item;
}

}  // namespace

Error::Error(const std::string& where, const std::string& item, const std::string& expected,
             const std::string& got)
    : std::runtime_error(fmt::format("{}: expected {}, got {}", place(where, item), expected, got)) {}

Error::Error(const std::string& where, const std::string& message)
    : std::runtime_error(fmt::format("{}: {}", place(where, ""), message)) {}

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, detail.c_str());
  std::abort();
}

}  // namespace switchyard
