// Experts: products with one weight per expert, and the way there and back.
#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/op_case.h"

namespace switchyard {
namespace {

constexpr DType kWeightTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

enum class Spread { kUneven, kAllToOne };

// The experts of `assignments` assignments: expert 1 of three or more gets none, or expert 0 gets all.
std::vector<int32_t> assigned_experts(int64_t assignments, int64_t experts, Spread spread) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < assignments; ++i) {
    int64_t e = spread == Spread::kAllToOne ? 0 : (i * i + 3 * i) % experts;
    if (e == 1 && experts > 2) e = 2;
    out.push_back(static_cast<int32_t>(e));
  }
  return out;
}

std::vector<int32_t> offsets_of(const std::vector<int32_t>& experts_of_rows, int64_t experts) {
  std::vector<int32_t> offsets(static_cast<size_t>(experts) + 1, 0);
  for (const int32_t e : experts_of_rows)
    ++offsets[static_cast<size_t>(e) + 1];
  for (size_t e = 1; e < offsets.size(); ++e)
    offsets[e] += offsets[e - 1];
  return offsets;
}

struct ExpertShape {
  int64_t rows, experts, out, in;
  Spread spread;
  int64_t spare = 0;  // of the rows, at the end, belong to no expert
};

// NaN in the last `spare` of `rows` rows, which nothing may read.
std::vector<float> with_spare(std::vector<float> values, int64_t rows, int64_t spare) {
  const size_t used =
      values.size() / static_cast<size_t>(std::max<int64_t>(rows, 1)) * static_cast<size_t>(rows - spare);
  std::fill(values.begin() + static_cast<int64_t>(used), values.end(),
            std::numeric_limits<float>::quiet_NaN());
  return values;
}

OpCase expert_linear_case(ExpertShape s, DType dtype) {
  return {
      fmt::format("expert_linear_{}_{}rows_{}experts_{}x{}{}", name(dtype), s.rows, s.experts, s.out, s.in,
                  s.spread == Spread::kAllToOne ? "_all_to_one"
                  : s.spare > 0                 ? "_spare"
                                                : ""),
      s.rows, false, [=](Device& d, Rows) -> std::vector<Output> {
        std::vector<Matrix> weights;
        std::vector<float*> d_weights;
        for (int64_t e = 0; e < s.experts; ++e) {
          const auto seed = static_cast<uint32_t>(100 + e);
          weights.push_back(d.matrix(uniform(seed, s.out * s.in), s.out, s.in, dtype));
          d_weights.push_back(e % 5 == 4 ? nullptr : d.floats(uniform(seed + 1, s.out * s.in)));
        }
        const int32_t* offsets =
            d.ints(offsets_of(assigned_experts(s.rows - s.spare, s.experts, s.spread), s.experts));
        const float* x = d.floats(with_spare(uniform(32, s.rows * s.in), s.rows, s.spare));
        const float* d_out = d.floats(with_spare(uniform(33, s.rows * s.out), s.rows, s.spare));
        float* out = d.float_output(s.rows * s.out);
        float* d_x = d.floats(uniform(34, s.rows * s.in));
        d.backend().expert_linear({x, weights.data(), offsets, s.experts, s.rows, s.out, s.in, out});
        d.backend().expert_linear_backward_input(
            {d_out, weights.data(), offsets, s.experts, s.rows, s.out, s.in, d_x});
        d.backend().expert_linear_backward_weight(
            {d_out, x, offsets, s.experts, s.rows, s.out, s.in, d_weights.data()});
        const std::vector<float> spare = d.read(out + (s.rows - s.spare) * s.out, s.spare * s.out);
        EXPECT_EQ(spare, std::vector<float>(spare.size(), 0.0f));
        std::vector<Output> outputs{{"out", d.read(out, s.rows * s.out), sum_tolerance(s.in)},
                                    {"d_x", d.read(d_x, s.rows * s.in), sum_tolerance(s.out)}};
        for (const float* d_weight : d_weights) {
          if (d_weight == nullptr) continue;
          outputs.push_back({"d_weight", d.read(d_weight, s.out * s.in), sum_tolerance(s.rows)});
        }
        return outputs;
      }};
}

// A row has the same bits whichever rows share its expert, and the bits of a linear with the expert's weight.
OpCase expert_batch_case(int64_t rows, DType dtype) {
  constexpr int64_t kIn = 67;
  constexpr int64_t kOut = 45;
  return {fmt::format("expert_linear_batch_{}_{}", name(dtype), rows), rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const Matrix weight = d.matrix(uniform(35, kOut * kIn), kOut, kIn, dtype);
            const std::vector<Matrix> weights{weight, weight};
            const auto count = static_cast<int32_t>(r.count());
            const float* x = d.floats(row_slice(uniform(36, rows * kIn), r.begin, r.end, kIn));
            float* out = d.float_output(count * kOut);
            float* again = d.float_output(count * kOut);
            d.backend().expert_linear(
                {x, weights.data(), d.ints({0, count / 2, count}), 2, count, kOut, kIn, out});
            d.backend().linear({x, weight, nullptr, DType::kF32, count, again});
            EXPECT_EQ(d.read(out, count * kOut), d.read(again, count * kOut));
            return {{"out", d.read(out, count * kOut), sum_tolerance(kIn)}};
          }};
}

OpCase combine_case(int64_t rows, int64_t top_k, int64_t cols, bool weighted, bool accumulate,
                    bool absent = false) {
  return {
      fmt::format("combine_{}x{}_top{}{}{}{}", rows, cols, top_k, weighted ? "_weighted" : "",
                  accumulate ? "_accumulate" : "", absent ? "_absent" : ""),
      rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
        // Sorted rows in reverse: row_of_slot is a permutation of them.
        std::vector<int32_t> row_of_slot;
        for (int64_t slot = 0; slot < rows * top_k; ++slot)
          row_of_slot.push_back(absent && slot % 3 == 1 ? -1 : static_cast<int32_t>(rows * top_k - 1 - slot));
        float* out = accumulate ? d.floats(row_slice(uniform(37, rows * cols), r.begin, r.end, cols))
                                : d.float_output(r.count() * cols);
        const float* weights =
            weighted ? d.floats(row_slice(uniform(38, rows * top_k), r.begin, r.end, top_k)) : nullptr;
        d.backend().combine({d.floats(uniform(39, rows * top_k * cols)), weights,
                             d.ints(row_slice(row_of_slot, r.begin, r.end, top_k)), r.count(), top_k, cols,
                             accumulate, out});
        return {{"out", d.read(out, r.count() * cols), sum_tolerance(top_k)}};
      }};
}

OpCase dispatch_plan_case(int64_t rows, int64_t experts, int64_t top_k, Spread spread, bool absent = false) {
  return {
      fmt::format("dispatch_plan_{}rows_{}experts_top{}{}{}", rows, experts, top_k,
                  spread == Spread::kAllToOne ? "_all_to_one" : "", absent ? "_absent" : ""),
      rows, false, [=](Device& d, Rows) -> std::vector<Output> {
        int32_t* offsets = d.int_output(experts + 1);
        int32_t* token_of_row = d.int_output(rows * top_k);
        int32_t* row_of_slot = d.int_output(rows * top_k);
        std::vector<int32_t> ids = assigned_experts(rows * top_k, experts, spread);
        for (size_t slot = 0; absent && slot < ids.size(); slot += 1 + slot % 2)
          ids[slot] = -1;
        d.backend().dispatch_plan({d.ints(ids), rows, experts, top_k, offsets, token_of_row, row_of_slot});
        return {{"offsets", d.read(offsets, experts + 1), 0},
                {"token_of_row", d.read(token_of_row, rows * top_k), 0},
                {"row_of_slot", d.read(row_of_slot, rows * top_k), 0}};
      }};
}

}  // namespace

std::vector<OpCase> expert_cases() {
  std::vector<OpCase> cases;
  for (const Spread spread : {Spread::kUneven, Spread::kAllToOne}) {
    for (const int64_t rows : {0, 1, 5, 64}) {
      cases.push_back(dispatch_plan_case(rows, 1, 1, spread));
      cases.push_back(dispatch_plan_case(rows, 60, 4, spread));
      cases.push_back(dispatch_plan_case(rows, 65, 8, spread));
      cases.push_back(dispatch_plan_case(rows, 60, 4, spread, true));
    }
  }
  for (const DType dtype : kWeightTypes) {
    for (const Spread spread : {Spread::kUneven, Spread::kAllToOne}) {
      for (const int64_t rows : {0, 1, 5, 33}) {
        cases.push_back(expert_linear_case({rows, 1, 7, 20, spread}, dtype));
        cases.push_back(expert_linear_case({rows, 60, 20, 36, spread}, dtype));
        cases.push_back(expert_linear_case({rows, 65, 13, 31, spread}, dtype));
      }
    }
    // Enough work for several threads, and more than one block of rows.
    cases.push_back(expert_linear_case({130, 3, 100, 257, Spread::kAllToOne}, dtype));
    cases.push_back(expert_linear_case({130, 4, 100, 257, Spread::kUneven}, dtype));
    cases.push_back(expert_linear_case({33, 60, 20, 36, Spread::kUneven, 7}, dtype));
    cases.push_back(expert_linear_case({5, 4, 20, 36, Spread::kUneven, 5}, dtype));
    for (const int64_t rows : {1, 2, 13, 64})
      cases.push_back(expert_batch_case(rows, dtype));
  }
  for (const int64_t rows : {0, 1, 3, 33}) {
    for (const int64_t cols : {1, 31, 64, 257}) {
      cases.push_back(combine_case(rows, 1, cols, true, false));
      cases.push_back(combine_case(rows, 4, cols, true, true));
      cases.push_back(combine_case(rows, 4, cols, false, false));
      cases.push_back(combine_case(rows, 4, cols, true, false, true));
    }
  }
  cases.push_back(combine_case(65, 8, 2048, true, false));
  return cases;
}

}  // namespace switchyard
