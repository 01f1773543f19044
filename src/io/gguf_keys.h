// The metadata keys under a GGUF file's architecture ("llama." and so on), named without that prefix. What
// nobody reads is refused, as with config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/config_reader.h"
#include "io/gguf_file.h"

namespace switchyard {

class GgufKeys {
 public:
  // Throws Error when the file names no architecture.
  explicit GgufKeys(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }

  // Each marks its key as read, and throws Error for a value of another type or an unreasonable size.
  int64_t required_int(const std::string& key) const;  // at least 1
  int64_t int_or(const std::string& key, int64_t absent) const;
  double number_or(const std::string& key, double absent) const;
  std::optional<double> optional_number(const std::string& key) const;
  bool bool_or(const std::string& key, bool absent) const;
  std::string string_or(const std::string& key, const std::string& absent) const;
  bool has(const std::string& key) const;

  // Throws Error unless the key is absent or has this value; `reason` says why only this will do.
  void require(const std::string& key, int64_t value, const std::string& reason) const;
  [[noreturn]] void fail(const std::string& key, const std::string& expected, const std::string& got) const;

  // Throws Error for the first key that was not read.
  void check_all_read() const;

 private:
  const GgufFile& file_;
  std::string architecture_;
  ConfigReader reader_;
};

}  // namespace switchyard
