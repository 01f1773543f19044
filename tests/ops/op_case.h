// The op table: one row per op, dtype and shape. A row says how to run an op on any backend; the driver
// (op_table_test.cpp) runs it on the reference and on every backend under test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/activations.h"
#include "ops/device.h"

namespace switchyard {

struct Output {
  std::string name;
  std::vector<float> values;
  // Allowed: |got - want| <= tolerance * max(1, |want|); 0 for the same bits.
  double tolerance;
};

struct Rows {
  int64_t begin;
  int64_t end;
  int64_t count() const { return end - begin; }
};

struct OpCase {
  std::string name;
  int64_t rows;
  // Whether a row's outputs depend on that row alone. Then `run` may be asked for any part of the rows, and
  // each output has the same number of values for every row.
  bool rows_independent;
  std::function<std::vector<Output>(Device&, Rows)> run;
  Activations activations = Activations::kFloat32;  // of the backends that it is run on
};

// float32 rounds each of n additions of terms up to 1 in size by 2^-24 of the partial sum, which for terms of
// random sign is near sqrt(n): n * 2^-24 in all. Four times that leaves room for other orders and the final
// rounding, and is far below what one missing or wrong term makes.
inline double sum_tolerance(int64_t terms) {
  return 4.0 * static_cast<double>(terms + 4) * 0x1p-24;
}

// exp and the few operations around it.
inline constexpr double kExpTolerance = 16 * 0x1p-24;

std::vector<OpCase> row_cases();
std::vector<OpCase> linear_cases();
std::vector<OpCase> expert_cases();
std::vector<OpCase> packed_cases();
std::vector<OpCase> rounded_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> routing_cases();

}  // namespace switchyard
