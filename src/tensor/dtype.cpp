#include "tensor/dtype.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace switchyard {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<Row, 15> kRows = {{{DType::kF64, "F64", 8},
                                        {DType::kF32, "F32", 4},
                                        {DType::kF16, "F16", 2},
                                        {DType::kBF16, "BF16", 2},
                                        {DType::kF8E4M3, "F8_E4M3", 1},
                                        {DType::kF8E5M2, "F8_E5M2", 1},
                                        {DType::kI64, "I64", 8},
                                        {DType::kI32, "I32", 4},
                                        {DType::kI16, "I16", 2},
                                        {DType::kI8, "I8", 1},
                                        {DType::kU64, "U64", 8},
                                        {DType::kU32, "U32", 4},
                                        {DType::kU16, "U16", 2},
                                        {DType::kU8, "U8", 1},
                                        {DType::kBool, "BOOL", 1}}};

const Row& row(DType dtype) {
  return kRows[static_cast<size_t>(dtype)];
}

// The bytes of a mapped file have no alignment, so elements are copied out rather than cast.
template <typename T, typename Convert>
void convert_each(const void* data, int64_t count, float* out, Convert convert) {
  const auto* bytes = static_cast<const char*>(data);
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out[i] = static_cast<float>(convert(element));
  }
}

}  // namespace

int64_t size_bytes(DType dtype) {
  return row(dtype).bytes;
}
std::string_view name(DType dtype) {
  return row(dtype).name;
}

bool is_floating_point(DType dtype) {
  return name(dtype).front() == 'F' || dtype == DType::kBF16;
}

std::optional<DType> dtype_from_name(std::string_view safetensors_name) {
  for (const Row& r : kRows) {
    if (r.name == safetensors_name) return r.dtype;
  }
  return std::nullopt;
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x1p-14f) {  // subnormal: units of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const uint32_t rounded = (bits & 0x7FFFFFFFu) + 0xFFFu + ((bits >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

float f8_e4m3_to_f32(uint8_t bits) {
  const int exponent = (bits >> 3) & 0xF;
  const int mantissa = bits & 0x7;
  if (exponent == 0xF && mantissa == 0x7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

float f8_e5m2_to_f32(uint8_t bits) {
  return f16_to_f32(static_cast<uint16_t>(bits << 8));
}

void convert_to_f32(DType dtype, const void* data, int64_t count, float* out) {
  const auto same = [](auto v) { return v; };
  switch (dtype) {
    case DType::kF64:
      return convert_each<double>(data, count, out, same);
    case DType::kF32:
      return convert_each<float>(data, count, out, same);
    case DType::kF16:
      return convert_each<uint16_t>(data, count, out, f16_to_f32);
    case DType::kBF16:
      return convert_each<uint16_t>(data, count, out, bf16_to_f32);
    case DType::kF8E4M3:
      return convert_each<uint8_t>(data, count, out, f8_e4m3_to_f32);
    case DType::kF8E5M2:
      return convert_each<uint8_t>(data, count, out, f8_e5m2_to_f32);
    case DType::kI64:
      return convert_each<int64_t>(data, count, out, same);
    case DType::kI32:
      return convert_each<int32_t>(data, count, out, same);
    case DType::kI16:
      return convert_each<int16_t>(data, count, out, same);
    case DType::kI8:
      return convert_each<int8_t>(data, count, out, same);
    case DType::kU64:
      return convert_each<uint64_t>(data, count, out, same);
    case DType::kU32:
      return convert_each<uint32_t>(data, count, out, same);
    case DType::kU16:
      return convert_each<uint16_t>(data, count, out, same);
    case DType::kU8:
      return convert_each<uint8_t>(data, count, out, same);
    case DType::kBool:
      return convert_each<uint8_t>(data, count, out, [](uint8_t v) { return v != 0; });
  }
}

}  // namespace switchyard
