// What Q4_K and Q5_K share: 256 columns in 8 groups of 32, each with a scale and a minimum of 6 bits.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace switchyard::blocks {

struct KScales {
  static constexpr int64_t kGroups = 8;
  // Bytes 0 to 3: scales of groups 0 to 3 in the lower 6 bits. Bytes 4 to 7: their minimums. Bytes 8 to 11:
  // of groups 4 to 7 the lower 4 bits of the scale and, in the upper half, of the minimum; their upper 2 bits
  // are the upper 2 bits of bytes 0 to 3 and 4 to 7.
  uint8_t bytes[12];

  float scale(int64_t group) const {
    if (group < 4) return static_cast<float>(bytes[group] & 0x3F);
    return static_cast<float>((bytes[group + 4] & 0x0F) | (bytes[group - 4] >> 6) << 4);
  }
  float minimum(int64_t group) const {
    if (group < 4) return static_cast<float>(bytes[group + 4] & 0x3F);
    return static_cast<float>((bytes[group + 4] >> 4) | (bytes[group] >> 6) << 4);
  }
};

// A block's 256 values, with `scale` and `minimum` binary16:
//   out[i] = scale * scales.scale(g) * code[i] - minimum * scales.minimum(g),   g = i / 32
// `codes`: the lower 4 bits of each code, 32 bytes for two groups, the even one in the lower halves.
// `high(g, i)`: what stands above them in column i of group g.
template <typename High>
void decode_k_groups(uint16_t scale, uint16_t minimum, const KScales& scales, const uint8_t* codes, High high,
                     float* out) {
  for (int64_t g = 0; g < KScales::kGroups; ++g) {
    const float d = f16_to_f32(scale) * scales.scale(g);
    const float m = f16_to_f32(minimum) * scales.minimum(g);
    const uint8_t* bytes = codes + g / 2 * 32;
    for (int64_t i = 0; i < 32; ++i) {
      const int low = g % 2 == 0 ? bytes[i] & 0x0F : bytes[i] >> 4;
      out[g * 32 + i] = d * static_cast<float>(low | high(g, i) << 4) - m;
    }
  }
}

}  // namespace switchyard::blocks
