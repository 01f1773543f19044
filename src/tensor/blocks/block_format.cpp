#include "tensor/blocks/block_format.h"

#include <cstring>

#include "tensor/blocks/q4_0.h"
#include "tensor/blocks/q4_1.h"
#include "tensor/blocks/q4_k.h"
#include "tensor/blocks/q5_k.h"
#include "tensor/blocks/q6_k.h"
#include "tensor/blocks/q8_0.h"

namespace switchyard {
namespace {

template <typename Block>
constexpr BlockFormat row(MatrixFormat format, std::string_view name) {
  return {format, name, Block::kCols, sizeof(Block), [](const std::byte* bytes, float* out) {
            Block block;
            std::memcpy(&block, bytes, sizeof(block));
            block.decode(out);
          }};
}

constexpr BlockFormat kFormats[] = {
    row<blocks::Q8_0>(MatrixFormat::kQ8_0, "Q8_0"), row<blocks::Q4_0>(MatrixFormat::kQ4_0, "Q4_0"),
    row<blocks::Q4_1>(MatrixFormat::kQ4_1, "Q4_1"), row<blocks::Q4K>(MatrixFormat::kQ4K, "Q4_K"),
    row<blocks::Q5K>(MatrixFormat::kQ5K, "Q5_K"),   row<blocks::Q6K>(MatrixFormat::kQ6K, "Q6_K"),
};

}  // namespace

const BlockFormat* find_block_format(MatrixFormat format) {
  for (const BlockFormat& candidate : kFormats) {
    if (candidate.format == format) return &candidate;
  }
  return nullptr;
}

}  // namespace switchyard
