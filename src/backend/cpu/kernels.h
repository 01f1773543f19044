// The table of kernels that each instruction set fills: one thread's share of one op. CpuBackend cuts ops
// into shares. Whatever the cut, an output element has the same bits: its sum runs in an order that depends
// on the length of the sum alone.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/rounded_rows.h"
#include "tensor/panels.h"

namespace switchyard {

// out[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]. Both operands are contiguous along k.
// Strides count elements.
struct DotBlock {
  const float* x;  // [tokens, k]
  int64_t x_stride;
  int64_t tokens;
  const void* weight;  // [weight_rows, k]
  DType weight_dtype;
  int64_t weight_stride;
  int64_t weight_rows;
  int64_t k;
  const float* bias;  // [weight_rows] or null
  float* out;         // [tokens, weight_rows]
  int64_t out_stride;
};

// The same with rounded activations and a weight in panels, from the first row of a panel on.
struct PanelDot {
  RoundedRows x;  // groups: as many as the panels have blocks
  int64_t tokens;
  const void* panels;
  MatrixFormat format;
  int64_t weight_rows;
  const float* bias;  // [weight_rows] or null
  float* out;         // [tokens, weight_rows]
  int64_t out_stride;
};

// The same of bfloat16 activations and weights.
struct Bf16Dot {
  const uint16_t* x;  // [tokens, k]
  int64_t x_stride;
  int64_t tokens;
  const uint16_t* weight;  // [weight_rows, k]
  int64_t weight_stride;
  int64_t weight_rows;
  int64_t k;
  const float* bias;  // [weight_rows] or null
  float* out;         // [tokens, weight_rows]
  int64_t out_stride;
};

// out[i, k] += sum_j a[i, j] * b[j, k], j ascending from out's old value: so a sum may be cut along j into
// several calls without a change in its bits. b and out are contiguous along k.
struct OuterBlock {
  const float* a;  // element (i, j) at i * a_stride_i + j * a_stride_j
  int64_t a_stride_i;
  int64_t a_stride_j;
  int64_t rows;   // of i
  int64_t terms;  // of j
  const void* b;  // [terms, cols]
  DType b_dtype;
  int64_t b_stride;
  int64_t cols;  // of k
  float* out;    // [rows, cols]
  int64_t out_stride;
};

// Largest and sum of exp(x - largest) of a row: the parts of a softmax and of a log-sum-exp.
struct SoftmaxParts {
  float largest;
  double sum;
};

struct Kernels {
  Isa isa;

  // [begin, end) counts rows, or elements for ops without rows.
  void (*embedding)(const EmbeddingArgs&, int64_t begin, int64_t end);
  void (*rms_norm)(const RmsNormArgs&, int64_t begin, int64_t end);
  void (*add)(const AddArgs&, int64_t begin, int64_t end);
  void (*swiglu)(const SwigluArgs&, int64_t begin, int64_t end);
  void (*swiglu_backward)(const SwigluBackwardArgs&, int64_t begin, int64_t end);
  void (*gated_add)(const GatedAddArgs&, int64_t begin, int64_t end);
  void (*combine)(const CombineArgs&, int64_t begin, int64_t end);

  void (*dot)(const DotBlock&);
  void (*outer)(const OuterBlock&);
  // Rows [begin, end) of x [rows, cols].
  void (*round_rows)(const float* x, int64_t cols, const RoundedRows& out, int64_t begin, int64_t end);
  void (*panel_dot)(const PanelDot&);
  // Null where the processor has no such products. round_bf16: elements [begin, end), to nearest, ties to
  // even.
  void (*dot_bf16)(const Bf16Dot&);
  void (*round_bf16)(const float* x, int64_t begin, int64_t end, uint16_t* out);

  // One row of [heads, A]. cosines and sines: [A/2] of the row's position, the sign of `direction` included.
  void (*rotate_halves)(const float* x, const float* cosines, const float* sines, int64_t heads,
                        int64_t head_dim, float* out);
  // The same with pairs (2i, 2i + 1). cosines and sines: [A], what each value and its neighbour in the pair
  // are multiplied by, so that the sine of a pair's first value has the other sign.
  void (*rotate_interleaved)(const float* x, const float* cosines, const float* sines, int64_t heads,
                             int64_t head_dim, float* out);
  // Rows [row, row + rows) of one sequence, at positions that follow each other, and one key/value head.
  // `scratch`: attention_scratch_floats of the tile's queries.
  void (*attention)(const AttentionArgs&, int64_t row, int64_t rows, int64_t kv_head, float* scratch);

  // In place, for one query: weights, first scores, become exp(scale * score - log_sum_exp); slopes, first
  // the gradients of the weights, become those of the unscaled scores, scale * weight * (slope - delta).
  void (*attention_slopes)(float* weights, float* slopes, int64_t count, float scale, float log_sum_exp,
                           float delta);

  // One row. False: a logit is NaN, and nothing is written.
  bool (*route)(const RouteArgs&, int64_t row);

  SoftmaxParts (*softmax_parts)(const float* x, int64_t count);
  // out[i] += scale * exp(x[i] - shift)
  void (*add_scaled_exp)(const float* x, int64_t count, float shift, float scale, float* out);

  // out[i] = exp(x[i]), within 2 units in the last place; for tests.
  void (*exponentials)(const float* x, int64_t count, float* out);
};

// Positions that attention takes at once, up to an absolute multiple.
inline constexpr int64_t kAttentionSpan = 256;
constexpr int64_t attention_scratch_floats(int64_t queries, int64_t head_dim, int64_t value_dim) {
  return queries * (head_dim + value_dim + kAttentionSpan + 2);
}

const Kernels& kernels_of(Isa isa);  // the machine must have it

extern const Kernels kGenericKernels;
extern const Kernels kAvx2Kernels;       // x86-64 only
extern const Kernels kAvx512Kernels;     // x86-64 only
extern const Kernels kAvx512DotKernels;  // x86-64 only

}  // namespace switchyard
