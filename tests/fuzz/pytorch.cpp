// Arbitrary bytes as a PyTorch checkpoint, and as the pickle inside one: an Error, or tensors whose elements
// all lie within the bytes.
#include "io/pytorch.h"

#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "io/pytorch_tensors.h"

namespace {

using namespace switchyard;

void require(bool condition) {
  if (!condition) std::abort();
}

// In bytes from the first element to the end of the last one.
int64_t extent_bytes(const PytorchView& view) {
  const int64_t element_bytes = size_bytes(view.info.dtype);
  int64_t extent = element_bytes;
  for (size_t i = 0; i < view.info.shape.size(); ++i) {
    if (view.info.shape[i] == 0) return 0;
    extent += (view.info.shape[i] - 1) * view.strides[i] * element_bytes;
  }
  return extent;
}

void read_file(std::span<const std::byte> file) {
  int64_t copied = 0;
  for (const PytorchView& view : parse_pytorch(file, "input")) {
    const auto file_bytes = static_cast<int64_t>(file.size());
    const int64_t extent = extent_bytes(view);
    require(view.info.offset_bytes >= 0 && view.info.offset_bytes <= file_bytes - extent);
    require(view.strides.size() == view.info.shape.size());
    require(!view.is_contiguous || view.info.size_bytes == extent);
    copied += view.is_contiguous ? 0 : view.info.size_bytes;
    require(copied <= file_bytes);
  }
}

void read_pickle(std::span<const std::byte> pickle) {
  for (const PytorchTensor& tensor : read_pytorch_tensors(pickle, "input")) {
    require(tensor.first_element >= 0 && elements(tensor) >= 0);
    require(tensor.storage_bytes >= 0 && tensor.strides.size() == tensor.shape.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    read_file(bytes);
  } catch (const Error&) {
  }
  try {
    read_pickle(bytes);
  } catch (const Error&) {
  }
  return 0;
}
