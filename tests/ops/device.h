// Memory of the backend under test, laid out to catch mistakes: every buffer lies between sentinels and is
// aligned to its element only. The sentinels are NaN in every float format, so a read beyond an input shows
// in the result; a write beyond an output shows when the sentinels are checked.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace switchyard {

class Device {
 public:
  explicit Device(Backend& backend) : backend_(backend) {}
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Backend& backend() { return backend_; }

  // A buffer with these elements.
  float* floats(const std::vector<float>& values);
  int32_t* ints(const std::vector<int32_t>& values);
  uint8_t* bytes(const std::vector<uint8_t>& values);
  uint8_t* blocks(const std::vector<uint8_t>& values);  // aligned to the 16-bit scales among them
  // `values` rounded to `dtype`.
  void* weights(const std::vector<float>& values, DType dtype);
  Matrix matrix(const std::vector<float>& values, int64_t rows, int64_t cols, DType dtype);
  // Buffers that an op must fill: NaN, and an id that nothing has.
  float* float_output(int64_t count);
  int32_t* int_output(int64_t count);

  std::vector<float> read(const float* data, int64_t count);
  std::vector<float> read(const int32_t* data, int64_t count);

  // Fails the running test when a byte next to a buffer has changed.
  void check_sentinels();

 private:
  struct Buffer {
    std::byte* memory;
    int64_t begin_bytes;
    int64_t bytes;
    int64_t total_bytes;
  };
  void* place(const void* host, int64_t bytes, int64_t element_bytes);

  Backend& backend_;
  std::vector<Buffer> buffers_;
};

// `count` numbers in [low, high), the same for the same seed.
std::vector<float> uniform(uint32_t seed, int64_t count, float low = -1, float high = 1);

// Rows [begin, end) of values that have `width` per row.
template <typename T>
std::vector<T> row_slice(const std::vector<T>& values, int64_t begin, int64_t end, int64_t width) {
  return {values.begin() + begin * width, values.begin() + end * width};
}

}  // namespace switchyard
