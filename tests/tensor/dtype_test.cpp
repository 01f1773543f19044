#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace switchyard {
namespace {

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("F4"), std::nullopt);
}

// Every finite half is exact in float32, so decode and encode must be inverse for all 65,536 patterns.
TEST(DType, HalfRoundTripsForEveryBitPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    } else {
      ASSERT_EQ(f32_to_f16(value), bits);
    }
    const float wide = bf16_to_f32(static_cast<uint16_t>(bits));
    if (!std::isnan(wide)) {
      ASSERT_EQ(f32_to_bf16(wide), bits);
    }
  }
}

TEST(DType, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // half way, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // half way, even above
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DType, F8FollowsTheOcpFormats) {
  EXPECT_EQ(f8_e4m3_to_f32(0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0x7F)));
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_EQ(f8_e4m3_to_f32(0xB8), -1.0f);
  EXPECT_EQ(f8_e5m2_to_f32(0x7B), 57344.0f);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_f32(0x7C)));
}

TEST(DType, ConvertsUnalignedBytes) {
  unsigned char bytes[1 + 2 * sizeof(int64_t)] = {};
  bytes[1] = 7;
  bytes[9] = 0xFF;
  float out[2];
  convert_to_f32(DType::kI64, bytes + 1, 2, out);
  EXPECT_EQ(out[0], 7.0f);
  EXPECT_EQ(out[1], 255.0f);
}

}  // namespace
}  // namespace switchyard
