// Reverse-mode differentiation by a tape: with a tape in the context each op pushes a function that adds to
// the gradients of its inputs what the gradient of its output implies. Running them backwards is the backward
// pass.
//
// Gradients flow to tensors that require them: parameters set so by the caller, and every result computed
// from such a tensor. A frozen weight gets no gradient but passes the gradient of its input on.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "ops/context.h"

namespace switchyard {

// The gradient that has arrived at an op's result; null when nothing used the result.
const float* arrived_gradient(const Tensor& result);

class Tape {
 public:
  void record(std::function<void(Context&)> backward) { steps_.push_back(std::move(backward)); }

  // The same for the common case of one result: `backward(context, d_result)` runs when a gradient has
  // arrived at it.
  template <typename Backward>
  void record(const Tensor& result, Backward backward) {
    record([result, backward = std::move(backward)](Context& c) {
      if (const float* d_result = arrived_gradient(result)) backward(c, d_result);
    });
  }

  // Runs and forgets everything recorded, starting from d loss / d loss = 1. `loss` is one float32.
  void backward(Context& c, const Tensor& loss);

  size_t size() const { return steps_.size(); }

 private:
  std::vector<std::function<void(Context&)>> steps_;
};

// A result of `shape` in float32; it requires a gradient when there is a tape and one of `inputs` requires
// one.
Tensor make_result(Context& c, const Shape& shape, std::initializer_list<const Tensor*> inputs);

// Whether an op must record its backward for this result.
inline bool is_taped(const Context& c, const Tensor& result) {
  return c.tape != nullptr && result.requires_grad();
}

// The gradient to add to, zeroed on first use; null when the tensor is absent or requires none.
float* gradient(Context& c, const Tensor& tensor);

}  // namespace switchyard
