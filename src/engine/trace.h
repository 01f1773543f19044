// A whole forward pass over sequences of equal length, with everything that it shows: for writing references
// and for comparing with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/routing_policy.h"
#include "models/model.h"

namespace switchyard {

struct TracedTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;  // or
  std::vector<int32_t> ids;   // for expert ids
};

struct TraceOptions {
  bool hidden_states = false;
  bool routing = true;
  RoutingOptions routed = {};  // how
};

// Names and shapes, B sequences of T tokens:
//   logits [B, T, V]; hidden_states.N [B, T, D]; router.N.logits [B*T, E], router.N.experts and
//   router.N.weights [B*T, K] for each sparse layer N (where there is no expert, the id is -1 and the weight
//   0).
// Throws Error when a token id is outside the vocabulary or the sequences differ in length or are empty.
std::map<std::string, TracedTensor> trace(Backend& backend, const Model& model,
                                          const std::vector<std::vector<int32_t>>& sequences,
                                          const TraceOptions& options);

// The `count` most likely tokens, one after another, that follow `prompt`; with the prompt in front.
std::vector<int32_t> greedy_continuation(Backend& backend, const Model& model, std::vector<int32_t> prompt,
                                         int64_t count);

}  // namespace switchyard
