// Writes a safetensors file as a stream: all tensors are declared first, then their bytes follow in file
// order. The file appears under its name only when it is complete: until then it is `<path>.<process
// id>.tmp`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace switchyard {

struct TensorDeclaration {
  std::string name;  // valid UTF-8, unique
  DType dtype;
  std::vector<int64_t> shape;
};

class SafetensorsWriter {
 public:
  // Writes the header. Throws Error when the file cannot be created or written.
  SafetensorsWriter(std::string path, std::vector<TensorDeclaration> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();  // removes what an unfinished writer has written
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The tensors in file order: by descending element size, so that every one is aligned, then by name. This
  // is the order in which write() wants them.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // Appends bytes to the tensor `name`, in as many pieces as the caller likes. It must be the first in
  // tensors() that is not complete yet. Throws Error when the disk is full.
  void write(std::string_view name, std::span<const std::byte> bytes);

  // Makes the file durable and gives it its name, replacing a file of this name. Every byte must have been
  // written. Throws Error when the system refuses.
  void finish();

 private:
  void skip_complete_tensors();
  void append(std::string_view bytes);

  std::string path_;
  std::string temporary_path_;
  std::vector<TensorInfo> tensors_;
  int fd_ = -1;
  size_t current_ = 0;         // index into tensors_
  int64_t current_bytes_ = 0;  // written of that tensor
};

}  // namespace switchyard
