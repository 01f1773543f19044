#include "experts/experts.h"

#include "base/error.h"
#include "ops/ops.h"

namespace switchyard {

ResidentExperts::ResidentExperts(ExpertMatrices gate_proj, ExpertMatrices up_proj, ExpertMatrices down_proj)
    : gate_proj_(std::move(gate_proj)), up_proj_(std::move(up_proj)), down_proj_(std::move(down_proj)) {
  SY_CHECK(gate_proj_.count() == up_proj_.count() && gate_proj_.count() == down_proj_.count(),
           "{} gate, {} up and {} down matrices", gate_proj_.count(), up_proj_.count(), down_proj_.count());
}

Tensor ResidentExperts::forward(Context& c, const Tensor& h, const Routing& routing) const {
  const DispatchPlan plan = plan_dispatch(c, routing);
  const Tensor x = dispatch(c, h, plan);                                     // [P, D]
  const Tensor gate = expert_linear(c, x, gate_proj_, plan);                 // [P, F]
  const Tensor up = expert_linear(c, x, up_proj_, plan);                     // [P, F]
  const Tensor y = expert_linear(c, swiglu(c, gate, up), down_proj_, plan);  // [P, D]
  return combine(c, y, routing.weights, plan);
}

}  // namespace switchyard
