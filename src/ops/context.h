// What every op gets: a device, memory for its results, and, when gradients are wanted, a tape.
#pragma once

#include "backend/backend.h"
#include "tensor/tensor.h"

namespace switchyard {

class Tape;
struct Routing;

// Watches a forward pass without touching it. Tensors passed in may be kept: handles share the elements.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  // Index 0: the embeddings; i: the output of layer i - 1; the last one after the final norm. [T, D]
  virtual void on_hidden_state(int /*index*/, const Tensor& /*x*/) {}
  // `layer` is the layer's index in the model. logits: router logits [T, E].
  virtual void on_route(int /*layer*/, const Tensor& /*logits*/, const Routing& /*routing*/) {}
};

struct Context {
  Backend& backend;
  Arena& arena;
  Tape* tape = nullptr;                 // null: inference, and temporaries return to the arena at once
  ForwardObserver* observer = nullptr;  // or null
};

}  // namespace switchyard
