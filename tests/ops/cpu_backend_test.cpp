#include "backend/cpu/cpu_backend.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "base/cpus.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

TEST(CpuBackend, DescribesItself) {
  EXPECT_EQ(CpuBackend({.threads = 1, .isa = Isa::kGeneric}).description(), "cpu (generic, 1 thread)");
  EXPECT_EQ(CpuBackend({.threads = 3, .isa = Isa::kGeneric}).description(), "cpu (generic, 3 threads)");
}

TEST(CpuBackend, DefaultsAreTheWholeMachine) {
  const CpuBackend backend;
  EXPECT_EQ(backend.isa(), isas_of_machine().back());
  EXPECT_NE(backend.description().find(std::to_string(usable_cpus()) + " thread"), std::string::npos);
}

TEST(CpuBackend, RefusesWhatTheMachineLacks) {
  expect_error([] { CpuBackend({.threads = -1, .isa = {}}); }, "threads: expected 0 to 1024, got -1");
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (machine_has(isa)) continue;
    expect_error([isa] { CpuBackend({.threads = 1, .isa = isa}); }, std::string(name(isa)));
  }
}

class KernelTest : public ::testing::TestWithParam<Isa> {
 protected:
  float exponential(float x) {
    float out = 0;
    kernels_.exponentials(&x, 1, &out);
    return out;
  }

  const Kernels& kernels_ = kernels_of(GetParam());
};

TEST_P(KernelTest, ExpIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (double x = -103.9; x < 88.7; x += 0.000731) {
    const auto argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    const double unit = std::max(std::ldexp(1.0, std::ilogb(exact) - 23), 0x1p-149);
    worst = std::max(worst, std::abs(exponential(argument) - exact) / unit);
  }
  RecordProperty("worst_units", std::to_string(worst));
  EXPECT_LE(worst, 2.0);
}

TEST_P(KernelTest, ExpAtItsLimits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_EQ(exponential(-0.0f), 1.0f);
  EXPECT_EQ(exponential(88.73f), kInf);
  EXPECT_EQ(exponential(1e30f), kInf);
  EXPECT_EQ(exponential(kInf), kInf);
  EXPECT_EQ(exponential(-104.1f), 0.0f);
  EXPECT_EQ(exponential(-kInf), 0.0f);
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_P(KernelTest, ExpHasTheSameBitsInEveryLane) {
  std::vector<float> x(67, -1.7f);
  std::vector<float> out(x.size());
  kernels_.exponentials(x.data(), static_cast<int64_t>(x.size()), out.data());
  for (const float value : out)
    EXPECT_EQ(value, out[0]);
}

// Every half-precision value, through the only kernel that reads nothing else.
TEST_P(KernelTest, SixteenBitWeightsAreReadExactly) {
  constexpr int64_t kValues = 1 << 16;
  std::vector<uint16_t> bits(kValues);
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = static_cast<uint16_t>(i);
  const int32_t id = 0;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<float> got(kValues);
    std::vector<float> want(kValues);
    kernels_.embedding({{bits.data(), dtype, 1, kValues}, &id, 1, got.data()}, 0, 1);
    convert_to_f32(dtype, bits.data(), kValues, want.data());
    for (size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(want[i])) {
        ASSERT_TRUE(std::isnan(got[i])) << name(dtype) << " " << i;
      } else {
        ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0) << name(dtype) << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, KernelTest, ::testing::ValuesIn(isas_of_machine()),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace switchyard
