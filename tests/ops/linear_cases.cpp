// Linear layers and their backward passes.
#include <fmt/format.h>

#include "ops/op_case.h"

namespace switchyard {
namespace {

struct Shape3 {
  int64_t rows, out, in;
};

constexpr DType kWeightTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

std::string case_name(const char* op, const Shape3& s, DType dtype, const char* what = "") {
  return fmt::format("{}_{}_{}x{}x{}{}", op, name(dtype), s.rows, s.out, s.in, what);
}

OpCase linear_case(Shape3 s, DType dtype, bool bias) {
  return {
      case_name("linear", s, dtype, bias ? "_bias" : ""), s.rows, true,
      [=](Device& d, Rows r) -> std::vector<Output> {
        const int64_t count = r.count() * s.out;
        const float* x = d.floats(row_slice(uniform(21, s.rows * s.in), r.begin, r.end, s.in));
        float* out = d.float_output(count);
        d.backend().linear({x, d.matrix(uniform(23, s.out * s.in), s.out, s.in, dtype),
                            bias ? d.weights(uniform(24, s.out), dtype) : nullptr, dtype, r.count(), out});
        return {{"out", d.read(out, count), sum_tolerance(s.in)}};
      }};
}

OpCase backward_input_case(Shape3 s, DType dtype) {
  return {case_name("linear_backward_input", s, dtype), s.rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            float* d_x = d.floats(row_slice(uniform(25, s.rows * s.in), r.begin, r.end, s.in));
            d.backend().linear_backward_input(
                {d.floats(row_slice(uniform(26, s.rows * s.out), r.begin, r.end, s.out)),
                 d.matrix(uniform(27, s.out * s.in), s.out, s.in, dtype), r.count(), d_x});
            return {{"d_x", d.read(d_x, r.count() * s.in), sum_tolerance(s.out)}};
          }};
}

OpCase backward_weight_case(Shape3 s) {
  return {case_name("linear_backward_weight", s, DType::kF32), s.rows, false,
          [=](Device& d, Rows) -> std::vector<Output> {
            const float* d_out = d.floats(uniform(28, s.rows * s.out));
            const float* x = d.floats(uniform(29, s.rows * s.in));
            float* d_weight = d.floats(uniform(30, s.out * s.in));
            float* d_bias = d.floats(uniform(31, s.out));
            d.backend().linear_backward_weight({d_out, x, s.rows, s.out, s.in, d_weight, nullptr});
            d.backend().linear_backward_weight({d_out, x, s.rows, s.out, s.in, nullptr, d_bias});
            return {{"d_weight", d.read(d_weight, s.out * s.in), sum_tolerance(s.rows)},
                    {"d_bias", d.read(d_bias, s.out), sum_tolerance(s.rows)}};
          }};
}

struct HeadShape {
  int64_t rows, heads, head_rows, first, used, in;
};

OpCase head_linear_case(HeadShape s, DType dtype, bool transposed) {
  const std::string name =
      fmt::format("head_linear_{}_{}x{}heads_{}of{}rows_{}wide{}", switchyard::name(dtype), s.rows, s.heads,
                  s.used, s.head_rows, s.in, transposed ? "_transposed" : "");
  return {name, s.rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t from = s.heads * (transposed ? s.used : s.in);
            const int64_t to = s.heads * (transposed ? s.in : s.used);
            const int64_t weight_rows = s.heads * s.head_rows;
            float* out = d.float_output(r.count() * to);
            d.backend().head_linear(
                {.x = d.floats(row_slice(uniform(31, s.rows * from), r.begin, r.end, from)),
                 .weight = d.matrix(uniform(32, weight_rows * s.in), weight_rows, s.in, dtype),
                 .rows = r.count(),
                 .heads = s.heads,
                 .head_rows = s.head_rows,
                 .first_row = s.first,
                 .rows_used = s.used,
                 .transposed = transposed,
                 .out = out});
            return {{"out", d.read(out, r.count() * to), sum_tolerance(transposed ? s.used : s.in)}};
          }};
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const int64_t rows : {0, 1, 2, 31, 65}) {
    for (const bool transposed : {false, true}) {
      for (const DType dtype : kWeightTypes) {
        cases.push_back(head_linear_case({rows, 3, 24, 0, 10, 20}, dtype, transposed));
        cases.push_back(head_linear_case({rows, 5, 33, 17, 16, 65}, dtype, transposed));
      }
      cases.push_back(head_linear_case({rows, 16, 256, 128, 128, 512}, DType::kBF16, transposed));
    }
  }
  for (const int64_t rows : {0, 1, 2, 3, 5, 31, 33, 64}) {
    for (const Shape3& s : {Shape3{rows, 1, 1}, Shape3{rows, 20, 31}, Shape3{rows, 31, 36},
                            Shape3{rows, 36, 64}, Shape3{rows, 67, 257}}) {
      for (const DType dtype : kWeightTypes) {
        cases.push_back(linear_case(s, dtype, false));
        cases.push_back(linear_case(s, dtype, true));
        cases.push_back(backward_input_case(s, dtype));
      }
      cases.push_back(backward_weight_case(s));
    }
  }
  cases.push_back(linear_case({5, 36, 20}, DType::kBF16, true));
  cases.push_back(linear_case({5, 36, 20}, DType::kBF16, false));
  // Enough work for several threads.
  for (const DType dtype : kWeightTypes) {
    cases.push_back(linear_case({1, 523, 1031}, dtype, true));
    cases.push_back(linear_case({101, 131, 192}, dtype, true));
    cases.push_back(backward_input_case({101, 131, 192}, dtype));
  }
  cases.push_back(backward_weight_case({101, 131, 192}));
  return cases;
}

}  // namespace switchyard
