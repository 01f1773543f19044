// Shapes, and the glossary of dimensions that code, comments, checks and docs share:
//
//   T tokens in the step     S cached positions     D hidden size          H query heads
//   G key/value heads        A head dimension       E experts              K experts per token
//   F expert width           V vocabulary           L layers               R LoRA rank
//   P = T*K assignments of tokens to experts in the step
//
// Every tensor declaration ends with its shape in these letters.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace switchyard {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t elements() const;  // 1 for a scalar; shapes of real tensors never overflow (readers check)
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape& other) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 3]"

// A symbolic dimension inside one op: bound by its first use, checked by every later one.
struct Dim {
  const char* name;
  int64_t value = -1;
};

class Tensor;

// Binds or checks each dimension of `tensor`. A mismatch is a mistake of the program: aborts with op, tensor,
// dimension and both values.
void check_shape(const char* op, const char* what, const Tensor& tensor, std::initializer_list<Dim*> dims);

}  // namespace switchyard
