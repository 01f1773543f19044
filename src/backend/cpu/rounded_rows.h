// Activations rounded to 8 bits, as the products with low-bit weights take them: each 32 columns of a row
// have a scale of their own,
//   scale = max |x| / 127,  code = the whole number nearest to x * (127 / max |x|), ties to even,
// so that what a row is rounded to depends on that row alone. A group whose largest value is below 2^-100
// gets codes of 0; one with a value that is not finite gets a scale of NaN.
#pragma once

#include <cstdint>

namespace switchyard {

inline constexpr int64_t kRoundedGroup = 32;

constexpr int64_t rounded_groups(int64_t cols) {
  return (cols + kRoundedGroup - 1) / kRoundedGroup;
}

// Rows of `groups` groups each; the last group is filled with zeros.
struct RoundedRows {
  int8_t* codes;  // [rows, 32 * groups]
  float* scales;  // [rows, groups]
  int32_t* sums;  // [rows, groups]: of the codes
  int64_t groups;

  RoundedRows from(int64_t row) const {
    return {codes + row * groups * kRoundedGroup, scales + row * groups, sums + row * groups, groups};
  }
};

}  // namespace switchyard
