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
  int64_t assignments = 0;   // sum of hits: tokens * K
  double load_std = 0;       // standard deviation over experts of share[e] = hits[e] / assignments
  double load_variance = 0;  // variance over experts of hits[e] / mean(hits): 0 even, E - 1 all to one
  double max_over_mean = 0;  // the busiest expert's hits over the mean
  int64_t dead_experts = 0;  // experts without a hit
  double entropy_bits = 0;   // of share; log2(E) when even
};

LoadFigures load_figures(const std::vector<int64_t>& hits);

class RoutingStatistics {
 public:
  // Adds the choices of a step: `expert_ids` are T*K ids below `experts`.
  void add(int layer, int64_t experts, const std::vector<int32_t>& expert_ids);
  void clear() { hits_.clear(); }

  // Hits per expert, by layer index in the model; dense layers are absent.
  const std::map<int, std::vector<int64_t>>& hits() const { return hits_; }
  // The mean over layers of each figure; assignments and dead experts are summed.
  LoadFigures mean_over_layers() const;

 private:
  std::map<int, std::vector<int64_t>> hits_;
};

// Collects each step's choices, on the host, by layer. Reset by clear() before a step.
class RoutingRecorder final : public ForwardObserver {
 public:
  struct LayerChoice {
    int layer;
    int64_t experts;                  // E
    int64_t top_k;                    // K
    std::vector<int32_t> expert_ids;  // [T, K]
    std::vector<float> weights;       // [T, K]
  };

  explicit RoutingRecorder(Backend& backend) : backend_(backend) {}
  void on_route(int layer, const Tensor& logits, const Routing& routing) override;
  void clear() { choices_.clear(); }
  const std::vector<LayerChoice>& choices() const { return choices_; }

 private:
  Backend& backend_;
  std::vector<LayerChoice> choices_;
};

}  // namespace switchyard
