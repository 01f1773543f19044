// Q4_0: 32 codes of 4 bits around 8, with one scale. The lower halves of the bytes hold columns 0 to 15, the
// upper halves columns 16 to 31.
//   value[i] = scale * (code[i] - 8)
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace switchyard::blocks {

struct Q4_0 {
  static constexpr int64_t kCols = 32;
  uint16_t scale;  // binary16
  uint8_t codes[kCols / 2];

  void decode(float* out) const {
    const float d = f16_to_f32(scale);
    for (int64_t i = 0; i < kCols / 2; ++i) {
      out[i] = d * static_cast<float>((codes[i] & 0x0F) - 8);
      out[i + kCols / 2] = d * static_cast<float>((codes[i] >> 4) - 8);
    }
  }
};
static_assert(sizeof(Q4_0) == 18);

}  // namespace switchyard::blocks
