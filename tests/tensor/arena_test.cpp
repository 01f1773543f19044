#include "tensor/arena.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"
#include "tensor/tensor.h"

namespace switchyard {
namespace {

// Gives so many allocations and then refuses.
class ShortMemory final : public Memory {
 public:
  explicit ShortMemory(int allocations) : left_(allocations) {}

  std::byte* allocate(int64_t bytes) override {
    if (left_-- <= 0) throw Error("memory", "", "more", "none");
    return static_cast<std::byte*>(std::malloc(static_cast<size_t>(bytes)));
  }
  void release(std::byte* data, int64_t) override { std::free(data); }

 private:
  int left_;
};

TEST(Arena, IsUnchangedWhenTheMemoryIsShort) {
  ShortMemory memory(1);
  Arena arena(memory);
  const Tensor first = Tensor::empty(arena, DType::kF32, {100});
  const int64_t in_use = arena.in_use_bytes();
  expect_error([&] { Tensor::empty(arena, DType::kF32, {100}); }, "memory: expected more, got none");
  EXPECT_EQ(arena.in_use_bytes(), in_use);
  EXPECT_EQ(arena.reserved_bytes(), in_use);
}

TEST(Arena, GivesReturnedMemoryAgain) {
  ShortMemory memory(1);
  Arena arena(memory);
  const void* data = Tensor::empty(arena, DType::kF32, {100}).data();
  const Tensor again = Tensor::empty(arena, DType::kF32, {99});  // of the same size class
  EXPECT_EQ(again.data(), data);
}

}  // namespace
}  // namespace switchyard
