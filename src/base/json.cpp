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

// Reads a document without building it, and throws Error for what parse_json() refuses.
template <typename AnyJson>
class Guard : public nlohmann::json_sax<AnyJson> {
 public:
  explicit Guard(const std::string& where) : where_(where) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(typename AnyJson::binary_t&) override { return true; }

  bool start_object(size_t) override {
    enter();
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    --depth_;
    keys_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    enter();
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(std::string& key) override {
    if (keys_.back().insert(key).second) return true;
    throw Error(where_, fmt::format("key '{}'", printable(key)), "each key once in an object", "it twice");
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception& e) override {
    throw Error(where_, fmt::format("byte {}", byte), "valid JSON", printable(e.what(), 200));
  }

 private:
  void enter() {
    if (depth_ >= kMaxJsonDepth) {
      throw Error(where_, "", fmt::format("JSON nested at most {} deep", kMaxJsonDepth), "deeper nesting");
    }
    ++depth_;
  }

  const std::string& where_;
  int depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;
};

// Two passes: the library's parser with a callback would do in one, but after each object it searches all
// siblings for discarded values, which takes quadratic time for the many thousands of objects of a
// safetensors header.
template <typename AnyJson>
AnyJson parse(std::string_view text, const std::string& where) {
  Guard<AnyJson> guard(where);
  AnyJson::sax_parse(text, &guard);
  return AnyJson::parse(text);
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
