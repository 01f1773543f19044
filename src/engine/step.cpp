#include "engine/step.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/ops.h"

namespace switchyard {

void StepBuilder::add(std::span<const int32_t> tokens, int64_t first_position, const CachedSequence& sequence,
                      Logits logits, std::optional<int64_t> prompt_length,
                      std::shared_ptr<const RoutingPolicy> policy) {
  int32_t policy_index = -1;
  if (policy != nullptr) {
    const auto known = std::find(policies_.begin(), policies_.end(), policy);
    policy_index = static_cast<int32_t>(known - policies_.begin());
    if (known == policies_.end()) policies_.push_back(std::move(policy));
  }
  policy_of_row_.insert(policy_of_row_.end(), tokens.size(), policy_index);
  const int64_t end = first_position + static_cast<int64_t>(tokens.size());
  const auto index = static_cast<int32_t>(blocks_.size());
  blocks_.emplace_back(sequence.blocks().begin(), sequence.blocks().end());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (logits == Logits::kAll || (logits == Logits::kLast && i + 1 == tokens.size())) {
      logit_rows_.push_back(static_cast<int32_t>(tokens_.size()));
    }
    tokens_.push_back(tokens[i]);
    const int64_t position = first_position + static_cast<int64_t>(i);
    positions_.push_back(static_cast<int32_t>(position));
    rope_lengths_.push_back(static_cast<int32_t>(std::max(position + 1, prompt_length.value_or(end))));
    sequences_.push_back(index);
  }
}

Tensor StepBuilder::upload_own_rows(Context& c) const {
  const int64_t longest = *std::max_element(positions_.begin(), positions_.end()) + 1;
  std::vector<int32_t> table(blocks_.size() * static_cast<size_t>(longest), 0);
  std::vector<int32_t> lengths(blocks_.size(), 0);
  for (size_t row = 0; row < tokens_.size(); ++row) {
    const auto sequence = static_cast<size_t>(sequences_[row]);
    SY_CHECK(positions_[row] == lengths[sequence]++, "training on a sequence without its position {}",
             lengths[sequence] - 1);
    table[sequence * static_cast<size_t>(longest) + static_cast<size_t>(positions_[row])] =
        static_cast<int32_t>(row);
  }
  return switchyard::upload(c, table).reshaped({static_cast<int64_t>(blocks_.size()), longest});
}

Batch StepBuilder::upload(Context& c, const PagedKvCache& cache) const {
  size_t max_blocks = 1;
  for (const auto& blocks : blocks_)
    max_blocks = std::max(max_blocks, blocks.size());
  std::vector<int32_t> table(blocks_.size() * max_blocks, 0);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    std::copy(blocks_[i].begin(), blocks_[i].end(), table.begin() + static_cast<int64_t>(i * max_blocks));
  }
  const Shape table_shape{static_cast<int64_t>(blocks_.size()), static_cast<int64_t>(max_blocks)};
  return {.tokens = switchyard::upload(c, tokens_),
          .positions = switchyard::upload(c, positions_),
          .sequences = switchyard::upload(c, sequences_),
          .block_table = switchyard::upload(c, table).reshaped(table_shape),
          .logit_rows = switchyard::upload(c, logit_rows_),
          .kv_layers = cache.layers(),
          .own_rows = c.tape != nullptr && !tokens_.empty() ? upload_own_rows(c) : Tensor(),
          .rope_lengths = rope_lengths_,
          .routing = upload_routing(c)};
}

RoutingControl StepBuilder::upload_routing(Context& c) const {
  RoutingControl control{.capacity = capacity_};
  if (policies_.empty()) return control;
  std::vector<RoutePolicy> table;
  for (const auto& policy : policies_)
    table.push_back(policy->on_device());
  const auto bytes = static_cast<int64_t>(table.size() * sizeof(RoutePolicy));
  control.policies = policies_;
  control.policy_table = Tensor::empty(c.arena, DType::kU8, {bytes});
  c.backend.copy_from_host(control.policy_table.mutable_data(), table.data(), bytes);
  control.policy_of_row = switchyard::upload(c, policy_of_row_);
  control.some_rows_without_policy =
      std::find(policy_of_row_.begin(), policy_of_row_.end(), -1) != policy_of_row_.end();
  return control;
}

void check_token_ids(const std::string& where, std::span<const int32_t> ids, int64_t vocab) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab) {
      throw Error(where, "token", fmt::format("an id in [0, {})", vocab), fmt::format("{}", id));
    }
  }
}

Tensor run_step(Context& c, const Model& model, const StepBuilder& step, const PagedKvCache& cache) {
  Tensor logits = model.forward(c, step.upload(c, cache));
  check_routing(c.backend, model);
  return logits;
}

std::vector<float> to_host(Backend& backend, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  backend.copy_to_host(values.data(), tensor.f32(), tensor.bytes());
  return values;
}

}  // namespace switchyard
