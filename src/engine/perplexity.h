// How well a model predicts a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/routing_policy.h"
#include "models/model.h"

namespace switchyard {

struct PerplexityOptions {
  int64_t window = 512;  // tokens the model sees at once
  int64_t stride = 512;  // tokens from one window to the next, at most `window`
  RoutingOptions routing = {};
};

struct Perplexity {
  double nll = 0;  // mean negative log likelihood per scored token, natural logarithm
  // Scored: each token of the text at most once, in the first window that has it behind another token.
  int64_t tokens = 0;
  double perplexity() const;  // e^nll
};

// Windows start at 0, stride, 2 * stride, ... and the last one ends the text. The first token of a window is
// never scored in it, so a stride equal to the window skips one token per window. `progress` gets the tokens
// done so far. Throws Error when the text has fewer than two tokens or ids outside the vocabulary, when an
// option is out of range, and when the model's results are not numbers.
Perplexity perplexity(Backend& backend, const Model& model, std::span<const int32_t> tokens,
                      const PerplexityOptions& options, const std::function<void(int64_t)>& progress);

}  // namespace switchyard
