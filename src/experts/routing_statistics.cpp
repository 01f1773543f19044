#include "experts/routing_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/routing.h"

namespace switchyard {

LoadFigures load_figures(const std::vector<int64_t>& hits) {
  LoadFigures figures;
  figures.assignments = std::accumulate(hits.begin(), hits.end(), int64_t{0});
  if (figures.assignments == 0) return figures;
  const auto experts = static_cast<double>(hits.size());
  const auto total = static_cast<double>(figures.assignments);
  const double mean = total / experts;
  double squared_deviation = 0;  // of hits / mean
  for (const int64_t count : hits) {
    const double share = static_cast<double>(count) / total;
    const double relative = static_cast<double>(count) / mean;
    squared_deviation += (relative - 1) * (relative - 1);
    figures.max_over_mean = std::max(figures.max_over_mean, relative);
    figures.dead_experts += count == 0;
    if (count > 0) figures.entropy_bits -= share * std::log2(share);
  }
  figures.load_variance = squared_deviation / experts;
  figures.load_std = std::sqrt(figures.load_variance) / experts;  // share = relative / E
  return figures;
}

void RoutingStatistics::add(int layer, int64_t experts, const std::vector<int32_t>& expert_ids) {
  std::vector<int64_t>& hits = hits_[layer];
  hits.resize(static_cast<size_t>(experts));
  for (const int32_t expert : expert_ids)
    ++hits[static_cast<size_t>(expert)];
}

LoadFigures RoutingStatistics::mean_over_layers() const {
  LoadFigures mean;
  if (hits_.empty()) return mean;
  const auto layers = static_cast<double>(hits_.size());
  for (const auto& [layer, hits] : hits_) {
    const LoadFigures figures = load_figures(hits);
    mean.assignments += figures.assignments;
    mean.dead_experts += figures.dead_experts;
    mean.load_std += figures.load_std / layers;
    mean.load_variance += figures.load_variance / layers;
    mean.max_over_mean += figures.max_over_mean / layers;
    mean.entropy_bits += figures.entropy_bits / layers;
  }
  return mean;
}

void RoutingRecorder::on_route(int layer, const Tensor&, const Routing& routing) {
  LayerChoice choice{.layer = layer,
                     .experts = routing.experts(),
                     .top_k = routing.expert_ids.dim(1),
                     .expert_ids = std::vector<int32_t>(static_cast<size_t>(routing.expert_ids.elements())),
                     .weights = std::vector<float>(static_cast<size_t>(routing.weights.elements()))};
  backend_.copy_to_host(choice.expert_ids.data(), routing.expert_ids.data(), routing.expert_ids.bytes());
  backend_.copy_to_host(choice.weights.data(), routing.weights.data(), routing.weights.bytes());
  choices_.push_back(std::move(choice));
}

}  // namespace switchyard
