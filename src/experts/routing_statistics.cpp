#include "experts/routing_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

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
  for (const int32_t expert : expert_ids) {
    if (expert >= 0) ++hits[static_cast<size_t>(expert)];
  }
}

RoutingEffects& operator+=(RoutingEffects& sum, const RoutingEffects& more) {
  sum.dropped += more.dropped;
  sum.rerouted += more.rerouted;
  sum.policy_changed += more.policy_changed;
  return sum;
}

RoutingEffects RoutingStatistics::total_effects() const {
  RoutingEffects total;
  for (const auto& [layer, effects] : effects_)
    total += effects;
  return total;
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

namespace {

// Slots in which two choices of experts differ as sets.
int64_t differing_slots(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto experts = [](std::span<const int32_t> ids) {
    return static_cast<int64_t>(ids.size()) - std::ranges::count(ids, -1);
  };
  int64_t common = 0;
  for (const int32_t id : a)
    common += id >= 0 && std::ranges::count(b, id) > 0;
  return std::max(experts(a), experts(b)) - common;
}

}  // namespace

std::vector<int32_t> RoutingRecorder::ids_on_host(const Tensor& ids) const {
  std::vector<int32_t> host(static_cast<size_t>(ids.elements()));
  backend_.copy_to_host(host.data(), ids.data(), ids.bytes());
  return host;
}

std::vector<RoutingEffects> RoutingRecorder::effects_of(const Routing& routing,
                                                        const std::vector<int32_t>& expert_ids) const {
  if (!routing.chosen_ids && !routing.own_ids) return {};
  const std::vector<int32_t> chosen = routing.chosen_ids ? ids_on_host(routing.chosen_ids) : expert_ids;
  const std::vector<int32_t> own = routing.own_ids ? ids_on_host(routing.own_ids) : std::vector<int32_t>{};
  const auto rows = static_cast<size_t>(routing.expert_ids.dim(0));
  std::vector<RoutingEffects> effects(rows);
  const auto row_of = [&](const std::vector<int32_t>& ids, size_t row) {
    const size_t width = ids.size() / rows;
    return std::span(ids).subspan(row * width, width);
  };
  for (size_t row = 0; row < rows; ++row) {
    const auto before = row_of(chosen, row);
    const auto after = row_of(expert_ids, row);
    for (size_t k = 0; k < after.size(); ++k) {
      effects[row].dropped += before[k] >= 0 && after[k] < 0;
      effects[row].rerouted += after[k] >= 0 && after[k] != before[k];
    }
    if (!own.empty()) effects[row].policy_changed = differing_slots(before, row_of(own, row));
  }
  return effects;
}

void RoutingRecorder::on_route(int layer, const Tensor&, const Routing& routing) {
  LayerChoice choice{.layer = layer,
                     .experts = routing.experts(),
                     .top_k = routing.expert_ids.dim(1),
                     .expert_ids = ids_on_host(routing.expert_ids),
                     .weights = std::vector<float>(static_cast<size_t>(routing.weights.elements()))};
  backend_.copy_to_host(choice.weights.data(), routing.weights.data(), routing.weights.bytes());
  choice.effects = effects_of(routing, choice.expert_ids);
  choices_.push_back(std::move(choice));
}

}  // namespace switchyard
