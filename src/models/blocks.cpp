#include "models/blocks.h"

#include <cmath>

#include "base/error.h"

namespace switchyard {

Attention Attention::bind(Binder b, int64_t hidden, const AttentionShape& shape, bool bias) {
  const int64_t q_features = shape.heads * shape.head_dim;
  const int64_t kv_features = shape.kv_heads * shape.head_dim;
  return {.q_proj = b.linear("q_proj", q_features, hidden, bias, Component::kAttention),
          .k_proj = b.linear("k_proj", kv_features, hidden, bias, Component::kAttention),
          .v_proj = b.linear("v_proj", kv_features, hidden, bias, Component::kAttention),
          .o_proj = b.linear("o_proj", hidden, q_features, false, Component::kAttention),
          .shape = shape};
}

Tensor Attention::forward(Context& c, const Tensor& x, const Batch& batch, const Rope& rotary,
                          int layer) const {
  const Tensor q = rope(c, linear(c, x, q_proj), batch.positions, rotary, shape.heads);
  const Tensor k = rope(c, linear(c, x, k_proj), batch.positions, rotary, shape.kv_heads);
  const Tensor v = linear(c, x, v_proj);
  return linear(c, attention(c, q, k, v, batch, layer, shape), o_proj);
}

void Attention::visit_linears(const std::string& prefix, const LinearVisitor& visit) {
  visit(prefix + "q_proj", q_proj);
  visit(prefix + "k_proj", k_proj);
  visit(prefix + "v_proj", v_proj);
  visit(prefix + "o_proj", o_proj);
}

GatedMlp GatedMlp::bind(Binder b, int64_t hidden, int64_t width, Component component) {
  return {.gate_proj = b.linear("gate_proj", width, hidden, false, component),
          .up_proj = b.linear("up_proj", width, hidden, false, component),
          .down_proj = b.linear("down_proj", hidden, width, false, component)};
}

Tensor GatedMlp::forward(Context& c, const Tensor& x, const Batch& /*batch*/, int /*layer*/) const {
  return linear(c, swiglu(c, linear(c, x, gate_proj), linear(c, x, up_proj)), down_proj);
}

void GatedMlp::visit_linears(const std::string& prefix, const LinearVisitor& visit) {
  visit(prefix + "gate_proj", gate_proj);
  visit(prefix + "up_proj", up_proj);
  visit(prefix + "down_proj", down_proj);
}

Tensor SparseMoe::forward(Context& c, const Tensor& x, const Batch& batch, int layer) const {
  const Routing routing = route(c, linear(c, x, gate), rule, batch, layer);
  const Tensor routed = experts->forward(c, x, routing);
  const Tensor shared = shared_expert.forward(c, x, batch, layer);
  return gated_add(c, routed, shared, linear(c, x, shared_expert_gate));
}

void SparseMoe::visit_linears(const std::string& prefix, const LinearVisitor& visit) {
  visit(prefix + "gate", gate);
  shared_expert.visit_linears(prefix + "shared_expert.", visit);
  visit(prefix + "shared_expert_gate", shared_expert_gate);
}

Tensor feed_forward(Context& c, const FeedForward& mlp, const Tensor& x, const Batch& batch, int layer) {
  return std::visit([&](const auto& block) { return block.forward(c, x, batch, layer); }, mlp);
}

void visit_linears(FeedForward& mlp, const std::string& prefix, const LinearVisitor& visit) {
  std::visit([&](auto& block) { block.visit_linears(prefix, visit); }, mlp);
}

std::unique_ptr<Experts> bind_split_experts(Binder b, int64_t experts, int64_t hidden, int64_t width) {
  std::vector<Tensor> gate, up, down;
  for (int64_t e = 0; e < experts; ++e) {
    Binder expert = b.scope(fmt::format("experts.{}.", e));
    gate.push_back(expert.tensor("gate_proj.weight", {width, hidden}, Component::kExperts));
    up.push_back(expert.tensor("up_proj.weight", {width, hidden}, Component::kExperts));
    down.push_back(expert.tensor("down_proj.weight", {hidden, width}, Component::kExperts));
  }
  const auto matrices = [&](std::vector<Tensor>& weights) {
    return ExpertMatrices(b.backend(), b.arena(), std::move(weights));
  };
  return std::make_unique<ResidentExperts>(matrices(gate), matrices(up), matrices(down));
}

Linear bind_output(Binder& b, const Tensor& embed_tokens, bool tied) {
  if (!tied) return b.linear("lm_head", embed_tokens.dim(0), embed_tokens.dim(1), false, Component::kOutput);
  b.check_copy("lm_head.weight", embed_tokens);
  return {.weight = embed_tokens, .bias = {}, .lora = {}};
}

Rope default_rope(Binder& b, double theta, int64_t head_dim, DType precision) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    // In float32 throughout, as every checkpoint was trained.
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const float frequency = 1.0f / std::pow(static_cast<float>(theta), exponent);
    frequencies.push_back(precision == DType::kBF16 ? bf16_to_f32(f32_to_bf16(frequency)) : frequency);
  }
  Rope rope{.inverse_frequencies = Tensor::empty(b.arena(), DType::kF32, {head_dim / 2})};
  b.backend().copy_from_host(rope.inverse_frequencies.mutable_data(), frequencies.data(),
                             rope.inverse_frequencies.bytes());
  return rope;
}

}  // namespace switchyard
