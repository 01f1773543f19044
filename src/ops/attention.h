// Rotary positions and grouped-query causal attention over the paged cache.
#pragma once

#include "ops/batch.h"
#include "ops/context.h"
#include "ops/ops.h"

namespace switchyard {

// Frequencies of rotary position embedding (Su et al. 2021) for the rows of a step.
struct Rope {
  Tensor inverse_frequencies;     // [sets, A/2]
  Tensor set_of_row;              // [T] int32; absent: set 0 for all rows
  float attention_factor = 1.0f;  // cos and sin are multiplied by it
  bool interleaved = false;       // pairs (2i, 2i + 1), else (i, i + A/2)
};

struct AttentionShape {
  int64_t heads;      // H
  int64_t kv_heads;   // G; H is a multiple of G
  int64_t head_dim;   // A, of queries and keys
  int64_t value_dim;  // B, of values
  float scale;        // of the scores, usually 1 / sqrt(A)
  int64_t window;     // a token sees this many positions including its own; 0: all
};

// [T, heads * A] -> the same, rotated by each row's position.
Tensor rope(Context& c, const Tensor& x, const Tensor& positions, const Rope& rope, int64_t heads);

// Writes k [T, G * A] and v [T, G * B] to the layer's cache, then attends with q [T, H * A] -> [T, H * B].
// v absent: a value is the first B elements of its key, and the cache keeps keys only.
//
// With a tape, gradients reach only the tokens of the step: every sequence of the batch must start at
// position 0 and stand in contiguous rows, and the cache is neither read nor written.
Tensor attention(Context& c, const Tensor& q, const Tensor& k, const Tensor& v, const Batch& batch, int layer,
                 const AttentionShape& shape);

// Which rows of a weight belong to a head: rows [first, first + count) of each `stride`.
struct HeadRows {
  int64_t heads;
  int64_t stride;
  int64_t first;
  int64_t count;
};

// x [T, H * K] times each head's rows W_h [count, K] of the weight: x_h W_h^T -> [T, H * count], and x_h W_h
// for x [T, H * count] -> [T, H * K]. For inference: there is no backward.
Tensor head_linear(Context& c, const Tensor& x, const Linear& w, const HeadRows& rows);
Tensor head_linear_transposed(Context& c, const Tensor& x, const Linear& w, const HeadRows& rows);

}  // namespace switchyard
