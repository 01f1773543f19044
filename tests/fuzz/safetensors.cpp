// Arbitrary bytes as a safetensors file: an Error, or tensors that lie within the bytes and do not overlap.
#include "io/safetensors.h"

#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using switchyard::TensorInfo;
  try {
    const auto header = switchyard::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    int64_t total = 0;
    for (const TensorInfo& tensor : header.tensors) {
      if (tensor.offset_bytes < 8 || tensor.size_bytes < 0) std::abort();
      if (tensor.offset_bytes > static_cast<int64_t>(size) - tensor.size_bytes) std::abort();
      total += tensor.size_bytes;
    }
    if (total > static_cast<int64_t>(size)) std::abort();
  } catch (const switchyard::Error&) {
  }
  return 0;
}
