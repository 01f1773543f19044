// The GGUF format, versions 2 and 3: metadata and tensors in one file, mapped into memory. Numbers are
// little-endian; a string is its length, uint64, and its bytes, UTF-8 (checked).
//
//   "GGUF"        magic
//   uint32        version
//   uint64, -64   number of tensors, number of metadata pairs
//   pairs         string key, uint32 type, value; an array is uint32 type, uint64 count, values
//   tensors       string name, uint32 n, uint64 dimensions[n] (the innermost first), uint32 type,
//                 uint64 offset in the data
//   data          from the next multiple of `general.alignment` (32 where absent), each tensor at one
//
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Checked beyond it: no key and no tensor
// twice, tensors within the file and apart from each other, rows of whole blocks, and the limits below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tensor/matrix.h"

namespace switchyard {

inline constexpr int64_t kMaxGgufTensors = 1 << 20;
inline constexpr int64_t kMaxGgufPairs = 1 << 16;
inline constexpr int64_t kMaxGgufNameBytes = 1 << 10;          // of a key or a tensor's name
inline constexpr int64_t kMaxGgufStringBytes = 16 << 20;       // of a value
inline constexpr int64_t kMaxGgufMetadataBytes = 256 << 20;    // of all strings of all values
inline constexpr int64_t kMaxGgufElements = int64_t{8} << 20;  // of all arrays
inline constexpr int kMaxGgufArrayDepth = 4;
inline constexpr int kMaxGgufDimensions = 4;

struct GgufTensor {
  std::string name;
  MatrixFormat format;         // kPlain or one of the block formats
  DType dtype;                 // of a plain tensor: F32, F16 or BF16
  std::vector<int64_t> shape;  // the outermost dimension first: the reverse of the file's; 1 to 4, none is 0
  int64_t offset_bytes;        // from the start of the file
  int64_t size_bytes;

  int64_t cols() const { return shape.back(); }
  int64_t row_bytes() const;
};

struct GgufHeader {
  std::map<std::string, Json> metadata;  // numbers, booleans, strings, arrays
  std::vector<GgufTensor> tensors;       // sorted by name
};

// Parses and checks everything before the data; no byte of the data is touched. `where` names the file in
// errors. Throws Error for everything that the top of this file does not allow, and for element types other
// than F32, F16, BF16 and the block formats, by name.
GgufHeader parse_gguf(std::span<const std::byte> file, const std::string& where);

class GgufFile {
 public:
  // Maps the file and reads its header only. Throws Error as MappedFile and parse_gguf do.
  static std::shared_ptr<const GgufFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, Json>& metadata() const { return header_.metadata; }
  const Json* find_metadata(const std::string& key) const;                    // nullptr: no such key
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }  // sorted by name
  const GgufTensor* find(std::string_view name) const;                        // nullptr: no such tensor

  // The bytes of a tensor of this file; valid as long as this object lives.
  const std::byte* data(const GgufTensor& tensor) const { return file_.data() + tensor.offset_bytes; }
  const MappedFile& file() const { return file_; }

 private:
  explicit GgufFile(const std::string& path);

  MappedFile file_;
  GgufHeader header_;
};

}  // namespace switchyard
