// Errors. Two kinds, never mixed:
//   * wrong input (a file, a request, a command line) throws Error: one clear line that names the file, the
//     key or tensor, what was expected and what was found;
//   * a wrong program (a broken invariant) aborts through SY_CHECK with both values.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace switchyard {

class Error : public std::runtime_error {
 public:
  // "<where>: <item>: expected <expected>, got <got>". `where` is a path or the name of an input; `item`
  // names the key, tensor or position inside it and may be empty.
  Error(const std::string& where, const std::string& item, const std::string& expected,
        const std::string& got);

  // For the rare message that has no expected/got pair: "<where>: <message>".
  Error(const std::string& where, const std::string& message);
};

// Bytes from untrusted input made fit for one line of a message: control characters (C0, DEL and C1, which
// terminals obey) and invalid UTF-8 are escaped as \xNN, and anything longer than `max_bytes` is cut and
// marked.
std::string printable(std::string_view text, size_t max_bytes = 80);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace switchyard

// SY_CHECK(condition, "format", values...): an invariant of the program. Always on.
#define SY_CHECK(condition, ...)                                                            \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::switchyard::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
