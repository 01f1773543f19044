// The parts that families are put together from. Fields carry the checkpoint's names.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "experts/experts.h"
#include "models/latent_attention.h"
#include "models/model.h"
#include "models/weights.h"
#include "ops/attention.h"
#include "ops/batch.h"

namespace switchyard {

// Root-mean-square norms of queries and keys before they are rotated.
enum class QkNorm {
  kNone,
  kPerHead,    // one weight [A] for each head of its own
  kFullWidth,  // over all heads together, weights [H * A] and [G * A]
};

// What a family's attention has beside its four matrices.
struct AttentionParts {
  bool qkv_bias = false;
  bool o_bias = false;
  QkNorm norm = QkNorm::kNone;
  float norm_eps = 0;
};

// Grouped-query self-attention with rotary positions.
struct GroupedAttention {
  Linear q_proj;  // [H * A, D]
  Linear k_proj;  // [G * A, D]
  Linear v_proj;  // [G * A, D]
  Linear o_proj;  // [D, H * A]
  Tensor q_norm;  // [A] or [H * A], absent without norms
  Tensor k_norm;  // [A] or [G * A]
  float norm_eps;
  AttentionShape shape;

  static GroupedAttention bind(Binder b, int64_t hidden, const AttentionShape& shape,
                               const AttentionParts& parts);
  Tensor forward(Context& c, const Tensor& x, const Batch& batch, const Rope& rope, int layer) const;
  void visit_linears(const LinearVisitor& visit);
};

// down(silu(gate(x)) * up(x)): a dense feed-forward layer, or a shared expert.
struct GatedMlp {
  Linear gate_proj;  // [F, D]
  Linear up_proj;    // [F, D]
  Linear down_proj;  // [D, F]

  static GatedMlp bind(Binder b, int64_t hidden, int64_t width, Component component, bool bias = false);
  Tensor forward(Context& c, const Tensor& x) const;
  void visit_linears(const LinearVisitor& visit);
};

// The matrices of one expert, as a checkpoint calls them.
struct ExpertNames {
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
};

// Routed experts, plus, where a family has it, a shared expert that every token passes through.
struct SparseMoe {
  Linear gate;  // router, [E, D]
  RoutingRule rule;
  std::unique_ptr<Experts> experts;
  std::optional<GatedMlp> shared_expert = std::nullopt;
  std::optional<Linear> shared_expert_gate = std::nullopt;  // [1, D]: its sigmoid scales the shared expert

  // The router `gate` and the routed experts; a family adds its shared expert. Experts are stored one by one
  // as experts.<e>.{gate,up,down}.weight, or all in one as experts.gate_up_proj [E, 2F, D] (each expert's
  // gate rows, then its up rows) and experts.down_proj [E, D, F].
  static SparseMoe bind(Binder b, const ModelShape& shape, const RoutingRule& rule,
                        const ExpertNames& names = {});
  Tensor forward(Context& c, const Tensor& x, const Batch& batch, int layer) const;
  void visit_linears(const LinearVisitor& visit);
};

using AttentionBlock = std::variant<GroupedAttention, LatentAttention>;
using FeedForward = std::variant<GatedMlp, SparseMoe>;
Tensor attend(Context& c, const AttentionBlock& block, const Tensor& x, const Batch& batch, const Rope& rope,
              int layer);
Tensor feed_forward(Context& c, const FeedForward& block, const Tensor& x, const Batch& batch, int layer);
void visit_linears(AttentionBlock& block, const LinearVisitor& visit);
void visit_linears(FeedForward& block, const LinearVisitor& visit);

// The output matrix: lm_head.weight [V, D], or the embedding itself where the two are tied.
Linear bind_output(Binder& b, const Weight& embed_tokens, bool tied);

}  // namespace switchyard
