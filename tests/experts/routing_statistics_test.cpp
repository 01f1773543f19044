#include "experts/routing_statistics.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "ops/routing.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

TEST(LoadFigures, OfAnEvenLoad) {
  const LoadFigures figures = load_figures({5, 5, 5, 5, 5, 5, 5, 5});
  EXPECT_EQ(figures.assignments, 40);
  EXPECT_EQ(figures.load_std, 0);
  EXPECT_EQ(figures.load_variance, 0);
  EXPECT_EQ(figures.max_over_mean, 1);
  EXPECT_EQ(figures.dead_experts, 0);
  EXPECT_DOUBLE_EQ(figures.entropy_bits, 3);
}

TEST(LoadFigures, OfALoadCollapsedToOneExpert) {
  for (const size_t experts : {2, 16, 60}) {
    std::vector<int64_t> hits(experts, 0);
    hits[experts / 2] = 123;
    const LoadFigures figures = load_figures(hits);
    const auto E = static_cast<double>(experts);
    EXPECT_NEAR(figures.load_variance, E - 1, 1e-12 * E);
    EXPECT_NEAR(figures.load_std, std::sqrt(E - 1) / E, 1e-12);
    EXPECT_NEAR(figures.max_over_mean, E, 1e-12 * E);
    EXPECT_EQ(figures.dead_experts, static_cast<int64_t>(experts) - 1);
    EXPECT_EQ(figures.entropy_bits, 0);
  }
}

// Shares 1/2, 1/4, 1/4, 0; hits over their mean of 2: 2, 1, 1, 0.
TEST(LoadFigures, ByHand) {
  const LoadFigures figures = load_figures({4, 2, 2, 0});
  EXPECT_EQ(figures.assignments, 8);
  EXPECT_DOUBLE_EQ(figures.load_variance, 0.5);                     // (1 + 0 + 0 + 1) / 4
  EXPECT_DOUBLE_EQ(figures.load_std, std::sqrt((0.0625 * 2) / 4));  // of the shares, around 1/4
  EXPECT_DOUBLE_EQ(figures.max_over_mean, 2);
  EXPECT_EQ(figures.dead_experts, 1);
  EXPECT_DOUBLE_EQ(figures.entropy_bits, 1.5);  // 1/2 * 1 + 2 * 1/4 * 2
}

TEST(LoadFigures, OfNothingAreZero) {
  const LoadFigures figures = load_figures({0, 0, 0});
  EXPECT_EQ(figures.assignments, 0);
  EXPECT_EQ(figures.load_variance, 0);
  EXPECT_EQ(figures.dead_experts, 0);
}

TEST(RoutingStatistics, AccumulateByLayer) {
  RoutingStatistics statistics;
  EXPECT_EQ(statistics.mean_over_layers().assignments, 0);
  statistics.add(1, 4, {0, 1, 1, 3});
  statistics.add(5, 4, {2});
  statistics.add(1, 4, {3, -1, 3, -1});  // two slots without an expert
  statistics.add(1, RoutingEffects{.dropped = 2, .rerouted = 1});
  statistics.add(1, RoutingEffects{.policy_changed = 4});
  ASSERT_EQ(statistics.hits().size(), 2u);
  EXPECT_THAT(statistics.hits().at(1), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(statistics.hits().at(5), ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(statistics.effects().size(), 1u);
  EXPECT_EQ(statistics.effects().at(1).dropped, 2);
  EXPECT_EQ(statistics.total_effects().rerouted, 1);
  EXPECT_EQ(statistics.total_effects().policy_changed, 4);
  statistics.clear();
  EXPECT_TRUE(statistics.hits().empty());
  EXPECT_TRUE(statistics.effects().empty());
}

// One layer sends everything to expert 0, three are even: the mean looks harmless, the layer does not.
TEST(RoutingStatistics, AMeanOverLayersHidesACollapsedLayer) {
  RoutingStatistics statistics;
  for (const int layer : {0, 1, 2})
    statistics.add(layer, 4, {0, 1, 2, 3});
  statistics.add(3, 4, {0, 0, 0, 0});
  const LoadFigures mean = statistics.mean_over_layers();
  const LoadFigures collapsed = load_figures(statistics.hits().at(3));
  EXPECT_EQ(mean.assignments, 16);
  EXPECT_EQ(mean.dead_experts, 3);
  EXPECT_DOUBLE_EQ(mean.load_variance, 3.0 / 4);
  EXPECT_DOUBLE_EQ(mean.max_over_mean, (1 + 1 + 1 + 4) / 4.0);
  EXPECT_DOUBLE_EQ(mean.entropy_bits, (2 + 2 + 2 + 0) / 4.0);
  EXPECT_DOUBLE_EQ(collapsed.load_variance, 3);
  EXPECT_DOUBLE_EQ(collapsed.max_over_mean, 4);
}

TEST(RoutingRecorder, KeepsEachLayersChoicesOnTheHost) {
  ReferenceBackend backend;
  Arena arena(backend.memory());
  RoutingRecorder recorder(backend);
  Context c{.backend = backend, .arena = arena, .tape = nullptr, .observer = &recorder};
  const Tensor logits = Tensor::empty(arena, DType::kF32, {2, 3});
  const std::vector<float> values{0, 2, 1, 3, 0, 0};
  backend.copy_from_host(logits.mutable_data(), values.data(), logits.bytes());
  route(c, logits, {.top_k = 2, .normalize = true}, {}, 4);
  ASSERT_EQ(recorder.choices().size(), 1u);
  const RoutingRecorder::LayerChoice& choice = recorder.choices()[0];
  EXPECT_EQ(choice.layer, 4);
  EXPECT_EQ(choice.experts, 3);
  EXPECT_EQ(choice.top_k, 2);
  EXPECT_THAT(choice.expert_ids, ElementsAre(1, 2, 0, 1));
  EXPECT_NEAR(choice.weights[0], std::exp(2.0) / (std::exp(2.0) + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(choice.weights[2] + choice.weights[3], 1, 1e-6);
  recorder.clear();
  EXPECT_TRUE(recorder.choices().empty());
}

}  // namespace
}  // namespace switchyard
