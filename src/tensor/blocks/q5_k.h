// Q5_K: as Q4_K with a fifth, highest bit for each code, kept apart.
//   value[i] = scale * scales.scale(g) * code[i] - minimum * scales.minimum(g),   g = i / 32
#pragma once

#include <cstdint>

#include "tensor/blocks/k_scales.h"

namespace switchyard::blocks {

struct Q5K {
  static constexpr int64_t kCols = 256;
  uint16_t scale;    // binary16, of the scales
  uint16_t minimum;  // binary16, of the minimums
  KScales scales;
  uint8_t high[32];          // bit g of byte i: the highest bit of column i of group g
  uint8_t codes[kCols / 2];  // 32 bytes for two groups: the even one in the lower halves

  void decode(float* out) const {
    decode_k_groups(
        scale, minimum, scales, codes, [this](int64_t g, int64_t i) { return high[i] >> g & 1; }, out);
  }
};
static_assert(sizeof(Q5K) == 176);

}  // namespace switchyard::blocks
