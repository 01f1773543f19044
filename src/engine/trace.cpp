#include "engine/trace.h"

#include <fmt/format.h>

#include "base/error.h"
#include "engine/logits.h"
#include "engine/step.h"
#include "ops/routing.h"

namespace switchyard {
namespace {

class Recorder final : public ForwardObserver {
 public:
  Recorder(Backend& backend, const TraceOptions& options, int64_t batch,
           std::map<std::string, TracedTensor>& out)
      : backend_(backend), options_(options), batch_(batch), out_(out) {}

  void on_hidden_state(int index, const Tensor& x) override {
    if (!options_.hidden_states) return;
    out_[fmt::format("hidden_states.{}", index)] = {
        .shape = {batch_, x.dim(0) / batch_, x.dim(1)}, .values = to_host(backend_, x), .ids = {}};
  }

  void on_route(int layer, const Tensor& logits, const Routing& routing) override {
    if (!options_.routing) return;
    const std::string prefix = fmt::format("router.{}.", layer);
    const auto keep = [&](const char* leaf, const Tensor& t) {
      out_[prefix + leaf] = {.shape = {t.dim(0), t.dim(1)}, .values = to_host(backend_, t), .ids = {}};
    };
    keep("logits", logits);
    keep("weights", routing.weights);
    TracedTensor& ids = out_[prefix + "experts"];
    ids.shape = {routing.expert_ids.dim(0), routing.expert_ids.dim(1)};
    ids.ids.resize(static_cast<size_t>(routing.expert_ids.elements()));
    backend_.copy_to_host(ids.ids.data(), routing.expert_ids.data(), routing.expert_ids.bytes());
  }

 private:
  Backend& backend_;
  const TraceOptions& options_;
  int64_t batch_;
  std::map<std::string, TracedTensor>& out_;
};

}  // namespace

std::map<std::string, TracedTensor> trace(Backend& backend, const Model& model,
                                          const std::vector<std::vector<int32_t>>& sequences,
                                          const TraceOptions& options) {
  const auto batch = static_cast<int64_t>(sequences.size());
  if (batch == 0 || sequences.front().empty()) throw Error("tokens", "", "at least one token", "none");
  const auto length = static_cast<int64_t>(sequences.front().size());
  PagedKvCache cache(backend, model.shape(), batch * (length + PagedKvCache::kDefaultBlockSize));
  std::vector<CachedSequence> cached;
  if (options.routed.capacity) check(*options.routed.capacity, model.shape());
  StepBuilder step(options.routed.capacity);
  for (const auto& tokens : sequences) {
    if (static_cast<int64_t>(tokens.size()) != length) {
      throw Error("tokens", "", fmt::format("sequences of equal length {}", length),
                  fmt::format("{}", tokens.size()));
    }
    check_token_ids("tokens", tokens, model.shape().vocab);
    SY_CHECK(cached.emplace_back(cache).reserve(length), "a cache of {} blocks", cache.total_blocks());
    step.add(tokens, 0, cached.back(), Logits::kAll, length, options.routed.policy);
  }
  std::map<std::string, TracedTensor> result;
  Recorder recorder(backend, options, batch, result);
  Arena arena(backend.memory());
  Context c{.backend = backend, .arena = arena, .tape = nullptr, .observer = &recorder};
  const Tensor logits = run_step(c, model, step, cache);
  result["logits"] = {.shape = {batch, length, logits.dim(1)}, .values = to_host(backend, logits), .ids = {}};
  return result;
}

std::vector<int32_t> greedy_continuation(Backend& backend, const Model& model, std::vector<int32_t> tokens,
                                         int64_t count) {
  if (tokens.empty()) throw Error("tokens", "", "at least one token", "none");
  check_token_ids("tokens", tokens, model.shape().vocab);
  PagedKvCache cache(backend, model.shape(), static_cast<int64_t>(tokens.size()) + count);
  Arena arena(backend.memory());
  Context c{.backend = backend, .arena = arena};
  CachedSequence sequence(cache);
  int64_t computed = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto length = static_cast<int64_t>(tokens.size());
    SY_CHECK(sequence.reserve(length), "a cache of {} blocks", cache.total_blocks());
    StepBuilder step;
    step.add(std::span(tokens).subspan(static_cast<size_t>(computed)), computed, sequence, Logits::kLast);
    computed = length;
    const std::vector<float> logits = to_host(backend, run_step(c, model, step, cache));
    tokens.push_back(most_likely(logits));
  }
  return tokens;
}

}  // namespace switchyard
