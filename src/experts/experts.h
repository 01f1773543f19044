// Where a layer's experts live is an object, never an `if` in a model.
#pragma once

#include "ops/context.h"
#include "ops/routing.h"

namespace switchyard {

class Experts {
 public:
  virtual ~Experts() = default;
  // h [T, D], routed -> sum over each token's experts of weight * down(silu(gate(h)) * up(h))  [T, D]
  virtual Tensor forward(Context& c, const Tensor& h, const Routing& routing) const = 0;
};

// All experts in the memory of the one device.
class ResidentExperts final : public Experts {
 public:
  // gate and up: E times [F, D]; down: E times [D, F]
  ResidentExperts(ExpertMatrices gate_proj, ExpertMatrices up_proj, ExpertMatrices down_proj);
  Tensor forward(Context& c, const Tensor& h, const Routing& routing) const override;

 private:
  ExpertMatrices gate_proj_;
  ExpertMatrices up_proj_;
  ExpertMatrices down_proj_;
};

}  // namespace switchyard
