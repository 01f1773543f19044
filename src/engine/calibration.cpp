#include "engine/calibration.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/step.h"
#include "experts/routing_statistics.h"

namespace switchyard {

CapacityCalibration calibrate_capacity(Backend& backend, const Model& model, std::span<const int32_t> tokens,
                                       int64_t window, const std::shared_ptr<const RoutingPolicy>& policy,
                                       const std::function<void(int64_t)>& progress) {
  check_has_experts(model.shape());
  const auto length = static_cast<int64_t>(tokens.size());
  if (window < 1) throw Error("calibration", "window", "at least 1 token", fmt::format("{}", window));
  if (length == 0) throw Error("calibration", "text", "at least 1 token", "none");
  check_token_ids("calibration", tokens, model.shape().vocab);
  CapacityCalibration result{.step_tokens = std::min(window, length), .largest_load = {}};
  for (int64_t begin = 0; begin < length; begin += window) {
    const int64_t count = std::min(window, length - begin);
    PagedKvCache cache(backend, model.shape(), count);
    CachedSequence sequence(cache);
    SY_CHECK(sequence.reserve(count), "a cache of {} blocks", cache.total_blocks());
    StepBuilder step;
    step.add(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), 0, sequence,
             Logits::kNone, count, policy);
    RoutingRecorder recorder(backend);
    Arena arena(backend.memory());
    Context c{.backend = backend, .arena = arena, .tape = nullptr, .observer = &recorder};
    run_step(c, model, step, cache);
    RoutingStatistics statistics;
    for (const auto& choice : recorder.choices())
      statistics.add(choice.layer, choice.experts, choice.expert_ids);
    for (const auto& [layer, hits] : statistics.hits()) {
      int64_t& largest = result.largest_load[layer];
      largest = std::max(largest, *std::max_element(hits.begin(), hits.end()));
    }
    progress(begin + count);
  }
  return result;
}

int64_t suggested_capacity(int64_t largest_load) {
  return (largest_load * 6 + 4) / 5;
}

double capacity_factor_of(int64_t capacity, int64_t tokens, int64_t top_k, int64_t experts) {
  const double even = static_cast<double>(tokens * top_k) / static_cast<double>(experts);
  return std::ceil(static_cast<double>(capacity) / even * 100 - 1e-9) / 100;
}

}  // namespace switchyard
