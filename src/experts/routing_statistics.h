// How evenly tokens use the experts. The figures are defined in docs/moe.md; an average over layers hides a
// layer that has collapsed, so all are kept by layer.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ops/context.h"

namespace switchyard {

// Load of one layer's experts over a window of routed tokens. All zero when no token was routed.
struct LoadFigures {
  int64_t assignments = 0;   // sum of hits: tokens * K, less what was dropped
  double load_std = 0;       // standard deviation over experts of share[e] = hits[e] / assignments
  double load_variance = 0;  // variance over experts of hits[e] / mean(hits): 0 even, E - 1 all to one
  double max_over_mean = 0;  // the busiest expert's hits over the mean
  int64_t dead_experts = 0;  // experts without a hit
  double entropy_bits = 0;   // of share; log2(E) when even
};

LoadFigures load_figures(const std::vector<int64_t>& hits);

// What policies and capacity did to assignments.
struct RoutingEffects {
  int64_t dropped = 0;         // their expert had no room
  int64_t rerouted = 0;        // the same, and another expert took them
  int64_t policy_changed = 0;  // slots in which a policy's choice and the model's own differ, as sets
};
RoutingEffects& operator+=(RoutingEffects& sum, const RoutingEffects& more);

class RoutingStatistics {
 public:
  // Adds the choices of a step: `expert_ids` are T*K ids below `experts`; -1 is none.
  void add(int layer, int64_t experts, const std::vector<int32_t>& expert_ids);
  void add(int layer, const RoutingEffects& effects) { effects_[layer] += effects; }
  void clear() { hits_.clear(), effects_.clear(); }

  // Hits per expert, by layer index in the model; dense layers are absent.
  const std::map<int, std::vector<int64_t>>& hits() const { return hits_; }
  // By layer; absent where neither a policy nor a capacity was set.
  const std::map<int, RoutingEffects>& effects() const { return effects_; }
  RoutingEffects total_effects() const;
  // The mean over layers of each figure; assignments and dead experts are summed.
  LoadFigures mean_over_layers() const;

 private:
  std::map<int, std::vector<int64_t>> hits_;
  std::map<int, RoutingEffects> effects_;
};

// Collects each step's choices, on the host, by layer. Reset by clear() before a step.
class RoutingRecorder final : public ForwardObserver {
 public:
  struct LayerChoice {
    int layer;
    int64_t experts;                  // E
    int64_t top_k;                    // K, the largest of the step's rows
    std::vector<int32_t> expert_ids;  // [T, K], -1: none
    std::vector<float> weights;       // [T, K]
    // [T]; empty where neither a policy nor a capacity is set.
    std::vector<RoutingEffects> effects = {};
  };

  explicit RoutingRecorder(Backend& backend) : backend_(backend) {}
  void on_route(int layer, const Tensor& logits, const Routing& routing) override;
  void clear() { choices_.clear(); }
  const std::vector<LayerChoice>& choices() const { return choices_; }

 private:
  std::vector<int32_t> ids_on_host(const Tensor& ids) const;
  std::vector<RoutingEffects> effects_of(const Routing& routing,
                                         const std::vector<int32_t>& expert_ids) const;

  Backend& backend_;
  std::vector<LayerChoice> choices_;
};

}  // namespace switchyard
