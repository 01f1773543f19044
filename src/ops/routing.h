// Routing tokens to experts: the choice, the sorted dispatch, the experts' products, the combination, and the
// losses that keep experts evenly used. The meaning of every number here is fixed in docs/moe.md.
#pragma once

#include <span>
#include <vector>

#include "ops/batch.h"
#include "ops/context.h"

namespace switchyard {

// How a family turns router logits into a choice (RouteArgs has the formulas). Fixed by the checkpoint.
struct RoutingRule {
  int64_t top_k;         // K
  bool normalize;        // norm_topk_prob: weights divided by their sum
  float epsilon = 0;     // added to that sum: 1e-20 in DeepSeek-V3
  float scaling = 1.0f;  // routed_scaling_factor
  RouterScore score = RouterScore::kSoftmax;
  Tensor selection_bias = {};  // e_score_correction_bias: [E] float32, or none
  int64_t n_group = 1;         // groups of equally many experts
  int64_t topk_group = 1;      // of them are kept
  GroupScore group_score = GroupScore::kBest;
};

// The choice for each token of a step: a value that can be watched, kept and replayed.
struct Routing {
  Tensor probabilities;  // [T, E]: softmax probabilities, or sigmoid scores
  // K is the largest of the step's rows. In a row, the chosen experts come best first; a slot without one
  // (the row chooses fewer, or its expert had no room) has the id -1 and the weight 0. Rerouting keeps the
  // slot.
  Tensor expert_ids;  // [T, K] int32
  Tensor weights;     // [T, K]
  // For observers. The choice before the capacity had its say, [T, K]; absent without a capacity.
  Tensor chosen_ids = {};
  // What the model's own rule would have chosen, [T, its K]; absent without policies.
  Tensor own_ids = {};
  int64_t experts() const { return probabilities.dim(1); }
};

// [T, E] -> Routing, steered by batch.routing, of which the rest of the batch is unused; tells the context's
// observer. With a tape only the model's own rule is allowed.
Routing route(Context& c, const Tensor& logits, const RoutingRule& rule, const Batch& batch, int layer);

// Where each assignment goes when rows are sorted by expert.
// P = T * K; where slots have no expert, the last of the P rows belong to none, and are 0.
struct DispatchPlan {
  Tensor offsets;       // [E + 1] int32
  Tensor token_of_row;  // [P] int32, -1: none
  Tensor row_of_slot;   // [T, K] int32, -1: none
  int64_t experts() const { return offsets.dim(0) - 1; }
};

DispatchPlan plan_dispatch(Context& c, const Routing& routing);

// [T, D] -> [P, D]: each token's row once per chosen expert, sorted by expert.
Tensor dispatch(Context& c, const Tensor& x, const DispatchPlan& plan);

// One matrix per expert, all of one shape; formats may differ.
class ExpertMatrices {
 public:
  ExpertMatrices() = default;
  // Keeps a table of the matrices on the device, in memory of `arena`. At least one weight.
  ExpertMatrices(Backend& backend, Arena& arena, std::vector<Weight> weights);

  int64_t count() const { return static_cast<int64_t>(weights_.size()); }
  int64_t out_features() const { return weights_.front().rows(); }
  int64_t in_features() const { return weights_.front().cols(); }
  const std::vector<Weight>& weights() const { return weights_; }
  const Matrix* table() const { return static_cast<const Matrix*>(table_.data()); }
  bool any_requires_grad() const;

 private:
  std::vector<Weight> weights_;  // E times [N, K']
  Tensor table_;                 // bytes of E Matrix structs
};

// [P, K'] sorted by expert -> [P, N], each row times its expert's matrix.
Tensor expert_linear(Context& c, const Tensor& x, const ExpertMatrices& weights, const DispatchPlan& plan);

// [P, D] -> [T, D]: sum over k of weights[t, k] * y[row of (t, k)], of the slots that have a row.
Tensor combine(Context& c, const Tensor& y, const Tensor& weights, const DispatchPlan& plan);

enum class BalanceLoss {
  kPooled,    // over the tokens of all layers together, as `transformers` computes it: about K when even
  kPerLayer,  // Switch/GShard form for each layer, then the mean: a collapsed layer cannot hide
};

// E * sum_e f[e] * P[e] with f the mean number of assignments to e per token and P its mean probability.
// At least one routing; all have the same number of experts. -> [1]
Tensor balance_loss(Context& c, std::span<const Routing> routings, BalanceLoss kind);

}  // namespace switchyard
