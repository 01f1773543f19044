// Arithmetic on sizes and offsets from untrusted bytes: the result, or nothing when it does not fit int64_t.
#pragma once

#include <cstdint>
#include <optional>

namespace switchyard {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace switchyard
