#include "models/blocks.h"

#include "base/error.h"

namespace switchyard {

GroupedAttention GroupedAttention::bind(Binder b, int64_t hidden, const AttentionShape& shape,
                                        const AttentionParts& parts) {
  const int64_t q_features = shape.heads * shape.head_dim;
  const int64_t kv_features = shape.kv_heads * shape.head_dim;
  GroupedAttention block{
      .q_proj = b.linear("q_proj", q_features, hidden, parts.qkv_bias, Component::kAttention),
      .k_proj = b.linear("k_proj", kv_features, hidden, parts.qkv_bias, Component::kAttention),
      .v_proj = b.linear("v_proj", kv_features, hidden, parts.qkv_bias, Component::kAttention),
      .o_proj = b.linear("o_proj", hidden, q_features, parts.o_bias, Component::kAttention),
      .q_norm = {},
      .k_norm = {},
      .norm_eps = parts.norm_eps,
      .shape = shape};
  if (parts.norm == QkNorm::kNone) return block;
  const bool per_head = parts.norm == QkNorm::kPerHead;
  block.q_norm = b.tensor("q_norm.weight", {per_head ? shape.head_dim : q_features}, Component::kNorm);
  block.k_norm = b.tensor("k_norm.weight", {per_head ? shape.head_dim : kv_features}, Component::kNorm);
  return block;
}

namespace {

// Norm over groups of as many columns as the weight has: heads, or the whole row.
Tensor norm_groups(Context& c, const Tensor& x, const Tensor& weight, float eps) {
  if (!weight) return x;
  const int64_t width = weight.dim(0);
  return rms_norm(c, x.reshaped({x.elements() / width, width}), weight, eps).reshaped(x.shape());
}

}  // namespace

Tensor GroupedAttention::forward(Context& c, const Tensor& x, const Batch& batch, const Rope& rotary,
                                 int layer) const {
  Tensor q = norm_groups(c, linear(c, x, q_proj), q_norm, norm_eps);
  Tensor k = norm_groups(c, linear(c, x, k_proj), k_norm, norm_eps);
  q = rope(c, q, batch.positions, rotary, shape.heads);
  k = rope(c, k, batch.positions, rotary, shape.kv_heads);
  const Tensor v = linear(c, x, v_proj);
  return linear(c, attention(c, q, k, v, batch, layer, shape), o_proj);
}

void GroupedAttention::visit_linears(const LinearVisitor& visit) {
  for (Linear* layer : {&q_proj, &k_proj, &v_proj, &o_proj})
    visit(*layer);
}

GatedMlp GatedMlp::bind(Binder b, int64_t hidden, int64_t width, Component component, bool bias) {
  return {.gate_proj = b.linear("gate_proj", width, hidden, bias, component),
          .up_proj = b.linear("up_proj", width, hidden, bias, component),
          .down_proj = b.linear("down_proj", hidden, width, bias, component)};
}

Tensor GatedMlp::forward(Context& c, const Tensor& x) const {
  return linear(c, swiglu(c, linear(c, x, gate_proj), linear(c, x, up_proj)), down_proj);
}

void GatedMlp::visit_linears(const LinearVisitor& visit) {
  for (Linear* layer : {&gate_proj, &up_proj, &down_proj})
    visit(*layer);
}

Tensor SparseMoe::forward(Context& c, const Tensor& x, const Batch& batch, int layer) const {
  const Routing routing = route(c, linear(c, x, gate), rule, batch, layer);
  const Tensor routed = experts->forward(c, x, routing);
  if (!shared_expert) return routed;
  const Tensor shared = shared_expert->forward(c, x);
  if (!shared_expert_gate) return add(c, routed, shared);
  return gated_add(c, routed, shared, linear(c, x, *shared_expert_gate));
}

void SparseMoe::visit_linears(const LinearVisitor& visit) {
  visit(gate);
  if (shared_expert) shared_expert->visit_linears(visit);
  if (shared_expert_gate) visit(*shared_expert_gate);
}

Tensor attend(Context& c, const AttentionBlock& block, const Tensor& x, const Batch& batch,
              const Rope& rotary, int layer) {
  return std::visit([&](const auto& b) { return b.forward(c, x, batch, rotary, layer); }, block);
}

Tensor feed_forward(Context& c, const FeedForward& block, const Tensor& x, const Batch& batch, int layer) {
  if (const auto* dense = std::get_if<GatedMlp>(&block)) return dense->forward(c, x);
  return std::get<SparseMoe>(block).forward(c, x, batch, layer);
}

void visit_linears(AttentionBlock& block, const LinearVisitor& visit) {
  std::visit([&](auto& b) { b.visit_linears(visit); }, block);
}

void visit_linears(FeedForward& block, const LinearVisitor& visit) {
  std::visit([&](auto& b) { b.visit_linears(visit); }, block);
}

namespace {

struct ExpertWeights {
  std::vector<Weight> gate, up, down;

  std::unique_ptr<Experts> build(Binder& b) && {
    const auto matrices = [&](std::vector<Weight>& weights) {
      return ExpertMatrices(b.backend(), b.arena(), std::move(weights));
    };
    return std::make_unique<ResidentExperts>(matrices(gate), matrices(up), matrices(down));
  }
};

ExpertWeights bind_fused(Binder& b, int64_t experts, int64_t hidden, int64_t width) {
  const Tensor gate_up = b.tensor("experts.gate_up_proj", {experts, 2 * width, hidden}, Component::kExperts);
  const Tensor down = b.tensor("experts.down_proj", {experts, hidden, width}, Component::kExperts);
  const Tensor gate_up_rows = gate_up.reshaped({experts * 2 * width, hidden});
  const Tensor down_rows = down.reshaped({experts * hidden, width});
  ExpertWeights weights;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t row = e * 2 * width;
    weights.gate.emplace_back(gate_up_rows.rows(row, row + width));
    weights.up.emplace_back(gate_up_rows.rows(row + width, row + 2 * width));
    weights.down.emplace_back(down_rows.rows(e * hidden, (e + 1) * hidden));
  }
  return weights;
}

std::unique_ptr<Experts> bind_experts(Binder b, int64_t experts, int64_t hidden, int64_t width,
                                      const ExpertNames& names) {
  if (b.has("experts.gate_up_proj")) return bind_fused(b, experts, hidden, width).build(b);
  ExpertWeights weights;
  for (int64_t e = 0; e < experts; ++e) {
    Binder expert = b.scope(fmt::format("experts.{}.", e));
    weights.gate.push_back(expert.matrix(names.gate, width, hidden, Component::kExperts));
    weights.up.push_back(expert.matrix(names.up, width, hidden, Component::kExperts));
    weights.down.push_back(expert.matrix(names.down, hidden, width, Component::kExperts));
  }
  return std::move(weights).build(b);
}

}  // namespace

SparseMoe SparseMoe::bind(Binder b, const ModelShape& s, const RoutingRule& rule, const ExpertNames& names) {
  return {.gate = b.linear("gate", s.experts, s.hidden, false, Component::kRouter),
          .rule = rule,
          .experts = bind_experts(b, s.experts, s.hidden, s.expert_width, names)};
}

Linear bind_output(Binder& b, const Weight& embed_tokens, bool tied) {
  if (!tied) return b.linear("lm_head", embed_tokens.rows(), embed_tokens.cols(), false, Component::kOutput);
  b.check_copy("lm_head.weight", embed_tokens);
  return {.weight = embed_tokens, .bias = {}, .lora = {}, .name = "lm_head"};
}

}  // namespace switchyard
