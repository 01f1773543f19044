#include "tensor/shape.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "tensor/tensor.h"

namespace switchyard {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  SY_CHECK(dims.size() <= kMaxRank, "a shape has at most {} dimensions, got {}", kMaxRank, dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t dim : dims())
    product *= dim;
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dims(), ", "));
}

void check_shape(const char* op, const char* what, const Tensor& tensor, std::initializer_list<Dim*> dims) {
  const Shape& shape = tensor.shape();
  SY_CHECK(shape.rank() == static_cast<int>(dims.size()), "{}: {} has shape {}, expected {} dimensions", op,
           what, to_string(shape), dims.size());
  int i = 0;
  for (Dim* dim : dims) {
    const int64_t value = shape[i++];
    if (dim->value < 0) dim->value = value;
    SY_CHECK(dim->value == value, "{}: {}: dimension {} is {}, expected {}", op, what, dim->name, value,
             dim->value);
  }
}

}  // namespace switchyard
