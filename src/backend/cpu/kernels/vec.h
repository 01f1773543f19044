// What every vec_*.h shares, and the list of what it defines:
//
//   Vec                       kLanes float32 lanes; kAccumulators and kOuterRows x kOuterVecs, the sums that
//                             fit into the registers next to the operands; kDotTokens, at least 4, the tokens
//                             of the tallest tile in dot.h; kPanelTokens, the same in panel_dot.h
//   Vec::load, store          kLanes elements of float, Bf16 or F16, aligned to the element at most
//   Vec::load_first(p, n)     the first n < kLanes elements, zero in the lanes after them; reads nothing else
//   a.store_first(p, n)       writes n elements and nothing else
//   keep_first(a, n, other)   lanes n and up from `other`
//   fma(a, b, c)              a * b + c
//   min(a, b), max(a, b)      b where a comparison fails, so that min(limit, NaN) is NaN
//   swap_neighbours(a)        lanes 1, 0, 3, 2, ...
//   scale_by_power_of_two(a, n)  a * 2^n for whole n in [-252, 254], rounded once
//   sum, largest              over the lanes, always in the same order
//
// Files in this folder are compiled once for each instruction set. Everything in them stands in an unnamed
// namespace, and they call no inline function or template of any other header: the linker could otherwise
// keep the copy compiled for AVX-512 and hand it to code that must run anywhere.
#pragma once

#include <cstdint>

namespace switchyard {
namespace {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

inline float float_of_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// 2^n for n in [-126, 127].
inline float power_of_two(int n) {
  return float_of_bits(static_cast<uint32_t>(n + 127) << 23);
}

inline float to_f32(float value) {
  return value;
}
inline float to_f32(Bf16 value) {
  return float_of_bits(static_cast<uint32_t>(value.bits) << 16);
}
// Exponent and fraction moved into place are the value times 2^-112; infinity and NaN need their exponent
// filled up.
inline float to_f32(F16 value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t rest = (value.bits & 0x7FFFu) << 13;
  if (rest >= 0x7C00u << 13) return float_of_bits(sign | 0x7F800000u | rest);
  const float magnitude = float_of_bits(rest) * 0x1p112f;
  uint32_t bits;
  __builtin_memcpy(&bits, &magnitude, sizeof bits);
  return float_of_bits(sign | bits);
}

constexpr int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
constexpr int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

}  // namespace
}  // namespace switchyard
