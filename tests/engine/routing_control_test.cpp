// Policies by request and the capacity of experts, through sessions on the trained model.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/calibration.h"
#include "engine/session.h"
#include "engine/trace.h"
#include "support/expect_error.h"
#include "support/tiny_engine.h"

namespace switchyard {
namespace {

using Policy = std::shared_ptr<const RoutingPolicy>;

class RoutingControlTest : public testing::Test {
 protected:
  Policy policy(const RoutingPolicyOptions& options) {
    return make_routing_policy(*engine_.backend, engine_.model->shape(), options);
  }
  Request request(size_t reference, Policy routing_policy) {
    return {.prompt = references_[reference].prompt_ids,
            .max_tokens = 6,
            .return_experts = true,
            .routing_policy = std::move(routing_policy)};
  }
  struct Run {
    std::vector<Answer> answers;
    std::vector<std::vector<GeneratedToken>> tokens;
    RoutingStatistics statistics;
  };
  Run run(TinyEngine& engine, const std::vector<Request>& requests, const SessionOptions& options) {
    Session session(*engine.model, engine.tokenizer, *engine.backend, options);
    Run result;
    result.answers.resize(requests.size());
    result.tokens.resize(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      Request r = requests[i];
      r.sampling.logprobs = 0;
      session.submit(r, [&result, i, sink = result.answers[i].sink()](const GeneratedToken& token) {
        result.tokens[i].push_back(token);
        sink(token);
      });
    }
    while (session.step()) {
    }
    result.statistics = session.statistics();
    return result;
  }
  Run run(const std::vector<Request>& requests, const SessionOptions& options = {.context = 1024}) {
    return run(engine_, requests, options);
  }
  static int64_t assignments(const RoutingStatistics& statistics) {
    return statistics.mean_over_layers().assignments;
  }

  TinyEngine& engine_ = shared_tiny_engine();  // 16 experts, 4 per token, 6 layers
  std::vector<GreedyReference> references_ = greedy_references();
  std::vector<float> ramp_ = [] {
    std::vector<float> bias(16);
    for (size_t e = 0; e < 16; ++e)
      bias[e] = static_cast<float>(e) / 8;
    return bias;
  }();
};

TEST_F(RoutingControlTest, PoliciesMixInOneBatchWithoutATrace) {
  const std::vector<Request> requests{
      request(0, nullptr), request(1, policy({.top_k = 1})),
      request(0, policy({.top_k = 7, .temperature = 2})),
      request(1, policy({.strength = 0.5, .bias = {{2, ramp_}}, .mask = {{0, {1, 2}}, {5, {0}}}}))};
  const Run together = run(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Run alone = run({requests[i]});
    EXPECT_EQ(together.answers[i].tokens, alone.answers[0].tokens) << i;
    EXPECT_EQ(together.answers[i].logprobs, alone.answers[0].logprobs) << i;
    for (size_t t = 0; t < alone.tokens[0].size(); ++t) {
      for (size_t l = 0; l < alone.tokens[0][t].experts.size(); ++l) {
        EXPECT_EQ(together.tokens[i][t].experts[l].expert_ids, alone.tokens[0][t].experts[l].expert_ids);
        EXPECT_EQ(together.tokens[i][t].experts[l].weights, alone.tokens[0][t].experts[l].weights);
      }
    }
  }
  EXPECT_NE(together.answers[0].logprobs, together.answers[2].logprobs);
  EXPECT_NE(together.answers[1].logprobs, together.answers[3].logprobs);
}

TEST_F(RoutingControlTest, APolicyThatAsksForNothingChangesNothing) {
  const Run own = run({request(0, nullptr)});
  const Run same = run({request(0, policy({}))});
  EXPECT_EQ(same.answers[0].tokens, own.answers[0].tokens);
  EXPECT_EQ(same.answers[0].logprobs, own.answers[0].logprobs);
  EXPECT_EQ(same.statistics.hits(), own.statistics.hits());
  EXPECT_TRUE(own.statistics.effects().empty());
  EXPECT_EQ(same.statistics.effects().size(), 6u);
  EXPECT_EQ(same.statistics.total_effects().policy_changed, 0);
}

TEST_F(RoutingControlTest, CountsWhatAPolicyChanges) {
  const auto tokens = static_cast<int64_t>(references_[0].prompt_ids.size()) + 5;
  // Two of four experts: two slots of each token differ.
  const Run fewer = run({request(0, policy({.top_k = 2}))});
  EXPECT_EQ(assignments(fewer.statistics), tokens * 2 * 6);
  for (const auto& [layer, effects] : fewer.statistics.effects())
    EXPECT_EQ(effects.policy_changed, tokens * 2) << layer;
  EXPECT_EQ(fewer.tokens[0][0].experts[3].expert_ids.size(), 2u);
  // A mask in the first layer: what it forbids goes elsewhere, and the layers below it choose by themselves.
  const std::vector<int64_t> own_hits = run({request(0, nullptr)}).statistics.hits().at(0);
  const Run masked = run({request(0, policy({.mask = {{0, {2, 9, 11}}}}))});
  const std::vector<int64_t>& hits = masked.statistics.hits().at(0);
  EXPECT_EQ(hits[2] + hits[9] + hits[11], 0);
  EXPECT_EQ(assignments(masked.statistics), tokens * 4 * 6);
  const auto& effects = masked.statistics.effects();
  EXPECT_GT(effects.at(0).policy_changed, 0);
  EXPECT_EQ(effects.at(1).policy_changed, 0);
  if (masked.answers[0].tokens == run({request(0, nullptr)}).answers[0].tokens) {
    EXPECT_EQ(effects.at(0).policy_changed, own_hits[2] + own_hits[9] + own_hits[11]);
  }
}

// Keys and values that one policy computed are no others'.
TEST_F(RoutingControlTest, ACachedPrefixServesItsOwnPolicyOnly) {
  Session session(*engine_.model, engine_.tokenizer, *engine_.backend, {.context = 512});
  const std::vector<Policy> policies{nullptr, policy({.top_k = 1}), nullptr, policy({.top_k = 1}),
                                     policy({.top_k = 1})};
  for (const Policy& each : policies) {
    Request r = request(0, each);
    r.sampling.logprobs = 0;
    Answer answer;
    session.submit(r, answer.sink());
    while (session.step()) {
    }
    const Run alone = run({r});
    EXPECT_EQ(answer.tokens, alone.answers[0].tokens);
    EXPECT_EQ(answer.logprobs, alone.answers[0].logprobs);
  }
}

TEST_F(RoutingControlTest, RefusesPoliciesThatDoNotFitTheModel) {
  expect_error([&] { policy({.top_k = 0}); }, "experts per token: expected 1 to 16, got 0");
  expect_error([&] { policy({.top_k = 17}); }, "expected 1 to 16, got 17");
  for (const double temperature : {0.0, -1.0, 1e-4, 1e4, std::nan("")})
    expect_error([&] { policy({.temperature = temperature}); }, "temperature: expected 0.001 to 1000");
  expect_error([&] { policy({.bias = {{6, ramp_}}}); }, "layer 6: expected a layer in [0, 6)");
  expect_error(
      [&] {
        policy({.bias = {{1, {1, 2}}}});
      },
      "bias of layer 1: expected one number for each of 16");
  std::vector<float> wrong = ramp_;
  wrong[3] = std::numeric_limits<float>::quiet_NaN();
  expect_error([&] { policy({.bias = {{1, wrong}}}); }, "bias of layer 1, expert 3");
  expect_error([&] { policy({.strength = 1e7, .bias = {{1, ramp_}}}); }, "strength * bias");
  expect_error([&] { policy({.mask = {{-1, {0}}}}); }, "layer -1");
  expect_error(
      [&] {
        policy({.mask = {{0, {16}}}});
      },
      "mask of layer 0: expected experts in [0, 16), got 16");
  std::vector<int32_t> all_but_three;
  for (int32_t e = 3; e < 16; ++e)
    all_but_three.push_back(e);
  expect_error(
      [&] {
        policy({.mask = {{2, all_but_three}}});
      },
      "layer 2: expected at least 4 allowed experts");
  EXPECT_NO_THROW(policy({.top_k = 3, .mask = {{2, all_but_three}}}));

  ModelShape shape = engine_.model->shape();
  shape.layers[1].experts = 0;
  expect_error(
      [&] {
        make_routing_policy(*engine_.backend, shape, {.mask = {{1, {0}}}});
      },
      "layer 1: expected a layer with experts, got a dense layer");
  shape.experts = 0;
  expect_error([&] { make_routing_policy(*engine_.backend, shape, {}); }, "got a dense model");
  expect_error([&] { check(Capacity{}, shape); }, "got a dense model");
}

// Two of four groups of four are kept, whichever the token prefers: some token may be left with the groups
// that the mask hit.
TEST_F(RoutingControlTest, AMaskMustLeaveEnoughExpertsInWhateverGroupsAreKept) {
  ModelShape shape = engine_.model->shape();
  shape.n_group = 4;
  shape.topk_group = 2;
  const auto make = [&](const RoutingPolicyOptions& options) {
    return make_routing_policy(*engine_.backend, shape, options);
  };
  EXPECT_NO_THROW(make({.mask = {{0, {0, 1, 4, 5}}}}));  // two and two are left
  expect_error(
      [&] {
        make({.mask = {{0, {0, 1, 2, 4, 5}}}});
      },
      "layer 0: expected at least 4 allowed experts in any 2");
  EXPECT_NO_THROW(make({.mask = {{0, {0, 1, 2, 3}}}}));  // a group without experts is never kept
  EXPECT_NO_THROW(make({.mask = {{0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}}}));  // one group is left
  expect_error([&] { make({.top_k = 9}); }, "expected at least 9 allowed experts in any 2 of 4 groups");
}

TEST_F(RoutingControlTest, DecodingUnderACapacityLosesNothing) {
  std::vector<Request> requests;
  for (size_t i = 0; i < 4; ++i)
    requests.push_back({.prompt = references_[i].prompt_ids, .max_tokens = 12});
  for (const Overflow overflow : {Overflow::kDrop, Overflow::kReroute}) {
    // Steps of up to E / K = 4 tokens: prompts in pieces, then the four answers together.
    const SessionOptions limited{
        .context = 1024, .max_batch_tokens = 4, .capacity = Capacity{.overflow = overflow}};
    const Run ours = run(requests, limited);
    EXPECT_EQ(ours.statistics.total_effects().dropped, 0);
    EXPECT_EQ(ours.statistics.total_effects().rerouted, 0);
    for (size_t i = 0; i < 4; ++i) {
      const auto& answer = references_[i].answer_ids;
      const auto length = static_cast<int64_t>(std::min<size_t>(12, answer.size()));
      EXPECT_TRUE(std::equal(answer.begin(), answer.begin() + length, ours.answers[i].tokens.begin())) << i;
    }
  }
}

// The mistake of capacity as it is often written: from one token, whatever the step, and without a lower
// bound.
class CapacityFromOneToken final : public CpuBackend {
 public:
  CapacityFromOneToken() : CpuBackend({.threads = 1, .isa = {}}) {}
  void limit_capacity(const LimitCapacityArgs& args) override {
    LimitCapacityArgs wrong = args;
    wrong.capacity = static_cast<int64_t>(
        std::ceil(static_cast<double>(args.slots) * 2.0 / static_cast<double>(args.experts)));
    CpuBackend::limit_capacity(wrong);
  }
};

TEST_F(RoutingControlTest, ACapacityFromOneTokenWouldDropWhileDecoding) {
  TinyEngine broken(std::make_unique<CapacityFromOneToken>());
  std::vector<Request> requests;
  for (size_t i = 0; i < 4; ++i)
    requests.push_back({.prompt = references_[i].prompt_ids, .max_tokens = 12});
  const SessionOptions options{.context = 1024, .max_batch_tokens = 4, .capacity = Capacity{}};
  const Run wrong = run(broken, requests, options);
  const Run right = run(requests, options);
  EXPECT_GT(wrong.statistics.total_effects().dropped, 0);
  EXPECT_EQ(right.statistics.total_effects().dropped, 0);
  int changed = 0;
  for (size_t i = 0; i < 4; ++i)
    changed += wrong.answers[i].tokens != right.answers[i].tokens;
  EXPECT_GE(changed, 3) << "a mistake that does not show is no test";
}

TEST_F(RoutingControlTest, AssignmentsAreRoutedOrDroppedAndNoExpertTakesMore) {
  std::vector<int32_t> tokens;
  for (const GreedyReference& reference : references_)
    tokens.insert(tokens.end(), reference.prompt_ids.begin(), reference.prompt_ids.end());
  const auto T = static_cast<int64_t>(tokens.size());
  for (const Overflow overflow : {Overflow::kDrop, Overflow::kReroute}) {
    const Capacity capacity{.factor = 1.0, .overflow = overflow};
    const SessionOptions options{.context = 2 * T, .max_batch_tokens = T, .capacity = capacity};
    const Run limited = run({{.prompt = tokens, .max_tokens = 1}}, options);
    for (const auto& [layer, hits] : limited.statistics.hits()) {
      const RoutingEffects& effects = limited.statistics.effects().at(layer);
      EXPECT_EQ(load_figures(hits).assignments + effects.dropped, T * 4) << layer;
      EXPECT_LE(*std::max_element(hits.begin(), hits.end()), capacity_limit(capacity, T, 4, 16)) << layer;
      EXPECT_EQ(effects.rerouted > 0, overflow == Overflow::kReroute) << layer;
      if (overflow == Overflow::kDrop) {
        EXPECT_GT(effects.dropped, 0) << layer;
      }
    }
  }
}

TEST_F(RoutingControlTest, ACalibratedCapacityDropsNothing) {
  std::vector<int32_t> tokens;
  for (const GreedyReference& reference : references_)
    tokens.insert(tokens.end(), reference.prompt_ids.begin(), reference.prompt_ids.end());
  const auto calibrate = [&](int64_t window) {
    return calibrate_capacity(*engine_.backend, *engine_.model, tokens, window, nullptr, [](int64_t) {});
  };
  const CapacityCalibration whole = calibrate(1 << 20);
  EXPECT_EQ(whole.step_tokens, static_cast<int64_t>(tokens.size()));
  ASSERT_EQ(whole.largest_load.size(), 6u);
  const auto traced = trace(*engine_.backend, *engine_.model, {tokens}, {});
  for (const auto& [layer, load] : whole.largest_load) {
    std::vector<int64_t> hits(16, 0);
    for (const int32_t e : traced.at("router." + std::to_string(layer) + ".experts").ids)
      ++hits[static_cast<size_t>(e)];
    EXPECT_EQ(load, *std::max_element(hits.begin(), hits.end())) << layer;
  }
  const CapacityCalibration parts = calibrate(40);
  EXPECT_EQ(parts.step_tokens, 40);
  int64_t largest = 0;
  for (const auto& [layer, load] : parts.largest_load) {
    EXPECT_LE(load, whole.largest_load.at(layer));
    largest = std::max(largest, load);
  }
  const SessionOptions options{
      .context = 1024,
      .max_batch_tokens = 40,
      .capacity = Capacity{.factor = capacity_factor_of(suggested_capacity(largest), 40, 4, 16)}};
  ASSERT_GE(tokens.size(), 80u);
  const std::vector<int32_t> first(tokens.begin(), tokens.begin() + 40);  // a window
  const Run limited = run({{.prompt = first, .max_tokens = 4}}, options);
  EXPECT_EQ(limited.statistics.total_effects().dropped, 0);
  expect_error([&] { calibrate(0); }, "window");
}

TEST(Calibration, Suggests1Point2TimesTheLoadRoundedUp) {
  EXPECT_EQ(suggested_capacity(10), 12);
  EXPECT_EQ(suggested_capacity(11), 14);  // 13.2
  EXPECT_EQ(suggested_capacity(1), 2);
  EXPECT_DOUBLE_EQ(capacity_factor_of(12, 40, 4, 16), 1.2);
  EXPECT_DOUBLE_EQ(capacity_factor_of(13, 30, 4, 16), 1.74);  // 1.7333
  for (int64_t capacity = 1; capacity < 60; ++capacity) {
    const double factor = capacity_factor_of(capacity, 57, 3, 20);
    EXPECT_GE(capacity_limit({.factor = factor}, 57, 3, 20), std::min<int64_t>(capacity, 57));
  }
}

}  // namespace
}  // namespace switchyard
