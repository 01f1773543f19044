// A file of named, typed arrays, mapped into memory: what all formats of checkpoints have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"

namespace switchyard {

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;  // empty for a scalar; a dimension may be 0
  int64_t offset_bytes;        // of the first element, from the start of the file
  int64_t size_bytes;
};

// The item of an Error about a tensor: "tensor '<name>'".
std::string tensor_item(std::string_view name);

class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted by name
  const TensorInfo* find(std::string_view name) const;                 // nullptr: no such tensor
  const MappedFile& file() const { return file_; }

  // The elements of a tensor of this file, row-major and aligned to the element size; valid as long as this
  // object lives. In place in the mapped file, unless the format says otherwise.
  virtual const std::byte* data(const TensorInfo& tensor) const { return file_.data() + tensor.offset_bytes; }

 protected:
  explicit TensorFile(const std::string& path) : file_(path) {}  // throws Error as MappedFile does
  void set_tensors(std::vector<TensorInfo> sorted_by_name) { tensors_ = std::move(sorted_by_name); }

 private:
  MappedFile file_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace switchyard
