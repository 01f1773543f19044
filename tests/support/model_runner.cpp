#include "support/model_runner.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/reference.h"
#include "base/error.h"
#include "ops/ops.h"

namespace switchyard {

std::vector<BackendUnderTest> backends_under_test() {
  std::vector<BackendUnderTest> backends;
  backends.push_back({"reference", [] { return std::make_unique<ReferenceBackend>(); }});
  for (const Isa isa : isas_of_machine()) {
    backends.push_back({std::string(name(isa)), [isa] {
                          return std::make_unique<CpuBackend>(CpuOptions{.threads = 2, .isa = isa});
                        }});
  }
  return backends;
}

Losses training_losses(Context c, const Model& model, const std::vector<std::vector<int32_t>>& sequences) {
  RoutingCollector collector;
  c.observer = &collector;
  int64_t positions = 0;
  for (const auto& tokens : sequences)
    positions += static_cast<int64_t>(tokens.size()) + PagedKvCache::kDefaultBlockSize;
  PagedKvCache cache(c.backend, model.shape(), positions);
  std::vector<CachedSequence> cached;
  StepBuilder step;
  std::vector<int32_t> targets;
  for (const auto& tokens : sequences) {
    SY_CHECK(cached.emplace_back(cache).reserve(static_cast<int64_t>(tokens.size())), "a cache of {} blocks",
             cache.total_blocks());
    step.add(tokens, 0, cached.back(), Logits::kAll);
    targets.insert(targets.end(), tokens.begin() + 1, tokens.end());
    targets.push_back(-1);  // nothing follows the last token
  }
  Losses losses;
  losses.cross_entropy = cross_entropy(c, run_step(c, model, step, cache), upload(c, targets));
  losses.total = losses.cross_entropy;
  const auto coefficient = static_cast<float>(model.shape().router_aux_loss_coef);
  if (collector.routings.empty() || coefficient == 0) return losses;
  losses.balance = balance_loss(c, collector.routings, BalanceLoss::kPooled);
  losses.total = add(c, losses.cross_entropy, losses.balance, coefficient);
  return losses;
}

std::vector<float> all_logits(Backend& backend, const Model& model,
                              const std::vector<std::vector<int32_t>>& sequences, int64_t chunk,
                              int64_t block_size, std::optional<int64_t> prompt_length) {
  int64_t positions = 0;
  size_t longest = 0;
  for (const auto& tokens : sequences) {
    positions += static_cast<int64_t>(tokens.size()) + block_size;
    longest = std::max(longest, tokens.size());
  }
  PagedKvCache cache(backend, model.shape(), positions, block_size);
  Arena arena(backend.memory());
  Context c{.backend = backend, .arena = arena};
  std::vector<CachedSequence> cached;
  for (const auto& tokens : sequences) {
    SY_CHECK(cached.emplace_back(cache).reserve(static_cast<int64_t>(tokens.size())), "a cache of {} blocks",
             cache.total_blocks());
  }
  std::vector<std::vector<float>> logits(sequences.size());
  const auto vocab = static_cast<size_t>(model.shape().vocab);
  for (size_t begin = 0; begin < longest; begin += static_cast<size_t>(chunk)) {
    StepBuilder step;
    std::vector<size_t> counts;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const size_t end = std::min(sequences[i].size(), begin + static_cast<size_t>(chunk));
      counts.push_back(end > begin ? end - begin : 0);
      if (counts.back() > 0) {
        step.add(std::span(sequences[i]).subspan(begin, counts.back()), static_cast<int64_t>(begin),
                 cached[i], Logits::kAll, prompt_length.value_or(static_cast<int64_t>(sequences[i].size())));
      }
    }
    const std::vector<float> rows = to_host(backend, run_step(c, model, step, cache));
    auto from = rows.begin();
    for (size_t i = 0; i < sequences.size(); ++i) {
      const auto to = from + static_cast<int64_t>(counts[i] * vocab);
      logits[i].insert(logits[i].end(), from, to);
      from = to;
    }
  }
  std::vector<float> all;
  for (const auto& l : logits)
    all.insert(all.end(), l.begin(), l.end());
  return all;
}

}  // namespace switchyard
