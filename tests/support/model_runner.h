// Runs a model on whole sequences and keeps what the forward pass shows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/kv_cache.h"
#include "engine/step.h"
#include "models/registry.h"
#include "ops/routing.h"

namespace switchyard {

struct BackendUnderTest {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};
// The reference, and the CPU backend with each instruction set of the machine.
std::vector<BackendUnderTest> backends_under_test();

// Keeps each layer's routing, for losses on it.
struct RoutingCollector final : ForwardObserver {
  void on_route(int, const Tensor&, const Routing& routing) override { routings.push_back(routing); }
  std::vector<Routing> routings;
};

// As transformers trains: total = next-token cross-entropy + the config's coefficient * pooled balance loss.
struct Losses {
  Tensor cross_entropy;
  Tensor balance;  // absent where the family has none
  Tensor total;
};
Losses training_losses(Context c, const Model& model, const std::vector<std::vector<int32_t>>& sequences);

// Logits of every token of every sequence, the sequences batched into one step, or cut into steps of `chunk`
// tokens of each sequence. Concatenated in sequence order. The first `prompt_length` tokens of each sequence
// are its prompt; all of them are without it.
std::vector<float> all_logits(Backend& backend, const Model& model,
                              const std::vector<std::vector<int32_t>>& sequences, int64_t chunk = 1 << 30,
                              int64_t block_size = 16, std::optional<int64_t> prompt_length = std::nullopt);

}  // namespace switchyard
