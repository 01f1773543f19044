// The safetensors format: named, typed arrays in one file, mapped into memory.
//
//   bytes 0..7    length N of the header, unsigned 64-bit little-endian
//   N bytes       JSON: {"<tensor>": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                 "__metadata__": {"<key>": "<text>", ...}}, offsets relative to the first byte after it
//   the rest      the tensors' elements, row-major, little-endian, without gaps
//
// Checked as the reference implementation does (https://github.com/huggingface/safetensors, "Format"): header
// of at most 100 MB; known element types; size = shape times element size; data covered exactly, without
// overlap or gap. Checked beyond it: no other key in an entry, no key twice, and each tensor aligned to its
// element size within the file, so that kernels may read mapped elements in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"

namespace switchyard {

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;  // empty for a scalar; a dimension may be 0
  int64_t offset_bytes;        // of the first element, from the start of the file
  int64_t size_bytes;
};

// The item of an Error about a tensor: "tensor '<name>'".
std::string tensor_item(std::string_view name);

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by name
  std::map<std::string, std::string> metadata;
};

// Parses and checks the header of a whole file's bytes; no byte after the header is touched. `where` names
// the file in errors. Throws Error on everything that the top of this file does not allow.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& where);

class SafetensorsFile {
 public:
  // Maps the file and reads its header only. Throws Error as MappedFile and parse_safetensors do.
  static std::shared_ptr<const SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // sorted by name
  const TensorInfo* find(std::string_view name) const;                        // nullptr: no such tensor

  // The elements of a tensor of this file, aligned to the element size; valid as long as this object lives.
  const std::byte* data(const TensorInfo& tensor) const { return file_.data() + tensor.offset_bytes; }
  const MappedFile& file() const { return file_; }

 private:
  explicit SafetensorsFile(const std::string& path);

  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace switchyard
