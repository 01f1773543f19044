// The dictionary of tensors that torch.save(state_dict) pickles, before any storage is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace switchyard {

struct PytorchTensor {
  std::string_view name;
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements; one for each dimension
  int64_t first_element;         // of the storage
  std::string_view storage_key;
  int64_t storage_bytes;
};

// Reads data.pkl, whose texts the result points into. In the order of the dictionary, each name once. Throws
// Error on everything that io/pickle.h refuses, on a root that is not a flat dictionary from text to tensor,
// on tensors of other kinds (sparse, quantised, complex), and on what a view's numbers must not be: negative,
// beyond 8 dimensions, beyond 2^63 bytes, or outside the storage. A parameter counts as its tensor;
// requires_grad says nothing about the elements and is ignored; backward hooks are refused.
std::vector<PytorchTensor> read_pytorch_tensors(std::span<const std::byte> pickle, const std::string& where);

int64_t elements(const PytorchTensor& tensor);

// Whether the elements stand in row-major order without gaps. The stride of a dimension of 1 means nothing,
// and a tensor without elements is contiguous.
bool is_contiguous(const PytorchTensor& tensor);

}  // namespace switchyard
