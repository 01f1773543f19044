#include "ops/tape.h"

#include <algorithm>

#include "base/error.h"

namespace switchyard {

void Tape::backward(Context& c, const Tensor& loss) {
  SY_CHECK(loss.elements() == 1, "backward from a tensor of shape {}", to_string(loss.shape()));
  SY_CHECK(loss.requires_grad(), "nothing of this loss {} a gradient", "requires");
  const float one = 1.0f;
  c.backend.copy_from_host(gradient(c, loss), &one, sizeof one);
  while (!steps_.empty()) {
    const std::function<void(Context&)> step = std::move(steps_.back());
    steps_.pop_back();  // with it go the activations that only this step needed
    step(c);
  }
}

Tensor make_result(Context& c, const Shape& shape, std::initializer_list<const Tensor*> inputs) {
  Tensor result = Tensor::empty(c.arena, DType::kF32, shape);
  if (c.tape != nullptr) {
    result.set_requires_grad(std::any_of(inputs.begin(), inputs.end(),
                                         [](const Tensor* input) { return input->requires_grad(); }));
  }
  return result;
}

float* gradient(Context& c, const Tensor& tensor) {
  if (!tensor.requires_grad()) return nullptr;
  if (!tensor.grad()) {
    const Tensor all = tensor.attach_grad(c.arena);
    c.backend.fill_zero(all.mutable_data(), all.bytes());
  }
  return tensor.grad().f32();
}

const float* arrived_gradient(const Tensor& result) {
  const Tensor grad = result.grad();
  return grad ? grad.f32() : nullptr;
}

}  // namespace switchyard
