// How the router's choice is steered at inference, beyond the rule that the checkpoint fixes: policies by
// row, and a capacity of the experts for the whole step. The meaning of both is fixed in docs/moe.md.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "tensor/tensor.h"

namespace switchyard {

// What one request asks of the router; any number of rows and steps may share it. On the device of the
// backend that it is made for.
class RoutingPolicy {
 public:
  // `addends`: L * E numbers that are added to the logits of each layer, minus infinity for forbidden
  // experts. Every layer must leave each row `top_k` experts, whatever groups the model's rule keeps.
  RoutingPolicy(Backend& backend, int64_t top_k, float temperature, std::vector<float> addends);

  int64_t top_k() const { return top_k_; }
  RoutePolicy on_device() const;
  // Whether both give the same choices, so that keys and values computed under one hold under the other.
  bool operator==(const RoutingPolicy& other) const;

 private:
  int64_t top_k_;
  float temperature_;
  std::vector<float> addends_;
  Arena arena_;
  Tensor device_addends_;  // [L * E]
};

enum class Overflow { kDrop, kReroute };

// How many assignments of a step an expert takes. Results of a token then depend on the other tokens of its
// step.
struct Capacity {
  std::optional<int64_t> fixed = std::nullopt;  // or else by the factor
  double factor = 2.0;
  Overflow overflow = Overflow::kDrop;
};

// The largest number of assignments that an expert takes in a step of T tokens, K each: `fixed`, or
// ceil(T * K * factor / E); never below K and never above T. By the factor, a step with T * K <= E has no
// limit but T: so few tokens are never even, and decoding would lose what prefill does not.
int64_t capacity_limit(const Capacity& capacity, int64_t tokens, int64_t top_k, int64_t experts);

// Of one step.
struct RoutingControl {
  std::vector<std::shared_ptr<const RoutingPolicy>> policies = {};
  Tensor policy_table = {};  // bytes of a RoutePolicy for each policy
  Tensor policy_of_row =
      {};  // [T] int32 index into policies, -1: the model's own rule; absent without policies
  bool some_rows_without_policy = true;
  std::optional<Capacity> capacity = std::nullopt;

  // The largest K of a row, for a model whose own is `top_k`.
  int64_t slots(int64_t top_k) const;
};

}  // namespace switchyard
