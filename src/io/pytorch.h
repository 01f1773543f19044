// PyTorch checkpoints (`pytorch_model.bin`): what torch.save(state_dict) has written since torch 1.6, a zip
// archive of stored entries under one folder name:
//
//   <folder>/data.pkl      a pickle of the dictionary: for each tensor its name, storage, offset, size,
//   strides <folder>/data/<key>    the elements of one storage, little-endian <folder>/version       of the
//   format <folder>/byteorder     "little"; absent before torch 2.1 <folder>/.<name>       notes of torch to
//   itself, not needed here
//
// The pickle is read by a machine that executes nothing (io/pickle.h). Elements are used in place from the
// mapped file, several tensors of one storage too; only a tensor that is no contiguous piece of its storage,
// such as a transposed view, is copied into memory when the file is opened. Older files (a bare pickle) and
// TorchScript archives are refused.
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

// A tensor as a view of the file's bytes.
struct PytorchView {
  TensorInfo info;
  std::vector<int64_t> strides;  // elements
  bool is_contiguous;            // if not, info.size_bytes is the size of the tensor, not of a range
};

// Parses and checks a whole file's bytes; no storage is touched. Sorted by name. `where` names the file in
// errors. Throws Error on everything that the top of this file does not allow; when a storage is missing,
// unused, misaligned, or not as long as the pickle says; and when the tensors to be copied have more bytes
// together than the file, which only repeated or expanded views can have.
std::vector<PytorchView> parse_pytorch(std::span<const std::byte> file, const std::string& where);

class PytorchFile : public TensorFile {
 public:
  // Throws Error as MappedFile and parse_pytorch do.
  static std::shared_ptr<const PytorchFile> open(const std::string& path);

  const std::byte* data(const TensorInfo& tensor) const override;
  int64_t copied_tensors() const { return static_cast<int64_t>(copies_.size()); }
  int64_t copied_bytes() const { return copied_bytes_; }

 private:
  explicit PytorchFile(const std::string& path);

  std::map<std::string, std::vector<std::byte>, std::less<>> copies_;  // of tensors that are not contiguous
  int64_t copied_bytes_ = 0;
};

}  // namespace switchyard
