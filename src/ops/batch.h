// One step's tokens, flattened: rows of any number of sequences, each with its position and its place in the
// paged cache. Prefill, decode, chunked prefill, mixed batches and training sequences are all this one case.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "ops/routing_control.h"
#include "tensor/tensor.h"

namespace switchyard {

struct Batch {
  Tensor tokens;       // [T] int32
  Tensor positions;    // [T] int32
  Tensor sequences;    // [T] int32, index into block_table
  Tensor block_table;  // [sequences, max_blocks] int32
  Tensor logit_rows;   // [M] int32: the rows whose logits are wanted, ascending
  std::span<const KvLayer> kv_layers;
  // [sequences, longest] int32: the step's row of each position, for training, where all positions are rows.
  Tensor own_rows = {};
  // [T], on the host: the length of sequence that each row's rotary frequencies are for, where these depend
  // on it. Rows of a prompt share its length; a row behind it has its position + 1, as when it was the last.
  std::vector<int32_t> rope_lengths = {};
  RoutingControl routing = {};

  int64_t size() const { return tokens.dim(0); }
  const KvLayer& kv(int layer) const { return kv_layers[static_cast<size_t>(layer)]; }
  StepRows rows() const {
    return {.positions = positions.i32(),
            .sequences = sequences.i32(),
            .block_table = block_table.i32(),
            .rows = size(),
            .max_blocks = block_table.dim(1)};
  }
};

}  // namespace switchyard
