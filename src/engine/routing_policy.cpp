#include "engine/routing_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// Wide enough for every use, and narrow enough that no logit becomes infinite.
constexpr double kMinTemperature = 1e-3;
constexpr double kMaxTemperature = 1e3;
constexpr double kMaxBias = 1e6;

void check_layer(const ModelShape& model, int layer) {
  if (layer < 0 || layer >= model.layer_count()) {
    throw Error("routing", fmt::format("layer {}", layer),
                fmt::format("a layer in [0, {})", model.layer_count()), "no such layer");
  }
  if (model.layers[static_cast<size_t>(layer)].experts == 0) {
    throw Error("routing", fmt::format("layer {}", layer), "a layer with experts", "a dense layer");
  }
}

void add_bias(const ModelShape& model, const RoutingPolicyOptions& options, std::vector<float>& addends) {
  for (const auto& [layer, bias] : options.bias) {
    check_layer(model, layer);
    const std::string item = fmt::format("bias of layer {}", layer);
    if (static_cast<int64_t>(bias.size()) != model.experts) {
      throw Error("routing", item, fmt::format("one number for each of {} experts", model.experts),
                  fmt::format("{}", bias.size()));
    }
    for (size_t e = 0; e < bias.size(); ++e) {
      const double addend = options.strength * bias[e];
      if (!(std::fabs(addend) <= kMaxBias)) {
        throw Error("routing", fmt::format("{}, expert {}", item, e),
                    fmt::format("strength * bias between -{0} and {0}", kMaxBias), fmt::format("{}", addend));
      }
      addends[static_cast<size_t>(layer * model.experts) + e] = static_cast<float>(addend);
    }
  }
}

// The fewest experts that a token may find to choose from: the kept groups may be those with the fewest. A
// group without any is kept only when there is no other.
int64_t fewest_choices(const ModelShape& model, const float* addends) {
  const int64_t size = model.experts / model.n_group;
  std::vector<int64_t> allowed;
  for (int64_t g = 0; g < model.n_group; ++g) {
    const auto count = size - std::count(addends + g * size, addends + (g + 1) * size, kForbidden);
    if (count > 0) allowed.push_back(count);
  }
  std::sort(allowed.begin(), allowed.end());
  int64_t fewest = 0;
  for (size_t g = 0; g < std::min(allowed.size(), static_cast<size_t>(model.topk_group)); ++g)
    fewest += allowed[g];
  return fewest;
}

void add_mask(const ModelShape& model, const RoutingPolicyOptions& options, std::vector<float>& addends) {
  for (const auto& [layer, experts] : options.mask) {
    check_layer(model, layer);
    for (const int32_t e : experts) {
      if (e < 0 || e >= model.experts) {
        throw Error("routing", fmt::format("mask of layer {}", layer),
                    fmt::format("experts in [0, {})", model.experts), fmt::format("{}", e));
      }
      addends[static_cast<size_t>(layer * model.experts + e)] = kForbidden;
    }
  }
}

void check_choices(const ModelShape& model, int64_t top_k, const std::vector<float>& addends) {
  for (int64_t layer = 0; layer < model.layer_count(); ++layer) {
    if (model.layers[static_cast<size_t>(layer)].experts == 0) continue;
    const int64_t fewest = fewest_choices(model, &addends[static_cast<size_t>(layer * model.experts)]);
    if (fewest >= top_k) continue;
    const std::string groups =
        model.n_group == 1 ? "" : fmt::format(" in any {} of {} groups", model.topk_group, model.n_group);
    throw Error(
        "routing", fmt::format("layer {}", layer),
        fmt::format("at least {} allowed experts{}: so many are chosen for each token", top_k, groups),
        fmt::format("{}", fewest));
  }
}

}  // namespace

void check_has_experts(const ModelShape& model) {
  if (model.experts == 0) throw Error("routing", "model", "layers with experts", "a dense model");
}

std::shared_ptr<const RoutingPolicy> make_routing_policy(Backend& backend, const ModelShape& model,
                                                         const RoutingPolicyOptions& options) {
  check_has_experts(model);
  const int64_t top_k = options.top_k.value_or(model.top_k);
  if (top_k < 1 || top_k > model.experts) {
    throw Error("routing", "experts per token", fmt::format("1 to {}", model.experts),
                fmt::format("{}", top_k));
  }
  if (!(options.temperature >= kMinTemperature && options.temperature <= kMaxTemperature)) {
    throw Error("routing", "temperature", fmt::format("{} to {}", kMinTemperature, kMaxTemperature),
                fmt::format("{}", options.temperature));
  }
  std::vector<float> addends(static_cast<size_t>(model.layer_count() * model.experts), 0.0f);
  add_bias(model, options, addends);
  add_mask(model, options, addends);
  check_choices(model, top_k, addends);
  return std::make_shared<RoutingPolicy>(backend, top_k, static_cast<float>(options.temperature),
                                         std::move(addends));
}

void check(const Capacity& capacity, const ModelShape& model) {
  check_has_experts(model);
  if (capacity.fixed && (*capacity.fixed < 1 || *capacity.fixed > INT32_MAX)) {
    throw Error("routing", "expert capacity", fmt::format("1 to {}", INT32_MAX),
                fmt::format("{}", *capacity.fixed));
  }
  if (!(capacity.factor > 0 && capacity.factor <= 1e6)) {
    throw Error("routing", "capacity factor", "a number above 0 and up to 1000000",
                fmt::format("{}", capacity.factor));
  }
}

}  // namespace switchyard
