// Puts the tokens of one forward step together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_cache.h"
#include "ops/batch.h"
#include "ops/routing_control.h"

namespace switchyard {

enum class Logits { kNone, kLast, kAll };  // for which of the added tokens logits are wanted

class StepBuilder {
 public:
  explicit StepBuilder(std::optional<Capacity> capacity = std::nullopt) : capacity_(capacity) {}

  // Adds tokens at positions first_position, first_position + 1, ... of a sequence whose blocks (already
  // reserved for them) hold its earlier positions. `prompt_length`: of the sequence's prompt, for
  // Batch::rope_lengths; without it the added tokens end the prompt. `policy`: how they are routed; null: by
  // the model's own rule.
  void add(std::span<const int32_t> tokens, int64_t first_position, const CachedSequence& sequence,
           Logits logits, std::optional<int64_t> prompt_length = std::nullopt,
           std::shared_ptr<const RoutingPolicy> policy = nullptr);

  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t logit_rows() const { return static_cast<int64_t>(logit_rows_.size()); }

  // The batch on the device, for a cache that all added sequences belong to.
  Batch upload(Context& c, const PagedKvCache& cache) const;

 private:
  Tensor upload_own_rows(Context& c) const;
  RoutingControl upload_routing(Context& c) const;

  std::optional<Capacity> capacity_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> sequences_;
  std::vector<int32_t> rope_lengths_;
  std::vector<int32_t> logit_rows_;
  std::vector<std::vector<int32_t>> blocks_;  // by sequence of the step
  std::vector<std::shared_ptr<const RoutingPolicy>> policies_;
  std::vector<int32_t> policy_of_row_;  // index into policies_, -1: none
};

// Throws Error, as from `where`, for an id outside [0, vocab): the embedding has no row for it.
void check_token_ids(const std::string& where, std::span<const int32_t> ids, int64_t vocab);

// One forward pass over the step: logits [M, V] on the device. Throws Error on a routing fault.
Tensor run_step(Context& c, const Model& model, const StepBuilder& step, const PagedKvCache& cache);

// A device tensor's float32 elements on the host.
std::vector<float> to_host(Backend& backend, const Tensor& tensor);

}  // namespace switchyard
