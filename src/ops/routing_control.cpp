#include "ops/routing_control.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace switchyard {

RoutingPolicy::RoutingPolicy(Backend& backend, int64_t top_k, float temperature, std::vector<float> addends)
    : top_k_(top_k), temperature_(temperature), addends_(std::move(addends)), arena_(backend.memory()) {
  SY_CHECK(top_k_ >= 1 && top_k_ <= kMaxRoutedExperts, "a policy of {} experts", top_k_);
  SY_CHECK(temperature_ > 0, "a routing temperature of {}", temperature_);
  device_addends_ = Tensor::empty(arena_, DType::kF32, {static_cast<int64_t>(addends_.size())});
  backend.copy_from_host(device_addends_.mutable_data(), addends_.data(), device_addends_.bytes());
}

RoutePolicy RoutingPolicy::on_device() const {
  return {
      .addends = device_addends_.f32(), .temperature = temperature_, .top_k = static_cast<int32_t>(top_k_)};
}

bool RoutingPolicy::operator==(const RoutingPolicy& other) const {
  return top_k_ == other.top_k_ && temperature_ == other.temperature_ && addends_ == other.addends_;
}

int64_t capacity_limit(const Capacity& capacity, int64_t tokens, int64_t top_k, int64_t experts) {
  double limit = 0;
  if (capacity.fixed) {
    limit = static_cast<double>(*capacity.fixed);
  } else if (tokens * top_k <= experts) {
    return tokens;
  } else {
    const double even = static_cast<double>(tokens * top_k) / static_cast<double>(experts);
    // 10 * 1.1 is 11 and a little: rounding must not make it 12.
    limit = std::ceil(even * capacity.factor * (1 - 1e-12));
  }
  const double least = static_cast<double>(std::min(top_k, tokens));
  return static_cast<int64_t>(std::clamp(limit, least, static_cast<double>(tokens)));
}

int64_t RoutingControl::slots(int64_t top_k) const {
  int64_t largest = some_rows_without_policy ? top_k : 1;
  for (const auto& policy : policies)
    largest = std::max(largest, policy->top_k());
  return largest;
}

}  // namespace switchyard
