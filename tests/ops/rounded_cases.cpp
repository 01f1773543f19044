// Products with rounded activations (Activations::kRounded).
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/op_case.h"
#include "ops/packed_matrices.h"

namespace switchyard {
namespace {

struct Shape3 {
  int64_t rows, out, in;
};

std::vector<Packing> panels() {
  std::vector<Packing> found;
  for (const Packing& packing : packings()) {
    if (is_panel_packing(packing)) found.push_back(packing);
  }
  return found;
}

std::string case_name(const char* op, const Packing& packing, const Shape3& s) {
  return fmt::format("{}_rounded_{}_{}x{}x{}", op, packing.name, s.rows, s.out, s.in);
}

// Activations of very different sizes, with groups of zeros, of numbers too small to matter, and of ties.
std::vector<float> activations(int64_t rows, int64_t cols) {
  std::vector<float> x = uniform(71, rows * cols);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t group = i / 32 % 7;
    if (group == 1) x[i] *= 100;
    if (group == 2) x[i] *= 1e-3f;
    if (group == 3) x[i] = 0;
    if (group == 4) x[i] *= 0x1p-110f;
    if (group == 5) x[i] = static_cast<float>(i % 255) - 127 + 0.5f * static_cast<float>(i % 2);
  }
  return x;
}

// Largest sum of the sizes of a row's terms, which bounds what float32 rounds away.
double largest_terms(const std::vector<float>& x, int64_t rows, int64_t cols) {
  double largest = 1;
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t k = 0; k < cols; ++k)
      total += std::abs(static_cast<double>(x[static_cast<size_t>(r * cols + k)]));
    largest = std::max(largest, total);
  }
  return largest;
}

OpCase linear_case(const Packing& packing, Shape3 s) {
  return {case_name("linear", packing, s), s.rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const PackedPair weight = packed_pair(d, packing, s.out, s.in, 72);
            const std::vector<float> x = activations(s.rows, s.in);
            float* out = d.float_output(r.count() * s.out);
            d.backend().linear({d.floats(row_slice(x, r.begin, r.end, s.in)), weight.packed,
                                d.weights(uniform(73, s.out), DType::kBF16), DType::kBF16, r.count(), out});
            const double tolerance = 8 * 0x1p-24 * largest_terms(x, s.rows, s.in);
            return {{"out", d.read(out, r.count() * s.out), tolerance}};
          },
          Activations::kRounded};
}

// A row with a number that is not finite must not look like one without.
OpCase not_finite_case(const Packing& packing) {
  return {fmt::format("linear_rounded_{}_not_finite", packing.name), 4, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const PackedPair weight = packed_pair(d, packing, 20, 70, 74);
            std::vector<float> x = uniform(75, 4 * 70);
            x[5] = NAN;
            x[70 + 69] = INFINITY;
            x[140 + 33] = -INFINITY;
            float* out = d.float_output(r.count() * 20);
            d.backend().linear({d.floats(row_slice(x, r.begin, r.end, 70)), weight.packed, nullptr,
                                DType::kF32, r.count(), out});
            return {{"out", d.read(out, r.count() * 20), sum_tolerance(70)}};
          },
          Activations::kRounded};
}

// One expert in each format, packed or plain; expert 1 has no rows.
OpCase expert_case(Shape3 s) {
  return {fmt::format("expert_linear_rounded_{}x{}x{}", s.rows, s.out, s.in), s.rows, false,
          [=](Device& d, Rows) -> std::vector<Output> {
            std::vector<Matrix> weights;
            std::vector<int32_t> offsets{0};
            const auto E = static_cast<int64_t>(packings().size());
            for (int64_t e = 0; e < E; ++e) {
              weights.push_back(packed_pair(d, packings()[static_cast<size_t>(e)], s.out, s.in,
                                            static_cast<uint32_t>(80 + e))
                                    .packed);
              offsets.push_back(e == 1 ? offsets.back() : static_cast<int32_t>(s.rows * (e + 1) / E));
            }
            const std::vector<float> x = activations(s.rows, s.in);
            float* out = d.float_output(s.rows * s.out);
            d.backend().expert_linear(
                {d.floats(x), weights.data(), d.ints(offsets), E, s.rows, s.out, s.in, out});
            const double tolerance = 8 * 0x1p-24 * largest_terms(x, s.rows, s.in);
            return {{"out", d.read(out, s.rows * s.out), tolerance}};
          },
          Activations::kRounded};
}

// Activations that bfloat16 holds exactly: whether a backend rounds them makes no difference.
OpCase bf16_case(Shape3 s) {
  return {fmt::format("linear_rounded_bf16_{}x{}x{}", s.rows, s.out, s.in), s.rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            std::vector<float> x = uniform(76, s.rows * s.in);
            for (float& value : x)
              value = bf16_to_f32(f32_to_bf16(value));
            float* out = d.float_output(r.count() * s.out);
            d.backend().linear({d.floats(row_slice(x, r.begin, r.end, s.in)),
                                d.matrix(uniform(77, s.out * s.in), s.out, s.in, DType::kBF16),
                                d.weights(uniform(78, s.out), DType::kBF16), DType::kBF16, r.count(), out});
            return {{"out", d.read(out, r.count() * s.out), sum_tolerance(s.in)}};
          },
          Activations::kRounded};
}

}  // namespace

std::vector<OpCase> rounded_cases() {
  std::vector<OpCase> cases;
  for (const Packing& packing : panels()) {
    for (const Shape3& s : {Shape3{0, 7, 5}, Shape3{1, 1, 1}, Shape3{2, 20, 31}, Shape3{3, 36, 64},
                            Shape3{7, 100, 33}, Shape3{33, 67, 257}, Shape3{1, 523, 1031}}) {
      cases.push_back(linear_case(packing, s));
    }
    cases.push_back(not_finite_case(packing));
  }
  for (const int64_t rows : {0, 1, 13, 130}) {
    cases.push_back(expert_case({rows, 13, 31}));
    cases.push_back(expert_case({rows, 100, 257}));
  }
  for (const Shape3& s : {Shape3{1, 9, 5}, Shape3{2, 20, 64}, Shape3{11, 67, 257}, Shape3{1, 523, 1031}})
    cases.push_back(bf16_case(s));
  return cases;
}

}  // namespace switchyard
