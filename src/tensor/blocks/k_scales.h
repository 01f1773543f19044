// What Q4_K and Q5_K share: 256 columns in 8 groups of 32, each with a scale and a minimum of 6 bits.
#pragma once

#include <cstdint>

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

}  // namespace switchyard::blocks
