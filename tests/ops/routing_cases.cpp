// The router.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/op_case.h"

namespace switchyard {
namespace {

// How one family routes.
struct Family {
  const char* name;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;
  float epsilon = 0;
  bool biased = false;
  int64_t groups = 1;
  int64_t kept_groups = 1;
  GroupScore group_score = GroupScore::kBest;
};

struct RoutingShape {
  int64_t rows, experts, top_k;
  int64_t more_slots = 0;  // than K
  int64_t slots() const { return top_k + more_slots; }
};

// Distinct logits of a row: steps of 6 / experts, far above what rounding does to a score. Every fourth row
// has only three different values instead, so that ties decide.
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

// Whole numbers, so that biased scores (of 0 to 1 without the bias) stay as far apart as the scores are; most
// are negative.
std::vector<float> selection_bias(int64_t experts) {
  std::vector<float> bias;
  for (int64_t e = 0; e < experts; ++e)
    bias.push_back(static_cast<float>(e * 7 % 4) - 3);
  return bias;
}

RouteArgs route_args(Device& d, const Family& f, const RoutingShape& s, const std::vector<float>& values,
                     int64_t rows) {
  return {.logits = d.floats(values),
          .rows = rows,
          .experts = s.experts,
          .top_k = s.top_k,
          .slots = s.slots(),
          .score = f.score,
          .selection_bias = f.biased ? d.floats(selection_bias(s.experts)) : nullptr,
          .groups = f.groups,
          .kept_groups = f.kept_groups,
          .group_score = f.group_score,
          .normalize = f.normalize,
          .epsilon = f.epsilon,
          .scaling = 1.5f,
          .layer = 7,
          .probabilities = d.float_output(rows * s.experts),
          .selection = d.float_output(rows * s.experts),
          .expert_ids = d.int_output(rows * s.slots()),
          .weights = d.float_output(rows * s.slots())};
}

std::vector<Output> route_outputs(Device& d, const RouteArgs& a) {
  const double tolerance = kExpTolerance + sum_tolerance(a.experts) / 16;
  return {{"probabilities", d.read(a.probabilities, a.rows * a.experts), tolerance},
          {"selection", d.read(a.selection, a.rows * a.experts), tolerance},
          {"ids", d.read(a.expert_ids, a.rows * a.slots), 0},
          {"weights", d.read(a.weights, a.rows * a.slots), tolerance}};
}

OpCase route_case(Family f, RoutingShape s) {
  return {fmt::format("route_{}_{}x{}_top{}", f.name, s.rows, s.experts, s.top_k), s.rows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            const auto values = row_slice(logits(s), r.begin, r.end, s.experts);
            const RouteArgs args = route_args(d, f, s, values, r.count());
            d.backend().route(args);
            EXPECT_FALSE(d.backend().take_routing_fault().has_value());
            return route_outputs(d, args);
          }};
}

// Two policies, and the rows that have none: fewer experts than the model and a mask; more experts, a bias
// and a temperature. The masks leave every group experts.
OpCase route_policy_case(Family f, int64_t experts, int64_t top_k) {
  constexpr int64_t kRows = 33;
  const RoutingShape s{kRows, experts, top_k, 2};
  return {fmt::format("route_policy_{}_{}_top{}", f.name, experts, top_k), kRows, true,
          [=](Device& d, Rows r) -> std::vector<Output> {
            std::vector<float> masked, biased;  // [2 layers, E]; the op is to take the second
            for (int64_t e = 0; e < 2 * experts; ++e) {
              masked.push_back(e % 3 == 0 ? -std::numeric_limits<float>::infinity() : 0);
              biased.push_back(static_cast<float>(e * 5 % 4));
            }
            const std::vector<RoutePolicy> policies{
                {d.floats(masked), 1.0f, static_cast<int32_t>(top_k - 1)},
                {d.floats(biased), 0.5f, static_cast<int32_t>(top_k + 2)}};
            std::vector<int32_t> policy_of_row;
            for (int64_t row = 0; row < kRows; ++row)
              policy_of_row.push_back(static_cast<int32_t>(row % 3) - 1);
            const auto values = row_slice(logits(s), r.begin, r.end, experts);
            RouteArgs args = route_args(d, f, s, values, r.count());
            args.layer = 1;
            args.policies = policies.data();
            args.policy_of_row = d.ints(row_slice(policy_of_row, r.begin, r.end, 1));
            d.backend().route(args);
            RouteArgs own = route_args(d, f, {kRows, experts, top_k}, values, r.count());
            d.backend().route(own);
            const std::vector<Output> got = route_outputs(d, args);
            const std::vector<Output> want = route_outputs(d, own);
            for (int64_t row = 0; row < r.count(); ++row) {
              if (policy_of_row[static_cast<size_t>(r.begin + row)] >= 0) continue;
              for (size_t o = 0; o < got.size(); ++o) {
                const int64_t width = static_cast<int64_t>(want[o].values.size()) / r.count();
                const auto values_of = [&](const Output& output) {
                  const int64_t stride = static_cast<int64_t>(output.values.size()) / r.count();
                  const auto begin = output.values.begin() + row * stride;
                  return std::vector<float>(begin, begin + width);
                };
                EXPECT_EQ(values_of(got[o]), values_of(want[o])) << "a row without a policy";
              }
            }
            return got;
          }};
}

// Rows with a NaN logit, in the first, a middle and the last lane: they alone are NaN, and the first of them
// is the fault.
OpCase route_nan_case(int64_t experts) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kTopK = 2;
  return {fmt::format("route_nan_{}", experts), kRows, false, [=](Device& d, Rows) -> std::vector<Output> {
            const RoutingShape shape{kRows, experts, kTopK};
            std::vector<float> values = logits(shape);
            const int64_t places[][2] = {{60, 0}, {9, experts / 2}, {31, experts - 1}};
            for (const auto& [row, expert] : places)
              values[static_cast<size_t>(row * experts + expert)] = std::numeric_limits<float>::quiet_NaN();
            RouteArgs args = route_args(d, {.name = "softmax"}, shape, values, kRows);
            d.backend().route(args);
            args.layer = 5;
            d.backend().route(args);
            const std::optional<RoutingFault> fault = d.backend().take_routing_fault();
            EXPECT_TRUE(fault.has_value() && fault->layer == 5 && fault->row == 9);
            EXPECT_FALSE(d.backend().take_routing_fault().has_value());
            return route_outputs(d, args);
          }};
}

constexpr Family kUngrouped[] = {
    {.name = "softmax"},
    {.name = "normalized", .normalize = true},
    {.name = "sigmoid", .score = RouterScore::kSigmoid},
    // An epsilon that shows.
    {.name = "biased", .score = RouterScore::kSigmoid, .normalize = true, .epsilon = 0.5f, .biased = true},
};

Family best_of_groups(int64_t groups, int64_t kept) {
  return {.name = "best_of_groups", .groups = groups, .kept_groups = kept};
}
Family best_two_of_groups(int64_t groups, int64_t kept) {
  return {.name = "best_two_of_groups",
          .score = RouterScore::kSigmoid,
          .normalize = true,
          .epsilon = 1e-20f,
          .biased = true,
          .groups = groups,
          .kept_groups = kept,
          .group_score = GroupScore::kBestTwo};
}

void add_grouped_cases(int64_t rows, std::vector<OpCase>& cases) {
  struct Shape {
    int64_t experts, groups, kept;
  };
  for (const Shape s : {Shape{60, 4, 2}, {65, 5, 1}, {64, 8, 8}, {256, 8, 4}, {1024, 16, 3}}) {
    const int64_t eligible = s.experts / s.groups * s.kept;
    for (const int64_t top_k : {int64_t{1}, int64_t{8}, eligible}) {
      cases.push_back(route_case(best_of_groups(s.groups, s.kept), {rows, s.experts, top_k}));
      cases.push_back(route_case(best_two_of_groups(s.groups, s.kept), {rows, s.experts, top_k}));
    }
  }
  cases.push_back(route_case(best_two_of_groups(6, 4), {rows, 6, 3}));  // groups of one expert
}

}  // namespace

std::vector<OpCase> routing_cases() {
  std::vector<OpCase> cases;
  for (const Family& family : kUngrouped) {
    for (const int64_t rows : {0, 1, 5, 64}) {
      cases.push_back(route_case(family, {rows, 1, 1}));
      for (const int64_t experts : {8, 60, 64, 65}) {
        for (const int64_t top_k : {int64_t{1}, int64_t{4}, experts - 1, experts})
          cases.push_back(route_case(family, {rows, experts, top_k}));
      }
    }
    for (const int64_t top_k : {1, 2, 8, 255, 256})
      cases.push_back(route_case(family, {5, 256, top_k}));
    for (const int64_t top_k : {1, 8, 1024})
      cases.push_back(route_case(family, {2, 1024, top_k}));
  }
  for (const int64_t rows : {1, 33})
    add_grouped_cases(rows, cases);
  for (const Family& family : kUngrouped) {
    cases.push_back(route_policy_case(family, 5, 2));
    cases.push_back(route_policy_case(family, 60, 4));
    cases.push_back(route_policy_case(family, 65, 8));
  }
  cases.push_back(route_policy_case(best_of_groups(4, 2), 64, 6));
  cases.push_back(route_policy_case(best_two_of_groups(16, 8), 64, 6));
  cases.push_back(route_policy_case(best_two_of_groups(4, 3), 8, 2));  // groups with one allowed expert
  for (const int64_t experts : {2, 60, 65})
    cases.push_back(route_nan_case(experts));
  return cases;
}

}  // namespace switchyard
