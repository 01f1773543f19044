#include "ops/device.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr int64_t kSentinelBytes = 128;  // more than one vector on each side
constexpr std::byte kSentinel{0xFF};

}  // namespace

Device::~Device() {
  for (const Buffer& buffer : buffers_)
    backend_.memory().release(buffer.memory, buffer.total_bytes);
}

void* Device::place(const void* host, int64_t bytes, int64_t element_bytes) {
  // One element beyond an aligned address.
  const int64_t begin = kSentinelBytes + element_bytes;
  const int64_t total = begin + bytes + kSentinelBytes;
  std::vector<std::byte> image(static_cast<size_t>(total), kSentinel);
  std::copy_n(static_cast<const std::byte*>(host), bytes, image.begin() + begin);
  std::byte* memory = backend_.memory().allocate(total);
  backend_.copy_from_host(memory, image.data(), total);
  buffers_.push_back({memory, begin, bytes, total});
  return memory + begin;
}

float* Device::floats(const std::vector<float>& values) {
  return static_cast<float*>(place(values.data(), static_cast<int64_t>(values.size() * sizeof(float)), 4));
}

int32_t* Device::ints(const std::vector<int32_t>& values) {
  return static_cast<int32_t*>(
      place(values.data(), static_cast<int64_t>(values.size() * sizeof(int32_t)), 4));
}

uint8_t* Device::bytes(const std::vector<uint8_t>& values) {
  return static_cast<uint8_t*>(place(values.data(), static_cast<int64_t>(values.size()), 1));
}

uint8_t* Device::blocks(const std::vector<uint8_t>& values) {
  return static_cast<uint8_t*>(place(values.data(), static_cast<int64_t>(values.size()), 2));
}

void* Device::weights(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::kF32) return floats(values);
  SY_CHECK(dtype == DType::kF16 || dtype == DType::kBF16, "a weight of {}", name(dtype));
  std::vector<uint16_t> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(),
                 dtype == DType::kF16 ? f32_to_f16 : f32_to_bf16);
  return place(rounded.data(), static_cast<int64_t>(rounded.size() * sizeof(uint16_t)), 2);
}

Matrix Device::matrix(const std::vector<float>& values, int64_t rows, int64_t cols, DType dtype) {
  SY_CHECK(static_cast<int64_t>(values.size()) == rows * cols, "{} values for {} x {}", values.size(), rows,
           cols);
  return {weights(values, dtype), dtype, rows, cols};
}

float* Device::float_output(int64_t count) {
  return floats(std::vector<float>(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN()));
}

int32_t* Device::int_output(int64_t count) {
  return ints(std::vector<int32_t>(static_cast<size_t>(count), -1));
}

std::vector<float> Device::read(const float* data, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  backend_.copy_to_host(values.data(), data, count * static_cast<int64_t>(sizeof(float)));
  return values;
}

std::vector<float> Device::read(const int32_t* data, int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  backend_.copy_to_host(values.data(), data, count * static_cast<int64_t>(sizeof(int32_t)));
  return {values.begin(), values.end()};
}

void Device::check_sentinels() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = buffers_[i];
    std::vector<std::byte> image(static_cast<size_t>(buffer.total_bytes));
    backend_.copy_to_host(image.data(), buffer.memory, buffer.total_bytes);
    const auto intact = [](std::byte b) { return b == kSentinel; };
    const auto begin = image.begin() + buffer.begin_bytes;
    EXPECT_TRUE(std::all_of(image.begin(), begin, intact)) << "bytes before buffer " << i << " changed";
    EXPECT_TRUE(std::all_of(begin + buffer.bytes, image.end(), intact))
        << "bytes after buffer " << i << " of " << buffer.bytes << " bytes changed";
  }
}

std::vector<float> uniform(uint32_t seed, int64_t count, float low, float high) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = low + (high - low) * static_cast<float>(generator() >> 8) * 0x1p-24f;
  return values;
}

}  // namespace switchyard
