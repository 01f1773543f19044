// Q4_K: 256 codes of 4 bits in 8 groups of 32, whose scales and minimums are themselves codes.
//   value[i] = scale * scales.scale(g) * code[i] - minimum * scales.minimum(g),   g = i / 32
#pragma once

#include <cstdint>

#include "tensor/blocks/k_scales.h"

namespace switchyard::blocks {

struct Q4K {
  static constexpr int64_t kCols = 256;
  uint16_t scale;    // binary16, of the scales
  uint16_t minimum;  // binary16, of the minimums
  KScales scales;
  uint8_t codes[kCols / 2];  // 32 bytes for two groups: the even one in the lower halves

  void decode(float* out) const {
    decode_k_groups(
        scale, minimum, scales, codes, [](int64_t, int64_t) { return 0; }, out);
  }
};
static_assert(sizeof(Q4K) == 144);

}  // namespace switchyard::blocks
