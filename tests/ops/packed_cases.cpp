// Products with packed weights: as every op, and with the bits of the float32 matrix that they stand for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/op_case.h"
#include "ops/packed_matrices.h"

namespace switchyard {
namespace {

struct Shape3 {
  int64_t rows, out, in;
};

std::string case_name(const char* op, const Packing& packing, const Shape3& s) {
  return fmt::format("{}_{}_{}x{}x{}", op, packing.name, s.rows, s.out, s.in);
}

OpCase embedding_case(const Packing& packing, Shape3 s) {
  return {case_name("embedding", packing, s), s.rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const PackedPair table = packed_pair(d, packing, s.out, s.in, 51);
            std::vector<int32_t> ids;
            for (int64_t i = r.begin; i < r.end; ++i)
              ids.push_back(static_cast<int32_t>((i * 7 + 3) % s.out));
            float* out = d.float_output(r.count() * s.in);
            d.backend().embedding({table.packed, d.ints(ids), r.count(), out});
            std::vector<float> want;
            for (const int32_t id : ids) {
              const std::vector<float> row = row_slice(table.values, id, id + 1, s.in);
              want.insert(want.end(), row.begin(), row.end());
            }
            EXPECT_EQ(d.read(out, r.count() * s.in), want);
            return {{"out", d.read(out, r.count() * s.in), 0}};
          }};
}

OpCase linear_case(const Packing& packing, Shape3 s) {
  return {case_name("linear", packing, s), s.rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const PackedPair weight = packed_pair(d, packing, s.out, s.in, 52);
            const float* x = d.floats(row_slice(uniform(53, s.rows * s.in), r.begin, r.end, s.in));
            const int64_t count = r.count() * s.out;
            const auto product = [&](const Matrix& matrix) {
              float* out = d.float_output(count);
              d.backend().linear(
                  {x, matrix, d.weights(uniform(54, s.out), DType::kBF16), DType::kBF16, r.count(), out});
              return d.read(out, count);
            };
            const std::vector<float> out = product(weight.packed);
            EXPECT_EQ(out, product(weight.plain));
            return {{"out", out, sum_tolerance(s.in)}};
          }};
}

OpCase backward_input_case(const Packing& packing, Shape3 s) {
  return {case_name("linear_backward_input", packing, s), s.rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const PackedPair weight = packed_pair(d, packing, s.out, s.in, 55);
            const float* d_out = d.floats(row_slice(uniform(56, s.rows * s.out), r.begin, r.end, s.out));
            const auto gradient = [&](const Matrix& matrix) {
              float* d_x = d.floats(row_slice(uniform(57, s.rows * s.in), r.begin, r.end, s.in));
              d.backend().linear_backward_input({d_out, matrix, r.count(), d_x});
              return d.read(d_x, r.count() * s.in);
            };
            const std::vector<float> d_x = gradient(weight.packed);
            EXPECT_EQ(d_x, gradient(weight.plain));
            return {{"d_x", d_x, sum_tolerance(s.out)}};
          }};
}

// One expert in each format, so that a call meets all of them. Expert 1 has no rows.
OpCase expert_case(Shape3 s) {
  return {fmt::format("expert_linear_packed_{}x{}x{}", s.rows, s.out, s.in), s.rows, false,
          [=](Device& d, Rows) -> std::vector<Output> {
            std::vector<Matrix> packed;
            std::vector<Matrix> plain;
            std::vector<int32_t> offsets{0};
            const auto E = static_cast<int64_t>(packings().size());
            for (int64_t e = 0; e < E; ++e) {
              const PackedPair pair = packed_pair(d, packings()[static_cast<size_t>(e)], s.out, s.in,
                                                  static_cast<uint32_t>(60 + e));
              packed.push_back(pair.packed);
              plain.push_back(pair.plain);
              offsets.push_back(e == 1 ? offsets.back() : static_cast<int32_t>(s.rows * (e + 1) / E));
            }
            const float* x = d.floats(uniform(58, s.rows * s.in));
            const float* d_out = d.floats(uniform(59, s.rows * s.out));
            const int32_t* of_expert = d.ints(offsets);
            const auto results = [&](const std::vector<Matrix>& weights) {
              float* out = d.float_output(s.rows * s.out);
              float* d_x = d.floats(std::vector<float>(static_cast<size_t>(s.rows * s.in), 0.5f));
              d.backend().expert_linear({x, weights.data(), of_expert, E, s.rows, s.out, s.in, out});
              d.backend().expert_linear_backward_input(
                  {d_out, weights.data(), of_expert, E, s.rows, s.out, s.in, d_x});
              return std::vector<Output>{{"out", d.read(out, s.rows * s.out), sum_tolerance(s.in)},
                                         {"d_x", d.read(d_x, s.rows * s.in), sum_tolerance(s.out)}};
            };
            const std::vector<Output> got = results(packed);
            const std::vector<Output> want = results(plain);
            for (size_t i = 0; i < got.size(); ++i)
              EXPECT_EQ(got[i].values, want[i].values) << got[i].name;
            return got;
          }};
}

}  // namespace

std::vector<OpCase> packed_cases() {
  std::vector<OpCase> cases;
  for (const Packing& packing : packings()) {
    for (const Shape3& s : {Shape3{0, 7, 5}, Shape3{1, 1, 1}, Shape3{2, 20, 31}, Shape3{5, 36, 64},
                            Shape3{33, 67, 257}, Shape3{64, 131, 48}}) {
      cases.push_back(embedding_case(packing, s));
      cases.push_back(linear_case(packing, s));
      cases.push_back(backward_input_case(packing, s));
    }
  }
  // Enough work for several threads, and more rows of the weight than one piece of a backward pass.
  for (const size_t i : {size_t{1}, size_t{6}}) {
    cases.push_back(linear_case(packings()[i], {1, 523, 1031}));
    cases.push_back(backward_input_case(packings()[i], {101, 600, 192}));
  }
  for (const int64_t rows : {0, 1, 13, 130}) {
    cases.push_back(expert_case({rows, 13, 31}));
    cases.push_back(expert_case({rows, 100, 257}));
  }
  return cases;
}

}  // namespace switchyard
