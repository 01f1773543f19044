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
#include <vector>

#include "io/tensor_file.h"

namespace switchyard {

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by name
  std::map<std::string, std::string> metadata;
};

// Parses and checks the header of a whole file's bytes; no byte after the header is touched. `where` names
// the file in errors. Throws Error on everything that the top of this file does not allow.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& where);

class SafetensorsFile : public TensorFile {
 public:
  // Maps the file and reads its header only. Throws Error as MappedFile and parse_safetensors do.
  static std::shared_ptr<const SafetensorsFile> open(const std::string& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(const std::string& path);

  std::map<std::string, std::string> metadata_;
};

}  // namespace switchyard
