// The tensors <name>.<leaf> that make up one matrix of a checkpoint.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "io/quantization_config.h"
#include "tensor/tensor.h"

namespace switchyard {

class MatrixTensors {
 public:
  // Of the matrix <name>.weight [rows, cols].
  MatrixTensors(const Checkpoint& checkpoint, std::string name, int64_t rows, int64_t cols)
      : checkpoint_(checkpoint), name_(std::move(name)), rows_(rows), cols_(cols) {}

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  bool has(std::string_view leaf) const { return checkpoint_.find(full_name(leaf)) != nullptr; }
  bool has(std::string_view leaf, DType dtype) const;
  // Throws Error when there is none.
  const std::vector<int64_t>& shape(std::string_view leaf) const;

  // A tensor of this shape and of one of these types. Throws Error for any other, and when there is none.
  // In place: its elements are read from the mapped file. To copy: until release_copied().
  Tensor in_place(std::string_view leaf, std::initializer_list<DType> dtypes, const Shape& shape);
  Checkpoint::View to_copy(std::string_view leaf, std::initializer_list<DType> dtypes, const Shape& shape);
  // Lets the pages of the tensors that were copied leave memory.
  void release_copied();

  // The one scheme that the shapes fit, with 0 in its groups replaced by what it stands for. Throws Error
  // when none of the config's fits, and when several do that mean different things.
  PackedScheme scheme(const QuantizationConfig& config,
                      const std::function<bool(const PackedScheme&)>& fits) const;

  [[noreturn]] void refuse(std::string_view leaf, const std::string& expected, const std::string& got) const;
  // Full names of the tensors that were asked for and are there.
  const std::vector<std::string>& used() const { return used_; }

 private:
  std::string full_name(std::string_view leaf) const { return name_ + "." + std::string(leaf); }
  std::string shapes() const;

  const Checkpoint& checkpoint_;
  std::string name_;
  int64_t rows_;
  int64_t cols_;
  std::vector<std::string> used_;
  std::vector<std::string> copied_;
};

inline constexpr std::initializer_list<DType> kScaleTypes = {DType::kF16, DType::kBF16, DType::kF32};

}  // namespace switchyard
