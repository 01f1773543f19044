#include "base/json.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include <sys/stat.h>

#include "base/error.h"

namespace switchyard {
namespace {

// Builds the tree of a document, and throws Error for what parse_json() refuses. The library's own builder
// silently keeps the last of duplicate keys, and its parser with a callback searches all siblings for
// discarded values after each object, which takes quadratic time for the many thousands of objects of a
// safetensors header.
template <typename AnyJson>
class Builder : public nlohmann::json_sax<AnyJson> {
 public:
  using Stream = JsonStreamOf<AnyJson>;

  Builder(const std::string& where, std::span<const Stream> streams) : where_(where), streams_(streams) {}

  AnyJson take_root() { return std::move(root_); }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string&) override { return scalar(value); }
  bool string(std::string& value) override { return scalar(std::move(value)); }
  bool binary(typename AnyJson::binary_t& value) override { return scalar(AnyJson::binary(value)); }

  bool start_object(size_t) override { return start(AnyJson::object()); }
  bool end_object() override { return end(); }
  bool start_array(size_t) override { return start(AnyJson::array()); }
  bool end_array() override { return end(); }

  bool key(std::string& key) override {
    Container& object = open_.back();
    object.key = std::move(key);
    if (object.stream != nullptr) return true;
    const auto [member, is_new] = object.value->emplace(object.key, nullptr);
    if (!is_new) refuse_duplicate_key(object.key, where_);
    object.member = &*member;
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception& e) override {
    throw Error(where_, fmt::format("byte {}", byte), "valid JSON", printable(e.what(), 200));
  }

 private:
  struct Container {
    AnyJson* value = nullptr;
    AnyJson* member = nullptr;       // of an object: the value under `key`
    const Stream* stream = nullptr;  // takes the items
    std::string key;                 // of an object: the latest
  };

  // Stores the value where the text has it.
  AnyJson& put(AnyJson&& value) {
    if (open_.empty()) return root_ = std::move(value);
    const Container& in = open_.back();
    if (in.stream != nullptr) return item_ = std::move(value);
    if (in.value->is_object()) return *in.member = std::move(value);
    return in.value->emplace_back(std::move(value));
  }

  template <typename Value>
  bool scalar(Value&& value) {
    put(AnyJson(std::forward<Value>(value)));
    return complete();
  }

  bool start(AnyJson&& empty) {
    if (open_.size() >= kMaxJsonDepth) {
      throw Error(where_, "", fmt::format("JSON nested at most {} deep", kMaxJsonDepth), "deeper nesting");
    }
    const Stream* stream = stream_here(empty.type());
    open_.push_back({&put(std::move(empty)), nullptr, stream, {}});
    return true;
  }

  bool end() {
    open_.pop_back();
    return complete();
  }

  // A value has ended.
  bool complete() {
    if (!open_.empty() && open_.back().stream != nullptr) open_.back().stream->take(open_.back().key, item_);
    return true;
  }

  // The stream for a container of this type that opens now.
  const Stream* stream_here(nlohmann::json::value_t type) const {
    const auto has_key = [](const Container& in, const std::string& key) { return in.key == key; };
    for (const Stream& stream : streams_) {
      if (stream.type == type &&
          std::equal(open_.begin(), open_.end(), stream.path.begin(), stream.path.end(), has_key)) {
        return &stream;
      }
    }
    return nullptr;
  }

  const std::string& where_;
  std::span<const Stream> streams_;
  AnyJson root_;
  AnyJson item_;  // of a stream, under construction
  std::vector<Container> open_;
};

template <typename AnyJson>
AnyJson parse(std::string_view text, const std::string& where,
              std::span<const JsonStreamOf<AnyJson>> streams = {}) {
  Builder<AnyJson> builder(where, streams);
  AnyJson::sax_parse(text, &builder);
  return builder.take_root();
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  return parse<Json>(text, where);
}

Json parse_json(std::string_view text, const std::string& where, std::span<const JsonStream> streams) {
  return parse<Json>(text, where, streams);
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& where) {
  return parse<OrderedJson>(text, where);
}

void refuse_duplicate_key(std::string_view key, const std::string& where) {
  throw Error(where, fmt::format("key '{}'", printable(key)), "each key once in an object", "it twice");
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
