// Q8_0: 32 signed codes with one scale.
//   value[i] = scale * code[i]
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace switchyard::blocks {

struct Q8_0 {
  static constexpr int64_t kCols = 32;
  uint16_t scale;  // binary16
  int8_t codes[kCols];

  void decode(float* out) const {
    const float d = f16_to_f32(scale);
    for (int64_t i = 0; i < kCols; ++i)
      out[i] = d * static_cast<float>(codes[i]);
  }
};
static_assert(sizeof(Q8_0) == 34);

}  // namespace switchyard::blocks
