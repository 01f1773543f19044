// Q4_K: 256 codes of 4 bits in 8 groups of 32, whose scales and minimums are themselves codes.
//   value[i] = scale * scales.scale(g) * code[i] - minimum * scales.minimum(g),   g = i / 32
#pragma once

#include <cstdint>

#include "tensor/blocks/k_scales.h"
#include "tensor/dtype.h"

namespace switchyard::blocks {

struct Q4K {
  static constexpr int64_t kCols = 256;
  uint16_t scale;    // binary16, of the scales
  uint16_t minimum;  // binary16, of the minimums
  KScales scales;
  uint8_t codes[kCols / 2];  // 32 bytes for two groups: the even one in the lower halves

  void decode(float* out) const {
    for (int64_t g = 0; g < KScales::kGroups; ++g) {
      const float d = f16_to_f32(scale) * scales.scale(g);
      const float m = f16_to_f32(minimum) * scales.minimum(g);
      const uint8_t* bytes = codes + g / 2 * 32;
      for (int64_t i = 0; i < 32; ++i) {
        const int code = g % 2 == 0 ? bytes[i] & 0x0F : bytes[i] >> 4;
        out[g * 32 + i] = d * static_cast<float>(code) - m;
      }
    }
  }
};
static_assert(sizeof(Q4K) == 144);

}  // namespace switchyard::blocks
