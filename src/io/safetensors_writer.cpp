#include "io/safetensors_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"

namespace switchyard {
namespace {

constexpr size_t kHeaderAlignmentBytes = 8;  // the largest element size

int64_t tensor_bytes(const TensorDeclaration& tensor) {
  int64_t bytes = size_bytes(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    const auto product = checked_mul(bytes, dim);
    SY_CHECK(dim >= 0 && product, "tensor '{}' with dimension {}", tensor.name, dim);
    bytes = *product;
  }
  return bytes;
}

// In file order, with offsets relative to the first byte of data.
std::vector<TensorInfo> layout(std::vector<TensorDeclaration> declared) {
  std::sort(declared.begin(), declared.end(), [](const TensorDeclaration& a, const TensorDeclaration& b) {
    const int64_t a_bytes = size_bytes(a.dtype);
    const int64_t b_bytes = size_bytes(b.dtype);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
  });
  std::set<std::string_view> names;
  std::vector<TensorInfo> tensors;
  int64_t offset = 0;
  for (const TensorDeclaration& tensor : declared) {
    SY_CHECK(tensor.name != "__metadata__" && names.insert(tensor.name).second, "tensor name '{}'",
             tensor.name);
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, offset, tensor_bytes(tensor)});
    const auto end = checked_add(offset, tensors.back().size_bytes);
    SY_CHECK(end.has_value(), "more than 2^63 bytes at tensor '{}'", tensor.name);
    offset = *end;
  }
  return tensors;
}

// Length and JSON, padded with spaces so that the data begins at a multiple of the largest element size. The
// entries stand in file order, so they are joined here: Json would sort them, and OrderedJson takes quadratic
// time for many thousands of keys.
std::string header(const std::vector<TensorInfo>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("\"__metadata__\":{}", Json(metadata).dump());
  for (const TensorInfo& tensor : tensors) {
    text +=
        fmt::format(R"({}{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", text.size() > 1 ? "," : "",
                    Json(tensor.name).dump(), name(tensor.dtype), Json(tensor.shape).dump(),
                    tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes);
  }
  text += '}';
  text.resize((text.size() + kHeaderAlignmentBytes - 1) / kHeaderAlignmentBytes * kHeaderAlignmentBytes, ' ');

  std::string length;
  for (int i = 0; i < 8; ++i)
    length += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  return length + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)),
      temporary_path_(fmt::format("{}.{}.tmp", path_, getpid())),
      tensors_(layout(std::move(tensors))) {
  const std::string head = header(tensors_, metadata);
  if (static_cast<int64_t>(head.size()) > kMaxSafetensorsHeaderBytes) {
    throw Error(path_, "header", fmt::format("at most {} bytes", kMaxSafetensorsHeaderBytes),
                fmt::format("{} bytes for {} tensors", head.size(), tensors_.size()));
  }
  for (TensorInfo& tensor : tensors_)
    tensor.offset_bytes += static_cast<int64_t>(head.size());
  fd_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw Error(temporary_path_, "", "a file that can be written", std::strerror(errno));
  try {
    append(head);
  } catch (...) {  // the destructor does not run
    close(fd_);
    unlink(temporary_path_.c_str());
    throw;
  }
  skip_complete_tensors();
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_path_.c_str());
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  SY_CHECK(current_ < tensors_.size() && tensors_[current_].name == name,
           "'{}' written where '{}' comes next", name,
           current_ < tensors_.size() ? tensors_[current_].name : "nothing");
  const TensorInfo& tensor = tensors_[current_];
  SY_CHECK(static_cast<int64_t>(bytes.size()) <= tensor.size_bytes - current_bytes_,
           "{} bytes for tensor '{}' that lacks {}", bytes.size(), name, tensor.size_bytes - current_bytes_);
  append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  current_bytes_ += static_cast<int64_t>(bytes.size());
  skip_complete_tensors();
}

void SafetensorsWriter::finish() {
  SY_CHECK(fd_ >= 0, "finish() of a finished file {}", path_);
  SY_CHECK(current_ == tensors_.size(), "finish() before tensor '{}' is complete", tensors_[current_].name);
  if (fsync(fd_) != 0) throw Error(temporary_path_, "", "bytes on the disk", std::strerror(errno));
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    throw Error(path_, "", "a file that can be replaced", std::strerror(errno));
  }
  close(fd_);  // nothing is left to fail: fsync has reported every earlier error
  fd_ = -1;
}

void SafetensorsWriter::skip_complete_tensors() {
  while (current_ < tensors_.size() && current_bytes_ == tensors_[current_].size_bytes) {
    ++current_;
    current_bytes_ = 0;
  }
}

void SafetensorsWriter::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw Error(temporary_path_, "", fmt::format("room for {} more bytes", bytes.size()),
                  std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace switchyard
