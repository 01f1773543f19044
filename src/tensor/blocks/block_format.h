// The block formats of GGUF files: a row is a list of blocks, each with the codes and scales of a fixed
// number of columns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/matrix.h"

namespace switchyard {

struct BlockFormat {
  MatrixFormat format;
  std::string_view name;
  int64_t cols;                                        // of a block; a row has a multiple of them
  int64_t bytes;                                       // of a block
  void (*decode)(const std::byte* block, float* out);  // `cols` values; the block may be unaligned
};

const BlockFormat* find_block_format(MatrixFormat format);  // null: none of them

}  // namespace switchyard
