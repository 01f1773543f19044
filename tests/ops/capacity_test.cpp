// The capacity of experts: its size, and what becomes of the assignments beyond it, against the definition of
// docs/moe.md written out for each assignment by itself.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "ops/device.h"
#include "ops/routing.h"

namespace switchyard {
namespace {

TEST(CapacityLimit, ByDefinition) {
  const Capacity by_factor{.factor = 2.0};
  EXPECT_EQ(capacity_limit(by_factor, 128, 4, 16), 64);
  EXPECT_EQ(capacity_limit(by_factor, 100, 4, 60), 14);  // 13.3, rounded up
  EXPECT_EQ(capacity_limit({.factor = 1.1}, 160, 4, 64), 11) << "10 * 1.1 is 11, not a little more";
  EXPECT_EQ(capacity_limit({.factor = 0.01}, 128, 4, 16), 4) << "never below K";
  EXPECT_EQ(capacity_limit({.factor = 100}, 128, 4, 16), 128) << "never above T";
  EXPECT_EQ(capacity_limit({.fixed = 7}, 128, 4, 16), 7);
  EXPECT_EQ(capacity_limit({.fixed = 1}, 128, 4, 16), 4) << "never below K";
  EXPECT_EQ(capacity_limit({.fixed = 1}, 2, 4, 16), 2) << "never above T";
  EXPECT_EQ(capacity_limit({.fixed = INT32_MAX}, 3, 4, 16), 3);
  EXPECT_EQ(capacity_limit(by_factor, 0, 4, 16), 0);
}

// Even if every token chose the same experts.
TEST(CapacityLimit, StepsOfFewTokensLoseNothing) {
  for (const int64_t experts : {1, 8, 16, 60, 64, 256}) {
    for (int64_t top_k = 1; top_k <= experts; ++top_k) {
      for (int64_t tokens = 0; tokens <= experts / top_k; ++tokens)
        ASSERT_EQ(capacity_limit({.factor = 2.0}, tokens, top_k, experts), tokens) << experts << " " << top_k;
    }
  }
}

struct Shape4 {
  int64_t rows, experts, top_k;
};
using Values = std::vector<float>;

struct Assignments {
  std::vector<int32_t> ids;  // [T, K]
  Values weights;
};

class CapacityTest : public testing::TestWithParam<int> {
 protected:
  Tensor tensor(const Values& values, const Shape& shape) {
    Tensor t = Tensor::empty(arena_, DType::kF32, shape);
    backend_.copy_from_host(t.mutable_data(), values.data(), t.bytes());
    return t;
  }
  static Assignments on_host(const Tensor& ids,
                             const Tensor& weights) {  // memory of the CPU backend is the host's
    return {{ids.i32(), ids.i32() + ids.elements()}, {weights.f32(), weights.f32() + weights.elements()}};
  }
  Assignments limited(const Values& logits, const Shape4& s, const RoutingRule& rule,
                      const Capacity& capacity) {
    Context c{.backend = backend_, .arena = arena_};
    Batch batch;
    batch.routing.capacity = capacity;
    const Routing routing = route(c, tensor(logits, {s.rows, s.experts}), rule, batch, 0);
    probabilities_.assign(routing.probabilities.f32(), routing.probabilities.f32() + s.rows * s.experts);
    return on_host(routing.expert_ids, routing.weights);
  }
  Assignments unlimited(const Values& logits, const Shape4& s, const RoutingRule& rule) {
    Context c{.backend = backend_, .arena = arena_};
    const Routing routing = route(c, tensor(logits, {s.rows, s.experts}), rule, {}, 0);
    return on_host(routing.expert_ids, routing.weights);
  }

  CpuBackend backend_{CpuOptions{.threads = 3, .isa = {}}};
  Arena arena_{backend_.memory()};
  Values probabilities_;
};

// Skewed, so that some experts overflow; with equal logits now and then.
Values skewed_logits(uint32_t seed, const Shape4& s) {
  Values logits = uniform(seed, s.rows * s.experts, -2, 2);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % static_cast<size_t>(s.experts) < 2) logits[i] += 2;
    if (seed % 3 == 0) logits[i] = std::round(logits[i]);
  }
  return logits;
}

RoutingRule rule_of(int seed, const Shape4& s) {
  RoutingRule rule{.top_k = s.top_k, .normalize = seed % 2 == 1};
  if (seed % 4 >= 2) {
    rule.score = RouterScore::kSigmoid;
    rule.scaling = 2.5f;
    rule.epsilon = 1e-20f;
  }
  return rule;
}

bool goes_before(const Assignments& a, size_t slot, size_t other) {
  if (a.weights[slot] != a.weights[other]) return a.weights[slot] > a.weights[other];
  return slot < other;
}

// Each assignment by itself: it stays when fewer than `capacity` of its expert's go before it.
std::vector<bool> stays(const Assignments& a, int64_t capacity) {
  std::vector<bool> result(a.ids.size());
  for (size_t slot = 0; slot < a.ids.size(); ++slot) {
    int64_t before = 0;
    for (size_t other = 0; other < a.ids.size(); ++other)
      before += a.ids[other] == a.ids[slot] && goes_before(a, other, slot);
    result[slot] = before < capacity;
  }
  return result;
}

// The experts of a rerouted step; -1: dropped.
std::vector<int32_t> rerouted_ids(const Assignments& a, const Values& probabilities, const Shape4& s,
                                  int64_t capacity) {
  const std::vector<bool> kept = stays(a, capacity);
  std::map<int32_t, int64_t> loads;
  std::vector<size_t> waiting;
  for (size_t slot = 0; slot < a.ids.size(); ++slot) {
    if (kept[slot]) ++loads[a.ids[slot]];
    if (!kept[slot]) waiting.push_back(slot);
  }
  std::sort(waiting.begin(), waiting.end(), [&](size_t x, size_t y) { return goes_before(a, x, y); });
  std::vector<int32_t> ids = a.ids;
  for (const size_t slot : waiting) {
    const size_t row = slot / static_cast<size_t>(s.top_k);
    std::vector<std::pair<float, int32_t>> by_score;  // negative, so that equal ones come in ascending id
    for (int32_t e = 0; e < s.experts; ++e)
      by_score.emplace_back(-probabilities[row * static_cast<size_t>(s.experts) + static_cast<size_t>(e)], e);
    std::sort(by_score.begin(), by_score.end());
    const auto first = ids.begin() + static_cast<int64_t>(row) * s.top_k;
    int32_t next = -1;
    for (const auto& [score, e] : by_score) {
      if (next >= 0 || loads[e] >= capacity || std::count(first, first + s.top_k, e) > 0) continue;
      next = e;
    }
    ids[slot] = next;
    if (next >= 0) ++loads[next];
  }
  return ids;
}

std::vector<int64_t> loads_of(const std::vector<int32_t>& ids, int64_t experts) {
  std::vector<int64_t> loads(static_cast<size_t>(experts), 0);
  for (const int32_t e : ids) {
    if (e >= 0) ++loads[static_cast<size_t>(e)];
  }
  return loads;
}

constexpr Shape4 kShapes[] = {{1, 8, 2},  {20, 8, 1},  {40, 8, 3}, {33, 60, 4},
                              {64, 5, 5}, {50, 65, 8}, {30, 1, 1}};

TEST_P(CapacityTest, DropKeepsTheLargestWeightsOfEveryExpert) {
  for (const Shape4& s : kShapes) {
    const RoutingRule rule = rule_of(GetParam(), s);
    const Values logits = skewed_logits(static_cast<uint32_t>(GetParam()), s);
    const Assignments before = unlimited(logits, s, rule);
    for (const int64_t fixed : {s.top_k, s.top_k + 3, s.rows}) {
      const int64_t capacity = std::clamp(fixed, std::min(s.top_k, s.rows), s.rows);
      const Assignments after = limited(logits, s, rule, {.fixed = fixed, .overflow = Overflow::kDrop});
      const std::vector<bool> kept = stays(before, capacity);
      for (size_t slot = 0; slot < kept.size(); ++slot) {
        ASSERT_EQ(after.ids[slot], kept[slot] ? before.ids[slot] : -1) << slot;
        ASSERT_EQ(after.weights[slot], kept[slot] ? before.weights[slot] : 0) << "weights are not rescaled";
      }
      for (const int64_t load : loads_of(after.ids, s.experts))
        ASSERT_LE(load, capacity);
    }
  }
}

TEST_P(CapacityTest, RerouteGoesToTheNextBestExpertWithRoom) {
  for (const Shape4& s : kShapes) {
    const RoutingRule rule = rule_of(GetParam(), s);
    const Values logits = skewed_logits(static_cast<uint32_t>(GetParam()), s);
    const Assignments before = unlimited(logits, s, rule);
    for (const int64_t fixed : {s.top_k, s.top_k + 3, s.rows}) {
      const int64_t capacity = std::clamp(fixed, std::min(s.top_k, s.rows), s.rows);
      const Assignments after = limited(logits, s, rule, {.fixed = fixed, .overflow = Overflow::kReroute});
      ASSERT_EQ(after.ids, rerouted_ids(before, probabilities_, s, capacity));
      const std::vector<bool> kept = stays(before, capacity);
      for (size_t slot = 0; slot < kept.size(); ++slot) {
        const size_t row = slot / static_cast<size_t>(s.top_k) * static_cast<size_t>(s.experts);
        const auto score = [&](int32_t e) { return probabilities_[row + static_cast<size_t>(e)]; };
        if (after.ids[slot] < 0) {
          ASSERT_EQ(after.weights[slot], 0);
        } else {  // the same weight for the same score as before
          const float unit = before.weights[slot] / score(before.ids[slot]);
          ASSERT_NEAR(after.weights[slot], unit * score(after.ids[slot]), 1e-5 * after.weights[slot]);
        }
        if (kept[slot]) {
          ASSERT_EQ(after.weights[slot], before.weights[slot]);
        }
      }
      for (const int64_t load : loads_of(after.ids, s.experts))
        ASSERT_LE(load, capacity);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CapacityTest, testing::Range(0, 12));

// By hand: three tokens want expert 0, which takes K = 1. Token 1 has the largest weight, token 0 comes
// before token 2. Expert 1 is next for both, and takes token 0.
TEST_F(CapacityTest, ByHand) {
  const Shape4 s{3, 4, 1};
  const Values logits{2, 1, 0, -9, 3, 1, 0, -9, 2, 1, 0, -9};
  const RoutingRule rule{.top_k = 1, .normalize = false};
  EXPECT_EQ(limited(logits, s, rule, {.fixed = 1}).ids, (std::vector<int32_t>{-1, 0, -1}));
  EXPECT_EQ(limited(logits, s, rule, {.fixed = 1, .overflow = Overflow::kReroute}).ids,
            (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(limited(logits, s, rule, {.factor = 1}).ids, (std::vector<int32_t>{0, 0, 0}))
      << "3 tokens, 4 experts";
}

// A forbidden expert and the experts of groups that were not kept take nothing.
TEST_F(CapacityTest, ReroutesOnlyToWhatMayBeChosen) {
  const auto policy = std::make_shared<RoutingPolicy>(
      backend_, 1, 1.0f, Values{0, -std::numeric_limits<float>::infinity(), 0, 0, 0, 0});
  Context c{.backend = backend_, .arena = arena_};
  const RoutePolicy table = policy->on_device();
  Batch batch;
  batch.routing = {.policies = {policy}, .some_rows_without_policy = false, .capacity = Capacity{.fixed = 1}};
  batch.routing.capacity->overflow = Overflow::kReroute;
  batch.routing.policy_table = Tensor::external(&table, DType::kU8, {sizeof table}, policy);
  const std::vector<int32_t> rows(4, 0);
  batch.routing.policy_of_row = Tensor::external(rows.data(), DType::kI32, {4}, policy);
  // Groups {0, 1, 2} and {3, 4, 5}: all keep the first. Experts 0 and 2 take a token each.
  Values logits;
  for (int t = 0; t < 4; ++t) {
    const Values row{5, 4, 3, 2, 1, 0};
    logits.insert(logits.end(), row.begin(), row.end());
  }
  const RoutingRule rule{.top_k = 1, .normalize = false, .n_group = 2, .topk_group = 1};
  const Routing routing = route(c, tensor(logits, {4, 6}), rule, batch, 0);
  EXPECT_EQ(on_host(routing.expert_ids, routing.weights).ids, (std::vector<int32_t>{0, 2, -1, -1}));
}

}  // namespace
}  // namespace switchyard
