#include "models/model.h"

#include "base/error.h"

namespace switchyard {

void check_routing(Backend& backend) {
  if (const auto fault = backend.take_routing_fault()) {
    throw Error(fmt::format("layer {}", fault->layer), fmt::format("token {} of the step", fault->row),
                "router logits that are numbers", "NaN: the weights or an earlier layer's result are broken");
  }
}

}  // namespace switchyard
