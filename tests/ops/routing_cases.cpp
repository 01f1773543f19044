// The router.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/op_case.h"

namespace switchyard {
namespace {

struct RoutingShape {
  int64_t rows, experts, top_k;
  bool normalize;
};

// Distinct logits of a row: steps of 6 / experts, far above what rounding does to a probability. Every fourth
// row has only three different values instead, so that ties decide.
std::vector<float> logits(const RoutingShape& s) {
  std::vector<float> out;
  std::mt19937 generator(51);
  std::vector<int64_t> order(static_cast<size_t>(s.experts));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t t = 0; t < s.rows; ++t) {
    std::shuffle(order.begin(), order.end(), generator);
    for (const int64_t i : order) {
      const int64_t rank = t % 4 == 3 ? i % 3 : i;
      out.push_back(static_cast<float>(rank) * 6 / static_cast<float>(s.experts) - 3);
    }
  }
  return out;
}

OpCase route_case(RoutingShape s) {
  return {fmt::format("route_{}x{}_top{}{}", s.rows, s.experts, s.top_k, s.normalize ? "_normalized" : ""),
          s.rows, true, [=](Device& d, Rows r) -> std::vector<Output> {
            const int64_t slots = r.count() * s.top_k;
            float* probabilities = d.float_output(r.count() * s.experts);
            int32_t* ids = d.int_output(slots);
            float* weights = d.float_output(slots);
            d.backend().route({d.floats(row_slice(logits(s), r.begin, r.end, s.experts)), r.count(),
                               s.experts, s.top_k, s.normalize, 1.5f, 3, probabilities, ids, weights});
            EXPECT_FALSE(d.backend().take_routing_fault().has_value());
            const double tolerance = kExpTolerance + sum_tolerance(s.experts) / 16;
            return {{"probabilities", d.read(probabilities, r.count() * s.experts), tolerance},
                    {"ids", d.read(ids, slots), 0},
                    {"weights", d.read(weights, slots), tolerance}};
          }};
}

// Rows with a NaN logit, in the first, a middle and the last lane: they alone are NaN, and the first of them
// is the fault.
OpCase route_nan_case(int64_t experts) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kTopK = 2;
  return {fmt::format("route_nan_{}", experts), kRows, false, [=](Device& d, Rows) -> std::vector<Output> {
            std::vector<float> values = logits({kRows, experts, kTopK, false});
            const int64_t places[][2] = {{60, 0}, {9, experts / 2}, {31, experts - 1}};
            for (const auto& [row, expert] : places)
              values[static_cast<size_t>(row * experts + expert)] = std::numeric_limits<float>::quiet_NaN();
            float* probabilities = d.float_output(kRows * experts);
            int32_t* ids = d.int_output(kRows * kTopK);
            float* weights = d.float_output(kRows * kTopK);
            RouteArgs args{d.floats(values), kRows, experts, kTopK, false, 1.0f, 7,
                           probabilities,    ids,   weights};
            d.backend().route(args);
            args.layer = 5;
            d.backend().route(args);
            const std::optional<RoutingFault> fault = d.backend().take_routing_fault();
            EXPECT_TRUE(fault.has_value() && fault->layer == 5 && fault->row == 9);
            EXPECT_FALSE(d.backend().take_routing_fault().has_value());
            return {{"probabilities", d.read(probabilities, kRows * experts), kExpTolerance},
                    {"ids", d.read(ids, kRows * kTopK), 0},
                    {"weights", d.read(weights, kRows * kTopK), kExpTolerance}};
          }};
}

}  // namespace

std::vector<OpCase> routing_cases() {
  std::vector<OpCase> cases;
  for (const bool normalize : {false, true}) {
    for (const int64_t rows : {0, 1, 5, 64}) {
      cases.push_back(route_case({rows, 1, 1, normalize}));
      for (const int64_t experts : {8, 60, 65, 128}) {
        cases.push_back(route_case({rows, experts, 1, normalize}));
        cases.push_back(route_case({rows, experts, 4, normalize}));
        cases.push_back(route_case({rows, experts, experts, normalize}));
      }
    }
    cases.push_back(route_case({5, 1024, 8, normalize}));
    cases.push_back(route_case({2, 1024, 1024, normalize}));
  }
  for (const int64_t experts : {2, 60, 65})
    cases.push_back(route_nan_case(experts));
  return cases;
}

}  // namespace switchyard
