// Q6_K: 256 codes of 6 bits around 32 in 16 groups of 16, whose scales are signed codes.
//   value[i] = scale * scales[i / 16] * (code[i] - 32)
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace switchyard::blocks {

struct Q6K {
  static constexpr int64_t kCols = 256;
  uint8_t low[kCols / 2];   // the lower 4 bits; see decode
  uint8_t high[kCols / 4];  // the upper 2 bits
  int8_t scales[kCols / 16];
  uint16_t scale;  // binary16, of the scales

  // Each half of 128 columns is four runs of 32. Runs 0 and 1 have the lower halves of its 64 bytes of `low`,
  // runs 2 and 3 the upper ones; run r has bits 2r and 2r + 1 of its 32 bytes of `high`.
  void decode(float* out) const {
    for (int64_t run = 0; run < 8; ++run) {
      const int64_t half = run / 4;
      const int64_t r = run % 4;
      const uint8_t* low_bytes = low + half * 64 + r % 2 * 32;
      const uint8_t* high_bytes = high + half * 32;
      for (int64_t i = 0; i < 32; ++i) {
        const int64_t col = run * 32 + i;
        const int code = (low_bytes[i] >> (r / 2 * 4) & 0x0F) | (high_bytes[i] >> (2 * r) & 3) << 4;
        const int8_t group_scale = scales[col / 16];
        out[col] = f16_to_f32(scale) * static_cast<float>(group_scale) * static_cast<float>(code - 32);
      }
    }
  }
};
static_assert(sizeof(Q6K) == 210);

}  // namespace switchyard::blocks
