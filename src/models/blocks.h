// The parts that families are put together from. Fields carry the checkpoint's names. visit_linears calls
// `visit` for each Linear, its name under `prefix`.
#pragma once

#include <memory>
#include <variant>

#include "experts/experts.h"
#include "models/model.h"
#include "models/weights.h"
#include "ops/attention.h"
#include "ops/batch.h"

namespace switchyard {

// Grouped-query self-attention with rotary positions.
struct Attention {
  Linear q_proj;  // [H * A, D]
  Linear k_proj;  // [G * A, D]
  Linear v_proj;  // [G * A, D]
  Linear o_proj;  // [D, H * A]
  AttentionShape shape;

  // `bias`: whether q, k and v have one.
  static Attention bind(Binder b, int64_t hidden, const AttentionShape& shape, bool bias);
  Tensor forward(Context& c, const Tensor& x, const Batch& batch, const Rope& rope, int layer) const;
  void visit_linears(const std::string& prefix, const LinearVisitor& visit);
};

// down(silu(gate(x)) * up(x)): a dense feed-forward layer, or a shared expert.
struct GatedMlp {
  Linear gate_proj;  // [F, D]
  Linear up_proj;    // [F, D]
  Linear down_proj;  // [D, F]

  static GatedMlp bind(Binder b, int64_t hidden, int64_t width, Component component);
  Tensor forward(Context& c, const Tensor& x, const Batch& batch, int layer) const;
  void visit_linears(const std::string& prefix, const LinearVisitor& visit);
};

// Routed experts, plus a shared expert scaled by a sigmoid gate.
struct SparseMoe {
  Linear gate;  // router, [E, D]
  RoutingRule rule;
  std::unique_ptr<Experts> experts;
  GatedMlp shared_expert;
  Linear shared_expert_gate;  // [1, D]

  Tensor forward(Context& c, const Tensor& x, const Batch& batch, int layer) const;
  void visit_linears(const std::string& prefix, const LinearVisitor& visit);
};

using FeedForward = std::variant<GatedMlp, SparseMoe>;
Tensor feed_forward(Context& c, const FeedForward& mlp, const Tensor& x, const Batch& batch, int layer);
void visit_linears(FeedForward& mlp, const std::string& prefix, const LinearVisitor& visit);

// Experts stored one by one: experts.<e>.{gate,up,down}_proj.weight.
std::unique_ptr<Experts> bind_split_experts(Binder b, int64_t experts, int64_t hidden, int64_t width);

// The output matrix: lm_head.weight [V, D], or the embedding itself where the two are tied.
Linear bind_output(Binder& b, const Tensor& embed_tokens, bool tied);

// Frequencies theta^(-2i/A) of the rope type `default`, rounded to `precision` (kF32 or kBF16).
Rope default_rope(Binder& b, double theta, int64_t head_dim, DType precision);

}  // namespace switchyard
