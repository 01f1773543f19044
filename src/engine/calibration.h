// How large a capacity of the experts a model needs for a kind of text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "engine/routing_policy.h"

namespace switchyard {

struct CapacityCalibration {
  int64_t step_tokens = 0;              // T of the longest step
  std::map<int, int64_t> largest_load;  // by sparse layer: of one expert in one step
};

// Runs the text in steps of `window` tokens, each a sequence of its own, without any capacity. `progress`
// gets the tokens done so far. Throws Error when the model has no experts, the window is not positive, or the
// text is empty or has ids outside the vocabulary.
CapacityCalibration calibrate_capacity(Backend& backend, const Model& model, std::span<const int32_t> tokens,
                                       int64_t window, const std::shared_ptr<const RoutingPolicy>& policy,
                                       const std::function<void(int64_t)>& progress);

// 1.2 times the load, rounded up.
int64_t suggested_capacity(int64_t largest_load);

// The smallest multiple of 0.01 that, as a capacity factor, gives at least this capacity in a step of T
// tokens.
double capacity_factor_of(int64_t capacity, int64_t tokens, int64_t top_k, int64_t experts);

}  // namespace switchyard
