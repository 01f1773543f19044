// Arbitrary bytes as a GGUF file: an Error, or tensors that lie within the bytes and do not overlap.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "io/gguf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using switchyard::GgufTensor;
  try {
    const auto header = switchyard::parse_gguf(std::as_bytes(std::span(data, size)), "input");
    int64_t total = 0;
    for (const GgufTensor& tensor : header.tensors) {
      if (tensor.offset_bytes < 24 || tensor.size_bytes <= 0) std::abort();
      if (tensor.offset_bytes > static_cast<int64_t>(size) - tensor.size_bytes) std::abort();
      total += tensor.size_bytes;
    }
    if (total > static_cast<int64_t>(size)) std::abort();
  } catch (const switchyard::Error&) {
  }
  return 0;
}
