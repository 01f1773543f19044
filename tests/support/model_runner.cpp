#include "support/model_runner.h"

#include <algorithm>

#include "backend/cpu/reference.h"
#include "base/error.h"

namespace switchyard {

std::vector<BackendUnderTest> backends_under_test() {
  return {{"reference", [] { return std::unique_ptr<Backend>(std::make_unique<ReferenceBackend>()); }}};
}

void Seen::on_hidden_state(int index, const Tensor& x) {
  const std::vector<float> values = to_host(backend, x);
  hidden_states[index].insert(hidden_states[index].end(), values.begin(), values.end());
}

void Seen::on_route(int layer, const Tensor& logits, const Routing& routing) {
  const auto append = [](auto& to, const auto& values) { to.insert(to.end(), values.begin(), values.end()); };
  append(router_logits[layer], to_host(backend, logits));
  append(expert_weights[layer], to_host(backend, routing.weights));
  std::vector<int32_t> ids(static_cast<size_t>(routing.expert_ids.elements()));
  backend.copy_to_host(ids.data(), routing.expert_ids.data(), routing.expert_ids.bytes());
  append(expert_ids[layer], ids);
}

std::vector<float> all_logits(Backend& backend, const Model& model,
                              const std::vector<std::vector<int32_t>>& sequences, int64_t chunk,
                              int64_t block_size, Seen* seen) {
  int64_t positions = 0;
  size_t longest = 0;
  for (const auto& tokens : sequences) {
    positions += static_cast<int64_t>(tokens.size()) + block_size;
    longest = std::max(longest, tokens.size());
  }
  PagedKvCache cache(backend, model.shape(), positions, block_size);
  Arena arena(backend.memory());
  Context c{.backend = backend, .arena = arena, .tape = nullptr, .observer = seen};
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
                 cached[i], Logits::kAll);
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

std::vector<int32_t> greedy(Backend& backend, const Model& model, std::vector<int32_t> tokens,
                            int64_t count) {
  PagedKvCache cache(backend, model.shape(), static_cast<int64_t>(tokens.size()) + count);
  Arena arena(backend.memory());
  Context c{.backend = backend, .arena = arena};
  CachedSequence sequence(cache);
  int64_t computed = 0;
  for (int64_t i = 0; i < count; ++i) {
    SY_CHECK(sequence.reserve(static_cast<int64_t>(tokens.size())), "a cache of {} blocks",
             cache.total_blocks());
    StepBuilder step;
    step.add(std::span(tokens).subspan(static_cast<size_t>(computed)), computed, sequence, Logits::kLast);
    computed = static_cast<int64_t>(tokens.size());
    const std::vector<float> logits = to_host(backend, run_step(c, model, step, cache));
    tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  return tokens;
}

}  // namespace switchyard
