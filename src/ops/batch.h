// One step's tokens, flattened: rows of any number of sequences, each with its position and its place in the
// paged cache. Prefill, decode, chunked prefill, mixed batches and training sequences are all this one case.
#pragma once

#include <span>

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
