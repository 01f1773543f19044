// What a model costs: parameters, the share that works for each token, and the bytes that a step must read.
// All from shapes; no weight is touched.
#pragma once

#include <array>
#include <map>
#include <string_view>

#include "models/model.h"

namespace switchyard {

inline constexpr size_t kComponents = static_cast<size_t>(Component::kOutput) + 1;

struct ParameterCount {
  int64_t total = 0;
  double active = 0;  // that work for one token: of the routed experts K of E, of all else everything
};

struct Accounting {
  std::array<ParameterCount, kComponents> by_component{};
  ParameterCount sum;
  int64_t stored_bytes = 0;  // in the formats of the checkpoint
  std::map<std::string_view, int64_t> matrices_by_format;
};

// Throws Error when the weights have 2^63 bytes or more.
Accounting account(const Model& model);

// E * (1 - (1 - K/E)^tokens): distinct experts that a step of so many tokens expects to touch in a layer,
// when every token chooses independently and evenly.
double expected_distinct_experts(int64_t experts, int64_t top_k, int64_t tokens);

// Parameters that a decode step of so many sequences reads: everything but the embedding rows it does not
// look up and the experts it does not touch. Keys and values come on top.
double parameters_read_per_step(const Model& model, const Accounting& accounting, int64_t sequences);

}  // namespace switchyard
