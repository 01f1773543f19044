// A model folder as Hugging Face publishes it. The weights are in one file, or in several (shards) that an
// index lists:
//   {"metadata": {"total_size": <bytes of all tensors>}, "weight_map": {"<tensor>": "<file name>", ...}}
// Where several are there, the first of these is read and the others ignored, as transformers does; notes()
// says so:
//   model.safetensors, model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tensor_file.h"

namespace switchyard {

class Checkpoint {
 public:
  // Maps every file and reads the headers only (and what io/pytorch.h copies). Throws Error when `folder` is
  // not a folder, holds no weights (other formats found are named), or when a file, the index, or their
  // agreement is broken: every shard exists and holds exactly the tensors that the index maps to it.
  static Checkpoint open(const std::string& folder);

  struct View {
    DType dtype;
    std::vector<int64_t> shape;
    const std::byte* data;  // row-major elements, aligned to the element size
    int64_t size_bytes;
    std::shared_ptr<const void> keep_alive;  // data stays valid as long as any copy of this lives
    std::string file;                        // path of the file that holds it, for errors
  };

  const std::string& folder() const { return folder_; }
  const TensorInfo* find(std::string_view name) const;                  // nullptr: no such tensor
  View tensor(std::string_view name) const;                             // throws Error: no such tensor
  std::vector<std::string> names() const;                               // sorted
  std::vector<std::string> names_under(std::string_view prefix) const;  // sorted
  int64_t total_bytes() const { return total_bytes_; }                  // of all tensors' elements
  const std::vector<std::shared_ptr<const TensorFile>>& files() const { return files_; }
  const std::vector<std::string>& notes() const { return notes_; }  // what a user should know, one line each

  // Lets the pages of a tensor's elements leave memory; they are read again when touched.
  void release_pages(std::string_view name) const;

  // Throws Error when one of the files was changed since it was opened (see MappedFile).
  void verify_unchanged() const;

 private:
  struct Entry {
    const TensorInfo* info;  // owned by files_[file]
    size_t file;
  };

  explicit Checkpoint(std::string folder) : folder_(std::move(folder)) {}
  void add_file(const std::string& path);
  void add_shards(const std::string& index_name, std::string_view shard_suffix);
  void sort_entries();
  const Entry* find_entry(std::string_view name) const;

  std::string folder_;
  std::vector<std::shared_ptr<const TensorFile>> files_;
  std::vector<Entry> entries_;  // sorted by name
  int64_t total_bytes_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace switchyard
