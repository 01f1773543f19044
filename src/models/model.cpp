#include "models/model.h"

#include "base/error.h"

namespace switchyard {

void Model::verify_weights() const {
  if (check_) check_();
}

void check_routing(Backend& backend, const Model& model) {
  if (const auto fault = backend.take_routing_fault()) {
    model.verify_weights();
    throw Error(fmt::format("layer {}", fault->layer), fmt::format("token {} of the step", fault->row),
                "router logits that are numbers", "NaN: the weights or an earlier layer's result are broken");
  }
}

}  // namespace switchyard
