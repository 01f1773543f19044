#include "base/json.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_set>
#include <vector>

#include <sys/stat.h>

#include "base/error.h"

namespace switchyard {
namespace {

// Watches the parser's events for depth and duplicate keys.
class Guard {
 public:
  explicit Guard(const std::string& where) : where_(where) {}

  template <typename AnyJson>
  bool operator()(int depth, typename AnyJson::parse_event_t event, const AnyJson& parsed) {
    using Event = typename AnyJson::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMaxJsonDepth) {
        throw Error(where_, "", fmt::format("JSON nested at most {} deep", kMaxJsonDepth), "deeper nesting");
      }
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw Error(where_, fmt::format("key '{}'", printable(key)), "each key once in an object",
                    "it twice");
      }
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::unordered_set<std::string>> keys_;
};

template <typename AnyJson>
AnyJson parse(std::string_view text, const std::string& where) {
  Guard guard(where);
  try {
    return AnyJson::parse(text, [&](int depth, typename AnyJson::parse_event_t event, AnyJson& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(where, fmt::format("byte {}", e.byte), "valid JSON", printable(e.what(), 200));
  } catch (const nlohmann::json::exception& e) {  // e.g. a number beyond the range of a double
    throw Error(where, "", "valid JSON", printable(e.what(), 200));
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  return parse<Json>(text, where);
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& where) {
  return parse<OrderedJson>(text, where);
}

std::string describe(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  if (value.is_array() && value.size() > 8) return fmt::format("an array of {} values", value.size());
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string read_file(const std::string& path, int64_t max_bytes) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) throw Error(path, "", "a readable file", std::strerror(errno));
  if (!S_ISREG(info.st_mode)) throw Error(path, "", "a regular file", "something else");
  if (info.st_size > max_bytes) {
    throw Error(path, "", fmt::format("at most {} bytes", max_bytes), fmt::format("{} bytes", info.st_size));
  }
  std::ifstream in(path, std::ios::binary);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw Error(path, "", fmt::format("{} readable bytes", info.st_size), std::strerror(errno));
  return bytes;
}

}  // namespace switchyard
