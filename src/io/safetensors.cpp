#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"

namespace switchyard {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

std::optional<int64_t> non_negative_int(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

// One tensor's entry. Offsets become relative to the start of the file, where `data_begin` is the first byte
// of data.
class EntryParser {
 public:
  EntryParser(const std::string& where, const std::string& tensor, const Json& entry)
      : where_(where), item_(tensor_item(tensor)), entry_(entry) {}

  TensorInfo parse(const std::string& tensor, int64_t data_begin, int64_t file_bytes) {
    check_keys();
    TensorInfo info;
    info.name = tensor;
    info.dtype = dtype();
    info.shape = shape();
    info.size_bytes = size_of(info);
    info.offset_bytes = offset_of(info, data_begin, file_bytes);
    return info;
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw Error(where_, item_, expected, got);
  }

  void check_keys() const {
    if (!entry_.is_object()) fail("an object with dtype, shape and data_offsets", describe(entry_));
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!entry_.contains(key)) fail(fmt::format("a key '{}'", key), describe(entry_));
    }
    for (const auto& [key, value] : entry_.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        fail("only the keys dtype, shape and data_offsets", fmt::format("also '{}'", printable(key)));
      }
    }
  }

  DType dtype() const {
    const Json& value = entry_["dtype"];
    if (!value.is_string()) fail("dtype as a string", describe(value));
    const auto found = dtype_from_name(value.get_ref<const std::string&>());
    if (!found) fail("a supported dtype", describe(value));
    return *found;
  }

  std::vector<int64_t> shape() const {
    const Json& value = entry_["shape"];
    if (!value.is_array()) fail("shape as an array", describe(value));
    std::vector<int64_t> dims;
    for (const Json& entry : value) {
      const auto dim = non_negative_int(entry);
      if (!dim) fail("non-negative integers in shape", describe(entry));
      dims.push_back(*dim);
    }
    return dims;
  }

  int64_t size_of(const TensorInfo& info) const {
    std::optional<int64_t> bytes = size_bytes(info.dtype);
    for (const int64_t dim : info.shape) {
      bytes = checked_mul(*bytes, dim);
      if (!bytes) fail("a size below 2^63 bytes", fmt::format("shape {}", describe(entry_["shape"])));
    }
    return *bytes;
  }

  int64_t offset_of(const TensorInfo& info, int64_t data_begin, int64_t file_bytes) const {
    const Json& value = entry_["data_offsets"];
    if (!value.is_array() || value.size() != 2) fail("data_offsets as [begin, end]", describe(value));
    const auto begin = non_negative_int(value[0]);
    const auto end = non_negative_int(value[1]);
    if (!begin || !end) fail("non-negative integers in data_offsets", describe(value));
    if (*begin > *end) fail("data_offsets with begin <= end", describe(value));
    if (*end > file_bytes - data_begin) {
      fail(fmt::format("data_offsets within the {} bytes of data", file_bytes - data_begin), describe(value));
    }
    if (*end - *begin != info.size_bytes) {
      fail(fmt::format("{} bytes for {} {}", info.size_bytes, name(info.dtype), describe(entry_["shape"])),
           fmt::format("data_offsets {}, {} bytes", describe(value), *end - *begin));
    }
    const int64_t offset = data_begin + *begin;
    if (info.size_bytes > 0 && offset % size_bytes(info.dtype) != 0) {
      fail(fmt::format("{} at a multiple of {} bytes in the file", name(info.dtype), size_bytes(info.dtype)),
           fmt::format("misaligned: byte {}", offset));
    }
    return offset;
  }

  const std::string& where_;
  const std::string item_;
  const Json& entry_;
};

std::map<std::string, std::string> parse_metadata(const Json& value, const std::string& where) {
  if (!value.is_object()) throw Error(where, "__metadata__", "an object of strings", describe(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw Error(where, fmt::format("__metadata__: '{}'", printable(key)), "a string", describe(text));
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Every byte from data_begin to file_bytes belongs to exactly one tensor.
void check_coverage(const std::vector<TensorInfo>& tensors, int64_t data_begin, int64_t file_bytes,
                    const std::string& where) {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors)
    by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
    // An empty tensor stands before the one that starts at the same byte.
    return a->offset_bytes != b->offset_bytes ? a->offset_bytes < b->offset_bytes
                                              : a->size_bytes < b->size_bytes;
  });
  int64_t covered = data_begin;
  for (const TensorInfo* tensor : by_offset) {
    if (tensor->offset_bytes != covered) {
      throw Error(where, tensor_item(tensor->name),
                  fmt::format("data to begin at byte {}, where the previous tensor ends", covered),
                  fmt::format("{}: byte {}", tensor->offset_bytes < covered ? "an overlap" : "a gap",
                              tensor->offset_bytes));
    }
    covered += tensor->size_bytes;
  }
  if (covered != file_bytes) {
    throw Error(where, "", fmt::format("the tensors to fill the file up to byte {}", file_bytes),
                fmt::format("data that ends at byte {}", covered));
  }
}

int64_t header_bytes(std::span<const std::byte> file, const std::string& where) {
  const auto file_bytes = static_cast<int64_t>(file.size());
  if (file_bytes < kLengthBytes) {
    throw Error(where, "", "a safetensors file of at least 8 bytes", fmt::format("{} bytes", file_bytes));
  }
  uint64_t length = 0;
  for (int64_t i = kLengthBytes - 1; i >= 0; --i) {
    length = (length << 8) | static_cast<uint64_t>(file[static_cast<size_t>(i)]);
  }
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    throw Error(where, "header length", fmt::format("at most {} bytes", kMaxSafetensorsHeaderBytes),
                fmt::format("{}", length));
  }
  if (static_cast<int64_t>(length) > file_bytes - kLengthBytes) {
    throw Error(where, "header length",
                fmt::format("at most the {} bytes that follow", file_bytes - kLengthBytes),
                fmt::format("{}: the file is cut or not safetensors", length));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& where) {
  const int64_t length = header_bytes(file, where);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<size_t>(length));
  if (text.empty() || text.front() != '{') {
    throw Error(where, "header", "a JSON object starting with '{'",
                text.empty() ? "nothing" : fmt::format("'{}'", printable(text.substr(0, 16))));
  }
  const Json json = parse_json(text, where);
  const auto file_bytes = static_cast<int64_t>(file.size());
  const int64_t data_begin = kLengthBytes + length;

  SafetensorsHeader header;
  header.tensors.reserve(json.size());
  for (const auto& [key, value] : json.items()) {  // Json sorts its keys, and so the tensors
    if (key == kMetadataKey) {
      header.metadata = parse_metadata(value, where);
    } else {
      header.tensors.push_back(EntryParser(where, key, value).parse(key, data_begin, file_bytes));
    }
  }
  check_coverage(header.tensors, data_begin, file_bytes, where);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path) {
  SafetensorsHeader header = parse_safetensors(file().bytes(), path);
  set_tensors(std::move(header.tensors));
  metadata_ = std::move(header.metadata);
}

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  return std::shared_ptr<const SafetensorsFile>(new SafetensorsFile(path));
}

}  // namespace switchyard
