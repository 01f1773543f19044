// Rotary positions and grouped-query causal attention over the paged cache.
#pragma once

#include "ops/batch.h"
#include "ops/context.h"

namespace switchyard {

// Frequencies of rotary position embedding (Su et al. 2021) for the rows of a step.
struct Rope {
  Tensor inverse_frequencies;     // [sets, A/2]
  Tensor set_of_row;              // [T] int32; absent: set 0 for all rows
  float attention_factor = 1.0f;  // cos and sin are multiplied by it
  bool interleaved = false;       // pairs (2i, 2i + 1), else (i, i + A/2)
};

struct AttentionShape {
  int64_t heads;     // H
  int64_t kv_heads;  // G; H is a multiple of G
  int64_t head_dim;  // A
  float scale;       // of the scores, usually 1 / sqrt(A)
  int64_t window;    // a token sees this many positions including its own; 0: all
};

// [T, heads * A] -> the same, rotated by each row's position.
Tensor rope(Context& c, const Tensor& x, const Tensor& positions, const Rope& rope, int64_t heads);

// Writes k and v [T, G * A] to the layer's cache, then attends with q [T, H * A] -> [T, H * A]. With a tape,
// every sequence of the batch must start at position 0 and stand in contiguous rows, since gradients reach
// only the tokens of the step.
Tensor attention(Context& c, const Tensor& q, const Tensor& k, const Tensor& v, const Batch& batch, int layer,
                 const AttentionShape& shape);

}  // namespace switchyard
