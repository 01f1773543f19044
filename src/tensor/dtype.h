// Element types as checkpoints store them, and their exact conversion to float32.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace switchyard {

enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

int64_t size_bytes(DType dtype);     // of one element
std::string_view name(DType dtype);  // as safetensors spells it: "BF16", "F8_E4M3", ...
std::optional<DType> dtype_from_name(std::string_view safetensors_name);
bool is_floating_point(DType dtype);

// float32 <- bfloat16: the upper half of the bits. Exact.
inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// bfloat16 <- float32, round to nearest even; NaN stays NaN.
inline uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);     // IEEE binary16, subnormals included. Exact.
uint16_t f32_to_f16(float value);    // round to nearest even, overflow to infinity
float f8_e4m3_to_f32(uint8_t bits);  // E4M3FN: no infinity, 0x7F and 0xFF are NaN, largest 448
float f8_e5m2_to_f32(uint8_t bits);  // the upper half of a binary16

// out[i] = float32 of element i at `data`. Throws nothing; integer types convert by value, F64 by rounding.
void convert_to_f32(DType dtype, const void* data, int64_t count, float* out);

}  // namespace switchyard
