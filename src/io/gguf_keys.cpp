#include "io/gguf_keys.h"

#include "base/error.h"
#include "io/gguf_config.h"

namespace switchyard {
namespace {

constexpr int64_t kMaxInt = int64_t{1} << 31;
constexpr double kMaxNumber = 1e15;

Json keys_under(const GgufFile& file, const std::string& prefix) {
  Json keys = Json::object();
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(prefix)) keys[key.substr(prefix.size())] = value;
  }
  return keys;
}

}  // namespace

GgufKeys::GgufKeys(const GgufFile& file)
    : file_(file),
      architecture_(gguf_architecture(file)),
      reader_(keys_under(file, architecture_ + "."),
              fmt::format("{}: {}", file.path(), printable(architecture_))) {}

int64_t GgufKeys::required_int(const std::string& key) const {
  return reader_.required_int(key, 1, kMaxInt);
}

int64_t GgufKeys::int_or(const std::string& key, int64_t absent) const {
  return reader_.int_or(key, absent, 0, kMaxInt);
}

double GgufKeys::number_or(const std::string& key, double absent) const {
  return reader_.number_or(key, absent, 0, kMaxNumber);
}

std::optional<double> GgufKeys::optional_number(const std::string& key) const {
  return reader_.optional_number(key, 0, kMaxNumber);
}

bool GgufKeys::bool_or(const std::string& key, bool absent) const {
  return reader_.bool_or(key, absent);
}

std::string GgufKeys::string_or(const std::string& key, const std::string& absent) const {
  return reader_.string_or(key, absent);
}

bool GgufKeys::has(const std::string& key) const {
  return reader_.find(key) != nullptr;
}

void GgufKeys::require(const std::string& key, int64_t value, const std::string& reason) const {
  const int64_t got = int_or(key, value);
  if (got != value) fail(key, fmt::format("{}, {}", value, reason), fmt::format("{}", got));
}

void GgufKeys::fail(const std::string& key, const std::string& expected, const std::string& got) const {
  throw Error(reader_.path(), fmt::format("key '{}'", printable(key)), expected, got);
}

void GgufKeys::check_all_read() const {
  for (const std::string& key : reader_.unread_keys())
    fail(key, "a known key, since others may change results", describe(reader_.json()[key]));
}

}  // namespace switchyard
