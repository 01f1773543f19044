// Runs a model on whole sequences and keeps what the forward pass shows.
#pragma once

#include <map>
#include <memory>
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
  std::unique_ptr<Backend> (*make)();
};
std::vector<BackendUnderTest> backends_under_test();

// Keeps each layer's routing, for losses on it.
struct RoutingCollector final : ForwardObserver {
  void on_route(int, const Tensor&, const Routing& routing) override { routings.push_back(routing); }
  std::vector<Routing> routings;
};

// Everything that a forward pass shows, on the host, rows in the order of the batch.
struct Seen final : ForwardObserver {
  explicit Seen(Backend& b) : backend(b) {}
  void on_hidden_state(int index, const Tensor& x) override;
  void on_route(int layer, const Tensor& logits, const Routing& routing) override;

  Backend& backend;
  std::map<int, std::vector<float>> hidden_states;
  std::map<int, std::vector<float>> router_logits;
  std::map<int, std::vector<int32_t>> expert_ids;
  std::map<int, std::vector<float>> expert_weights;
};

// Logits of every token of every sequence, the sequences batched into one step, or cut into steps of `chunk`
// tokens of each sequence. Concatenated in sequence order.
std::vector<float> all_logits(Backend& backend, const Model& model,
                              const std::vector<std::vector<int32_t>>& sequences, int64_t chunk = 1 << 30,
                              int64_t block_size = 16, Seen* seen = nullptr);

std::vector<int32_t> greedy(Backend& backend, const Model& model, std::vector<int32_t> tokens, int64_t count);

}  // namespace switchyard
