// Rounding of activations to 8 bits; see rounded_rows.h.
#pragma once

#include "backend/cpu/kernels/exp.h"

namespace switchyard {
namespace {

inline void round_group(const float* x, int64_t count, int8_t* codes, float* scale, int32_t* sum_of_codes) {
  constexpr int kVecs = kRoundedGroup / Vec::kLanes;
  Vec values[kVecs];
  Vec size = Vec::zero();
  Vec poison = Vec::zero();  // NaN where a value is not finite
  for (int i = 0; i < kVecs; ++i) {
    const int64_t left = count - i * Vec::kLanes;
    values[i] = left >= Vec::kLanes ? Vec::load(x + i * Vec::kLanes)
                : left > 0          ? Vec::load_first(x + i * Vec::kLanes, left)
                                    : Vec::zero();
    size = max(size, max(values[i], Vec::zero() - values[i]));
    poison = fma(values[i], Vec::zero(), poison);
  }
  const float largest_size = largest(size);
  const bool has_codes = largest_size >= 0x1p-100f && sum(poison) == 0;
  const Vec inverse = Vec::broadcast(has_codes ? 127.0f / largest_size : 0.0f);
  Vec total = Vec::zero();
  for (int i = 0; i < kVecs; ++i) {
    const Vec steps = has_codes ? round_to_integer(values[i] * inverse) : Vec::zero();
    total = total + steps;
    store_bytes(steps, codes + i * Vec::kLanes);
  }
  *scale = largest_size / 127.0f + sum(poison);
  *sum_of_codes = static_cast<int32_t>(sum(total));
}

inline void round_rows(const float* x, int64_t cols, const RoundedRows& out, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t g = 0; g < out.groups; ++g) {
      const int64_t at = row * out.groups + g;
      round_group(x + row * cols + g * kRoundedGroup, smaller(kRoundedGroup, cols - g * kRoundedGroup),
                  out.codes + at * kRoundedGroup, out.scales + at, out.sums + at);
    }
  }
}

}  // namespace
}  // namespace switchyard
