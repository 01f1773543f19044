#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/logits.h"
#include "engine/step.h"

namespace switchyard {
namespace {

constexpr int64_t kChunk = 128;  // rows of logits held at once

// Adds the tokens [first_scored, end) of the window that starts at `begin`.
void score_window(Backend& backend, const Model& model, std::span<const int32_t> tokens, int64_t begin,
                  int64_t end, int64_t first_scored, const RoutingOptions& routing, Perplexity& total) {
  PagedKvCache cache(backend, model.shape(), end - begin);
  CachedSequence sequence(cache);
  SY_CHECK(sequence.reserve(end - begin), "a cache of {} blocks", cache.total_blocks());
  Arena arena(backend.memory());
  Context c{.backend = backend, .arena = arena};
  const auto vocab = static_cast<size_t>(model.shape().vocab);
  for (int64_t at = begin; at < end - 1; at += kChunk) {  // the last token predicts nothing
    const int64_t count = std::min(kChunk, end - 1 - at);
    StepBuilder step(routing.capacity);
    step.add(tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at - begin, sequence,
             Logits::kAll, end - begin, routing.policy);
    const std::vector<float> logits = to_host(backend, run_step(c, model, step, cache));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t target = at + i + 1;
      if (target < first_scored) continue;
      const auto row = std::span(logits).subspan(static_cast<size_t>(i) * vocab, vocab);
      const auto token = static_cast<size_t>(tokens[static_cast<size_t>(target)]);
      total.nll += log_sum_exp(row) - row[token];
      ++total.tokens;
    }
  }
}

}  // namespace

double Perplexity::perplexity() const {
  return std::exp(nll);
}

Perplexity perplexity(Backend& backend, const Model& model, std::span<const int32_t> tokens,
                      const PerplexityOptions& options, const std::function<void(int64_t)>& progress) {
  if (options.window < 2) {
    throw Error("perplexity", "window", "at least 2 tokens", fmt::format("{}", options.window));
  }
  if (options.stride < 1 || options.stride > options.window) {
    throw Error("perplexity", "stride", fmt::format("1 to the window of {} tokens", options.window),
                fmt::format("{}", options.stride));
  }
  const auto length = static_cast<int64_t>(tokens.size());
  if (length < 2) throw Error("perplexity", "text", "at least 2 tokens", fmt::format("{}", length));
  if (options.routing.capacity) check(*options.routing.capacity, model.shape());
  check_token_ids("perplexity", tokens, model.shape().vocab);
  Perplexity total;
  int64_t scored_to = 0;
  for (int64_t begin = 0; scored_to < length; begin += options.stride) {
    const int64_t end = std::min(begin + options.window, length);
    score_window(backend, model, tokens, begin, end, std::max(scored_to, begin + 1), options.routing, total);
    scored_to = end;
    progress(end);
  }
  total.nll /= static_cast<double>(total.tokens);
  if (!std::isfinite(total.nll)) {
    throw Error("perplexity", "likelihood", "numbers", "NaN or infinity: the weights are broken");
  }
  return total;
}

}  // namespace switchyard
