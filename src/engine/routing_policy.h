// What a request may ask of the router, checked against a model. docs/moe.md has the formulas.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "models/model.h"
#include "ops/routing_control.h"

namespace switchyard {

// Layers are those of the model that have experts.
struct RoutingPolicyOptions {
  std::optional<int64_t> top_k = std::nullopt;  // experts per token, 1 to E; nullopt: the model's own number
  double temperature = 1;
  double strength = 1;                            // what the bias is multiplied by
  std::map<int, std::vector<float>> bias = {};    // by layer, [E]: added to the logits
  std::map<int, std::vector<int32_t>> mask = {};  // by layer: experts that are never chosen
};

// Throws Error when the model has no experts, a layer or an expert does not exist, a number is out of range,
// or some token might be left with fewer than K experts to choose from.
std::shared_ptr<const RoutingPolicy> make_routing_policy(Backend& backend, const ModelShape& model,
                                                         const RoutingPolicyOptions& options);

void check_has_experts(const ModelShape& model);  // throws Error

// Throws Error when the model has no experts or a number is out of range.
void check(const Capacity& capacity, const ModelShape& model);

// How all tokens of a run are routed, where no request says otherwise.
struct RoutingOptions {
  std::shared_ptr<const RoutingPolicy> policy = nullptr;  // null: the model's own rule
  std::optional<Capacity> capacity = std::nullopt;
};

}  // namespace switchyard
