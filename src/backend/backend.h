// The device boundary: the only place where code meets a device. Plain structs of pointers and sizes go in;
// nothing else crosses. Pointers are device pointers, row-major and dense unless a stride is given.
//
// Contract for every op
//   * Activations are float32; weights come in the format of the checkpoint and are read in place.
//   * Sums run in float32 or better, in ONE fixed order per output element, which depends neither on the
//     number of rows in the call nor on threads: a token's result depends on its own sequence alone, bit for
//     bit.
//   * Zero rows are legal and do nothing. Outputs never overlap inputs unless a comment allows it.
//   * Backward ops ADD to the gradients they are given; a null gradient is not wanted and not computed.
//   * Work is ordered as called. Results are on the host after copy_to_host.
// Dimension letters are those of tensor/shape.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensor/matrix.h"
#include "tensor/tensor.h"

namespace switchyard {

// ---- rows and elements ----------------------------------------------------------------------------------

struct EmbeddingArgs {
  Matrix table;        // [V, D]
  const int32_t* ids;  // [T], each in [0, V)
  int64_t tokens;
  float* out;  // [T, D]
};
struct EmbeddingBackwardArgs {
  const int32_t* ids;  // [T]
  const float* d_out;  // [T, D]
  int64_t tokens, hidden;
  float* d_table;  // [V, D]
};

// out[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight
struct RmsNormArgs {
  const float* x;      // [T, D]
  const void* weight;  // [D]
  DType weight_dtype;
  int64_t rows, cols;
  float eps;
  float* out;  // [T, D]
};
struct RmsNormBackwardArgs {
  RmsNormArgs forward;  // `out` unused
  const float* d_out;   // [T, D]
  float* d_x;           // [T, D] or null
  float* d_weight;      // [D] or null
};

// out = a + scale * b; out may be a.
struct AddArgs {
  const float* a;
  const float* b;
  float scale;
  int64_t count;
  float* out;
};

// out = silu(gate) * up, silu(z) = z * sigmoid(z)
struct SwigluArgs {
  const float* gate;  // [rows, F]
  const float* up;    // [rows, F]
  int64_t count;
  float* out;
};
struct SwigluBackwardArgs {
  SwigluArgs forward;  // `out` unused
  const float* d_out;
  float* d_gate;  // or null
  float* d_up;    // or null
};

// out[t] = a[t] + sigmoid(gate[t]) * b[t]: routed experts plus the gated shared expert.
struct GatedAddArgs {
  const float* a;     // [T, D]
  const float* b;     // [T, D]
  const float* gate;  // [T] logits
  int64_t rows, cols;
  float* out;  // [T, D]
};
struct GatedAddBackwardArgs {
  GatedAddArgs forward;  // `out` unused
  const float* d_out;
  float* d_a;  // each or null
  float* d_b;
  float* d_gate;
};

// out[i] = x[index[i]], or 0 where the index is negative; backward adds d_out[i] to d_x[index[i]] in
// ascending i.
struct GatherRowsArgs {
  const float* x;
  const int32_t* index;  // [rows]
  int64_t rows, cols;
  float* out;  // [rows, cols]
};
struct GatherRowsBackwardArgs {
  const float* d_out;  // [rows, cols]
  const int32_t* index;
  int64_t rows, cols;
  float* d_x;
};

// Copies a block of columns: out[t, i] = x[t, i] for i < cols, or adds it where `accumulate`. The backward of
// a copy is a copy the other way.
struct CopyColumnsArgs {
  const float* x;
  int64_t x_stride;  // elements from one row to the next
  int64_t rows, cols;
  bool accumulate;
  float* out;
  int64_t out_stride;
};

// ---- linear ---------------------------------------------------------------------------------------------

// out[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]
struct LinearArgs {
  const float* x;    // [T, K]
  Matrix weight;     // [N, K]
  const void* bias;  // [N] or null
  DType bias_dtype;
  int64_t rows;  // T
  float* out;    // [T, N]
};
// d_x[t, k] += sum_n d_out[t, n] * weight[n, k]
struct LinearBackwardInputArgs {
  const float* d_out;  // [T, N]
  Matrix weight;       // [N, K]
  int64_t rows;
  float* d_x;  // [T, K]
};
// d_weight[n, k] += sum_t d_out[t, n] * x[t, k];  d_bias[n] += sum_t d_out[t, n]
struct LinearBackwardWeightArgs {
  const float* d_out;  // [T, N]
  const float* x;      // [T, K]
  int64_t rows, out_features, in_features;
  float* d_weight;  // [N, K] or null
  float* d_bias;    // [N] or null
};

// A linear layer whose rows belong to heads: with W_h rows [h * head_rows + first_row, + rows_used) of
// `weight`,
//   out[t, h, n] = sum_k x[t, h, k] W_h[n, k], or where `transposed`
//   out[t, h, k] = sum_n x[t, h, n] W_h[n, k].
struct HeadLinearArgs {
  const float* x;  // [T, H, K], transposed: [T, H, rows_used]
  Matrix weight;   // [H * head_rows, K]
  int64_t rows;    // T
  int64_t heads, head_rows, first_row, rows_used;
  bool transposed;
  float* out;  // [T, H, rows_used], transposed: [T, H, K]
};

// ---- attention ------------------------------------------------------------------------------------------

// Rotates each head's pairs (i, i + A/2), or (2i, 2i + 1) if `interleaved`, by position *
// inverse_frequencies[set, i]; `direction` +1, or -1 for backward. cos and sin are multiplied by
// `attention_factor`. out may be x.
struct RopeArgs {
  const float* x;                    // [T, heads, A]
  const int32_t* positions;          // [T]
  const float* inverse_frequencies;  // [sets, A/2]
  const int32_t* set_of_row;         // [T] or null: set 0 for every row
  float attention_factor;
  float direction;
  bool interleaved;
  int64_t rows, heads, head_dim;
  float* out;
};

// One layer's paged cache: block b of head g holds `block_size` positions, each a key of A elements at
// ((b * G + g) * block_size + position % block_size) * A and a value of B elements at the same index times B.
struct KvLayer {
  void* keys = nullptr;
  void* values = nullptr;  // null: a value is the first B elements of its key
  DType dtype = DType::kF32;
  int64_t block_size = 0;
  int64_t kv_heads = 0;   // G
  int64_t head_dim = 0;   // A
  int64_t value_dim = 0;  // B

  // Elements from one value to the next.
  int64_t value_stride() const { return values == nullptr ? head_dim : value_dim; }
};

// Which sequence and position each row of a step is, and where each sequence's blocks are.
struct StepRows {
  const int32_t* positions;    // [T]
  const int32_t* sequences;    // [T] index into block_table
  const int32_t* block_table;  // [sequences, max_blocks]
  int64_t rows;                // T
  int64_t max_blocks;
};

struct KvWriteArgs {
  KvLayer kv;
  StepRows step;
  const float* keys;    // [T, G, A]
  const float* values;  // [T, G, B], or null where the cache keeps none
};

// out[t, h] = softmax_s(scale * q[t, h] . key[s, g]) value[s, g] over the cached positions s of t's sequence
// with max(0, p - window + 1) <= s <= p, p the row's own position, g = h / (H / G). window 0: no window.
struct AttentionArgs {
  const float* q;  // [T, H, A]
  KvLayer kv;
  StepRows step;
  int64_t heads;  // H
  float scale;
  int64_t window;
  float* out;          // [T, H, B]
  float* log_sum_exp;  // [T, H] or null: kept for backward
};
// Gradient within a step whose sequences start at position 0 and are contiguous rows: row t at position p
// sees rows t - p .. t, so no cache is read.
struct AttentionBackwardArgs {
  const float* q;            // [T, H, A]
  const float* k;            // [T, G, A]
  const float* v;            // [T, G, B]
  const float* out;          // [T, H, B] of the forward pass
  const float* log_sum_exp;  // [T, H]
  const int32_t* positions;  // [T]
  int64_t rows, heads, kv_heads;
  int64_t head_dim;   // A
  int64_t value_dim;  // B
  float scale;
  int64_t window;
  const float* d_out;  // [T, H, B]
  float* d_q;          // [T, H, A] or null
  float* d_k;          // [T, G, A] or null
  float* d_v;          // [T, G, B] or null
};

// ---- routing and experts --------------------------------------------------------------------------------

// More experts than any published router has; kernels keep a row of scores on their stack.
inline constexpr int64_t kMaxRoutedExperts = 1024;

enum class RouterScore { kSoftmax, kSigmoid };
enum class GroupScore {
  kBest,     // the group's best selection score (DeepSeek-V2)
  kBestTwo,  // the sum of its two best (DeepSeek-V3)
};

// What one request asks of the router beyond the model's own rule.
struct RoutePolicy {
  const float*
      addends;        // [L, E] by layer of the model: added to the logits; minus infinity: never this expert
  float temperature;  // what the sum is divided by, above 0
  int32_t top_k;      // this row's K
};

// For each row:
//   logits[e]     with a policy first (logits[e] + addends[e]) / temperature, in float32
//   scores[e]     softmax of the logits over all experts, or their sigmoids
//   selection[e]  scores[e] + selection_bias[e]; minus infinity for forbidden experts and in groups that are
//                 not kept
//   experts       the K of largest selection, best first; equal ones in ascending id
//   weights[k]    scaling * scores[expert k], divided, if `normalize`, by the sum of the chosen scores +
//   epsilon
// Groups are runs of E / groups neighbouring experts; the kept_groups of largest score are kept, equal ones
// in ascending order; a group's score passes over forbidden experts. Slots beyond a row's K get the id -1 and
// the weight 0. A row with a NaN logit is recorded as a fault (see take_routing_fault) and gets experts
// 0..K-1 with NaN scores and weights.
struct RouteArgs {
  const float* logits;           // [T, E]
  int64_t rows, experts, top_k;  // T; E, at most kMaxRoutedExperts; K of rows without a policy
  int64_t slots;                 // at least the K of every row
  RouterScore score = RouterScore::kSoftmax;
  const float* selection_bias = nullptr;  // [E] or null
  int64_t groups = 1;                     // a divisor of E
  int64_t kept_groups = 1;                // never leaves fewer than a row's K experts
  GroupScore group_score = GroupScore::kBest;
  bool normalize = false;
  float epsilon = 0;
  float scaling = 1;
  int32_t layer = 0;                       // for the fault report and the policies' addends
  const RoutePolicy* policies = nullptr;   // or null
  const int32_t* policy_of_row = nullptr;  // [T] index into policies, negative: none
  float* probabilities;                    // [T, E]: the scores
  float* selection = nullptr;              // [T, E] or null
  int32_t* expert_ids;                     // [T, slots]
  float* weights;                          // [T, slots]
};
struct RouteBackwardArgs {
  RouteArgs forward;             // as after the forward pass; the choice is a constant
  const float* d_weights;        // [T, slots] or null
  const float* d_probabilities;  // [T, E] or null
  float* d_logits;               // [T, E]
};

// Lets every expert keep only the `capacity` of its assignments with the largest weights, equal ones in
// ascending row. The others are dropped: id -1, weight 0. With `selection` they are rerouted instead, those
// of large weight first, then in ascending row and slot: each goes to the expert of largest selection that
// still has room, that is not minus infinity and that the row does not have yet, with the weight scaling *
// probability of that expert / the row's divisor (see RouteArgs); dropped if there is none.
struct LimitCapacityArgs {
  const int32_t* expert_ids;  // [T, slots], -1: none
  const float* weights;       // [T, slots]
  int64_t rows, experts, slots;
  int64_t capacity;
  const float* selection;      // [T, E] as route left it, or null: drop
  const float* probabilities;  // [T, E]; this and the rest only with selection
  bool normalize;
  float epsilon;
  float scaling;
  int32_t* limited_ids;    // [T, slots]
  float* limited_weights;  // [T, slots]
};

// Sorts the assignments, at most P = T*K, by expert, stable in token order. A slot of expert -1 has none, so
// that the last of the P rows may be left over.
struct DispatchPlanArgs {
  const int32_t* expert_ids;  // [T, K], -1: none
  int64_t rows, experts, top_k;
  int32_t* offsets;       // [E + 1]: expert e owns sorted rows offsets[e] .. offsets[e + 1]
  int32_t* token_of_row;  // [P]: token of each sorted row; -1 from offsets[E] on
  int32_t* row_of_slot;   // [T, K]: sorted row of assignment (t, k), or -1
};

// The same product as LinearArgs, each expert's rows with its own weight. Rows from offsets[E] on become 0.
struct ExpertLinearArgs {
  const float* x;          // [P, K'] rows sorted by expert
  const Matrix* weights;   // [E], all of one shape [N, K']
  const int32_t* offsets;  // [E + 1]
  int64_t experts, rows;   // E, P
  int64_t out_features, in_features;
  float* out;  // [P, N]
};
struct ExpertLinearBackwardInputArgs {
  const float* d_out;  // [P, N]
  const Matrix* weights;
  const int32_t* offsets;
  int64_t experts, rows, out_features, in_features;
  float* d_x;  // [P, K']
};
struct ExpertLinearBackwardWeightArgs {
  const float* d_out;  // [P, N]
  const float* x;      // [P, K']
  const int32_t* offsets;
  int64_t experts, rows, out_features, in_features;
  float* const* d_weights;  // [E], each [N, K'] or null
};

// out[t] = sum_k weights[t, k] * y[row_of_slot[t, k]], k ascending, without the slots of row -1; weights null
// means 1. The transpose of a dispatch, and so its backward.
struct CombineArgs {
  const float* y;              // [P, D]
  const float* weights;        // [T, K] or null
  const int32_t* row_of_slot;  // [T, K], -1: none
  int64_t rows, top_k, cols;   // T, K, D
  bool accumulate;             // adds to out
  float* out;                  // [T, D]
};
struct CombineBackwardArgs {
  CombineArgs forward;  // `out` unused
  const float* d_out;   // [T, D]
  float* d_y;           // [P, D] or null
  float* d_weights;     // [T, K] or null
};

// hits[e] += assignments to e; probability_sums[e] += sum_t probabilities[t, e].
struct RoutingSumsArgs {
  const float* probabilities;  // [T, E]
  const int32_t* expert_ids;   // [T, K], -1: none
  int64_t rows, experts, top_k;
  float* hits;              // [E]
  float* probability_sums;  // [E]
};
// loss[0] += scale * E * sum_e (hits[e] / rows) * (probability_sums[e] / rows)
struct BalanceLossArgs {
  const float* hits;
  const float* probability_sums;
  int64_t experts;
  int64_t total_rows;  // rows summed over all layers in hits
  float scale;
  float* loss;  // [1]
};
// d_probabilities[t, e] += d_loss[0] * scale * E * hits[e] / total_rows^2
struct BalanceLossBackwardArgs {
  const float* hits;
  int64_t rows, experts, total_rows;
  float scale;
  const float* d_loss;     // [1]
  float* d_probabilities;  // [T, E]
};

// ---- loss -----------------------------------------------------------------------------------------------

// loss[0] = mean over rows with target >= 0 of logsumexp(logits[t]) - logits[t, target[t]].
struct CrossEntropyArgs {
  const float* logits;     // [T, V]
  const int32_t* targets;  // [T], negative: the row does not count
  int64_t rows, vocab;
  float* log_sum_exp;  // [T]
  float* loss;         // [1]
};
struct CrossEntropyBackwardArgs {
  CrossEntropyArgs forward;  // log_sum_exp as after the forward pass; `loss` unused
  const float* d_loss;       // [1]
  float* d_logits;           // [T, V]
};

// A row whose router logits were not numbers.
struct RoutingFault {
  int32_t layer;
  int64_t row;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string description() const = 0;  // "cpu (AVX-512, 2 threads)"
  virtual Memory& memory() = 0;

  virtual void copy_from_host(void* device, const void* host, int64_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, int64_t bytes) = 0;
  virtual void fill_zero(void* device, int64_t bytes) = 0;

  // A weight made usable by this device from host memory: in place where the device can read it, else a copy.
  virtual Tensor place_weight(const Tensor& host) = 0;

  // The fault of the smallest layer, then row, since the last call, if any. Waits for the device.
  virtual std::optional<RoutingFault> take_routing_fault() = 0;

  virtual void embedding(const EmbeddingArgs&) = 0;
  virtual void embedding_backward(const EmbeddingBackwardArgs&) = 0;
  virtual void rms_norm(const RmsNormArgs&) = 0;
  virtual void rms_norm_backward(const RmsNormBackwardArgs&) = 0;
  virtual void add(const AddArgs&) = 0;
  virtual void swiglu(const SwigluArgs&) = 0;
  virtual void swiglu_backward(const SwigluBackwardArgs&) = 0;
  virtual void gated_add(const GatedAddArgs&) = 0;
  virtual void gated_add_backward(const GatedAddBackwardArgs&) = 0;
  virtual void gather_rows(const GatherRowsArgs&) = 0;
  virtual void gather_rows_backward(const GatherRowsBackwardArgs&) = 0;
  virtual void copy_columns(const CopyColumnsArgs&) = 0;

  virtual void linear(const LinearArgs&) = 0;
  virtual void linear_backward_input(const LinearBackwardInputArgs&) = 0;
  virtual void linear_backward_weight(const LinearBackwardWeightArgs&) = 0;
  virtual void head_linear(const HeadLinearArgs&) = 0;

  virtual void rope(const RopeArgs&) = 0;
  virtual void kv_write(const KvWriteArgs&) = 0;
  virtual void attention(const AttentionArgs&) = 0;
  virtual void attention_backward(const AttentionBackwardArgs&) = 0;

  virtual void route(const RouteArgs&) = 0;
  virtual void route_backward(const RouteBackwardArgs&) = 0;
  virtual void limit_capacity(const LimitCapacityArgs&) = 0;
  virtual void dispatch_plan(const DispatchPlanArgs&) = 0;
  virtual void expert_linear(const ExpertLinearArgs&) = 0;
  virtual void expert_linear_backward_input(const ExpertLinearBackwardInputArgs&) = 0;
  virtual void expert_linear_backward_weight(const ExpertLinearBackwardWeightArgs&) = 0;
  virtual void combine(const CombineArgs&) = 0;
  virtual void combine_backward(const CombineBackwardArgs&) = 0;
  virtual void routing_sums(const RoutingSumsArgs&) = 0;
  virtual void balance_loss(const BalanceLossArgs&) = 0;
  virtual void balance_loss_backward(const BalanceLossBackwardArgs&) = 0;

  virtual void cross_entropy(const CrossEntropyArgs&) = 0;
  virtual void cross_entropy_backward(const CrossEntropyBackwardArgs&) = 0;
};

}  // namespace switchyard
