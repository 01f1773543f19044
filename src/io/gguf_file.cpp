#include "io/gguf_file.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include <fmt/ranges.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/gguf_reader.h"
#include "io/gguf_types.h"
#include "io/safetensors.h"
#include "tensor/blocks/block_format.h"

namespace switchyard {
namespace {

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMaxAlignment = 1 << 20;

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

class Parser {
 public:
  Parser(std::span<const std::byte> file, const std::string& where)
      : reader_(file, where), where_(where), file_bytes_(static_cast<int64_t>(file.size())) {}

  GgufHeader parse() {
    check_version();
    const int64_t tensors = reader_.count("number of tensors", kMaxGgufTensors);
    const int64_t pairs = reader_.count("number of metadata pairs", kMaxGgufPairs);
    for (int64_t i = 0; i < pairs; ++i)
      read_pair();
    for (int64_t i = 0; i < tensors; ++i)
      read_tensor();
    place_tensors();
    return std::move(header_);
  }

 private:
  void check_version() {
    if (reader_.left() < 4 || reader_.number<uint32_t>("magic") != 0x46554747) {  // "GGUF"
      throw Error(where_, "", "a file that begins with 'GGUF'", "another one");
    }
    const auto version = reader_.number<uint32_t>("version");
    if (version == 0x02000000 || version == 0x03000000) {
      throw Error(where_, "version", "a little-endian file", "a big-endian one");
    }
    if (version != 2 && version != 3) throw Error(where_, "version", "2 or 3", fmt::format("{}", version));
  }

  void read_pair() {
    std::string key = reader_.string("metadata key", kMaxGgufNameBytes);
    const std::string item = fmt::format("key '{}'", printable(key));
    Json value = read_value(reader_.number<uint32_t>(item), item, 0);
    if (!header_.metadata.emplace(std::move(key), std::move(value)).second) {
      throw Error(where_, item, "each key once", "the key again");
    }
  }

  Json read_value(uint32_t type, const std::string& item, int depth) {
    switch (type) {
      case kUint8:
        return reader_.number<uint8_t>(item);
      case kInt8:
        return reader_.number<int8_t>(item);
      case kUint16:
        return reader_.number<uint16_t>(item);
      case kInt16:
        return reader_.number<int16_t>(item);
      case kUint32:
        return reader_.number<uint32_t>(item);
      case kInt32:
        return reader_.number<int32_t>(item);
      case kFloat32:
        return reader_.number<float>(item);
      case kBool:
        return read_bool(item);
      case kString:
        return read_text(item);
      case kArray:
        return read_array(item, depth + 1);
      case kUint64:
        return reader_.number<uint64_t>(item);
      case kInt64:
        return reader_.number<int64_t>(item);
      case kFloat64:
        return reader_.number<double>(item);
      default:
        throw Error(where_, item, "a value type from 0 to 12", fmt::format("{}", type));
    }
  }

  Json read_bool(const std::string& item) {
    const auto byte = reader_.number<uint8_t>(item);
    if (byte > 1) throw Error(where_, item, "a boolean, 0 or 1", fmt::format("{}", byte));
    return byte == 1;
  }

  Json read_text(const std::string& item) {
    std::string text = reader_.string(item, kMaxGgufStringBytes);
    text_bytes_ += static_cast<int64_t>(text.size());
    if (text_bytes_ > kMaxGgufMetadataBytes) {
      throw Error(where_, item, fmt::format("at most {} bytes of metadata strings", kMaxGgufMetadataBytes),
                  "more");
    }
    return text;
  }

  Json read_array(const std::string& item, int depth) {
    if (depth > kMaxGgufArrayDepth) {
      throw Error(where_, item, fmt::format("arrays at most {} deep", kMaxGgufArrayDepth), "deeper ones");
    }
    const auto type = reader_.number<uint32_t>(item);
    const int64_t count = reader_.count(item + ", count", kMaxGgufElements - elements_);
    elements_ += count;
    Json::array_t values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(read_value(type, item, depth));
    return values;
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.name = reader_.string("tensor name", kMaxGgufNameBytes);
    const std::string item = tensor_item(tensor.name);
    const auto dimensions = reader_.number<uint32_t>(item);
    if (dimensions < 1 || dimensions > kMaxGgufDimensions) {
      throw Error(where_, item, fmt::format("1 to {} dimensions", kMaxGgufDimensions),
                  fmt::format("{}", dimensions));
    }
    for (uint32_t i = 0; i < dimensions; ++i) {
      const int64_t dim = reader_.count(item + ", dimension", std::numeric_limits<int64_t>::max());
      if (dim == 0) throw Error(where_, item, "dimensions above 0", "0");
      tensor.shape.insert(tensor.shape.begin(), dim);
    }
    read_type(tensor, item);
    tensor.size_bytes = size_of(tensor, item);
    tensor.offset_bytes = reader_.count(item + ", offset", std::numeric_limits<int64_t>::max());
    header_.tensors.push_back(std::move(tensor));
  }

  void read_type(GgufTensor& tensor, const std::string& item) {
    const auto id = reader_.number<uint32_t>(item);
    const GgufType* type = find_gguf_type(id);
    if (type == nullptr || !type->supported) {
      throw Error(where_, item, "type F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K",
                  type == nullptr ? fmt::format("type {}", id) : std::string(type->name));
    }
    tensor.format = type->format;
    tensor.dtype = type->dtype;
    const BlockFormat* blocks = find_block_format(type->format);
    if (blocks != nullptr && tensor.cols() % blocks->cols != 0) {
      throw Error(where_, item, fmt::format("rows of whole {} blocks of {}", type->name, blocks->cols),
                  fmt::format("rows of {}", tensor.cols()));
    }
  }

  int64_t size_of(const GgufTensor& tensor, const std::string& item) const {
    // No type has elements of more than 4 bytes, so that the bytes of a row fit where its elements do.
    std::optional<int64_t> bytes = checked_mul(tensor.cols(), 4);
    if (bytes) bytes = tensor.row_bytes();
    for (size_t i = 0; bytes && i + 1 < tensor.shape.size(); ++i)
      bytes = checked_mul(*bytes, tensor.shape[i]);
    if (!bytes) {
      throw Error(where_, item, "a size below 2^63 bytes",
                  fmt::format("shape [{}]", fmt::join(tensor.shape, ", ")));
    }
    return *bytes;
  }

  int64_t alignment() const {
    const auto found = header_.metadata.find(std::string(kAlignmentKey));
    if (found == header_.metadata.end()) return kDefaultAlignment;
    const Json& value = found->second;
    const uint64_t alignment = value.is_number_unsigned() ? value.get<uint64_t>() : 0;
    if (alignment < 8 || alignment > kMaxAlignment || !std::has_single_bit(alignment)) {
      throw Error(where_, "key 'general.alignment'", fmt::format("a power of two in [8, {}]", kMaxAlignment),
                  describe(value));
    }
    return static_cast<int64_t>(alignment);
  }

  // From offsets in the data to offsets in the file.
  void place_tensors() {
    const int64_t align = alignment();
    const int64_t data_begin = (reader_.position() + align - 1) / align * align;
    const int64_t data_bytes = std::max<int64_t>(0, file_bytes_ - data_begin);
    for (GgufTensor& tensor : header_.tensors) {
      const std::string item = tensor_item(tensor.name);
      if (tensor.offset_bytes % align != 0) {
        throw Error(where_, item, fmt::format("an offset that is a multiple of {}", align),
                    fmt::format("{}", tensor.offset_bytes));
      }
      const auto end = checked_add(tensor.offset_bytes, tensor.size_bytes);
      if (!end || *end > data_bytes) {
        throw Error(
            where_, item, fmt::format("elements within the {} bytes of data", data_bytes),
            fmt::format("{} bytes at {}: the file is cut or broken", tensor.size_bytes, tensor.offset_bytes));
      }
      tensor.offset_bytes += data_begin;
    }
    check_overlaps();
    std::sort(header_.tensors.begin(), header_.tensors.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(header_.tensors.begin(), header_.tensors.end(),
                           [](const GgufTensor& a, const GgufTensor& b) { return a.name == b.name; });
    if (twice != header_.tensors.end()) {
      throw Error(where_, tensor_item(twice->name), "each name once", "the name again");
    }
  }

  void check_overlaps() {
    std::sort(header_.tensors.begin(), header_.tensors.end(),
              [](const GgufTensor& a, const GgufTensor& b) { return a.offset_bytes < b.offset_bytes; });
    for (size_t i = 1; i < header_.tensors.size(); ++i) {
      const GgufTensor& before = header_.tensors[i - 1];
      const GgufTensor& tensor = header_.tensors[i];
      const int64_t end = before.offset_bytes + before.size_bytes;
      if (tensor.offset_bytes >= end) continue;
      throw Error(where_, tensor_item(tensor.name),
                  fmt::format("elements behind byte {}, where '{}' ends", end, printable(before.name)),
                  fmt::format("an overlap: byte {}", tensor.offset_bytes));
    }
  }

  GgufReader reader_;
  const std::string& where_;
  int64_t file_bytes_;
  GgufHeader header_;
  int64_t elements_ = 0;    // of arrays so far
  int64_t text_bytes_ = 0;  // of values so far
};

}  // namespace

int64_t GgufTensor::row_bytes() const {
  return switchyard::row_bytes({.dtype = dtype, .cols = cols(), .format = format});
}

GgufHeader parse_gguf(std::span<const std::byte> file, const std::string& where) {
  return Parser(file, where).parse();
}

GgufFile::GgufFile(const std::string& path) : file_(path), header_(parse_gguf(file_.bytes(), path)) {}

std::shared_ptr<const GgufFile> GgufFile::open(const std::string& path) {
  return std::shared_ptr<const GgufFile>(new GgufFile(path));
}

const Json* GgufFile::find_metadata(const std::string& key) const {
  const auto found = metadata().find(key);
  return found != metadata().end() ? &found->second : nullptr;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors().begin(), tensors().end(), name,
                                      [](const GgufTensor& t, std::string_view n) { return t.name < n; });
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

}  // namespace switchyard
