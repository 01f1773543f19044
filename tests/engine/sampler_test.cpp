#include "engine/sampler.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace switchyard {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities)
    logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> probabilities;
  double sum = 0;
  for (const double z : logits)
    sum += std::exp(z);
  for (const double z : logits)
    probabilities.push_back(std::exp(z) / sum);
  return probabilities;
}

// Makes the sampler choose `token`, so that it counts as output.
void force(Sampler& sampler, int32_t token, size_t vocab) {
  std::vector<float> logits(vocab, -kInfinity);
  logits[static_cast<size_t>(token)] = 0;
  ASSERT_EQ(sampler.sample(logits).id, token);
}

struct History {
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;
};

// Draws the token after `history` with many seeds; each frequency must be within five standard deviations.
void expect_distribution(SamplingParams params, const std::vector<float>& logits,
                         const std::vector<double>& want, const History& history = {}) {
  constexpr int kDraws = 10000;
  std::vector<int> hits(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    params.seed = static_cast<uint64_t>(i);
    Sampler sampler(params, history.prompt);
    for (const int32_t token : history.output)
      force(sampler, token, logits.size());
    ++hits[static_cast<size_t>(sampler.sample(logits).id)];
  }
  for (size_t id = 0; id < want.size(); ++id) {
    const double deviation = std::sqrt(want[id] * (1 - want[id]) / kDraws);
    EXPECT_NEAR(static_cast<double>(hits[id]) / kDraws, want[id], 5 * deviation) << "token " << id;
  }
}

int32_t greedy(const SamplingParams& params, const std::vector<float>& logits, const History& history = {}) {
  Sampler sampler(params, history.prompt);
  for (const int32_t token : history.output)
    force(sampler, token, logits.size());
  return sampler.sample(logits).id;
}

const std::vector<float> kLogits = logs({0.1, 0.5, 0.15, 0.25});

TEST(Sampler, GreedyTakesTheLargestAndOfEqualOnesTheLowerId) {
  EXPECT_EQ(greedy({}, kLogits), 1);
  EXPECT_EQ(greedy({}, {0, 2, 1, 2}), 1);
  EXPECT_EQ(greedy({}, {-1, -1, -1}), 0);
}

TEST(Sampler, TemperatureOneDrawsFromTheModelsDistribution) {
  expect_distribution({.temperature = 1}, kLogits, {0.1, 0.5, 0.15, 0.25});
}

TEST(Sampler, TemperatureHalfSquaresTheProbabilities) {
  expect_distribution({.temperature = 0.5}, kLogits,
                      {0.01 / 0.345, 0.25 / 0.345, 0.0225 / 0.345, 0.0625 / 0.345});
}

TEST(Sampler, AlmostNoTemperatureIsGreedy) {
  for (const double temperature : {1e-3, 1e-30, 1e-310}) {
    EXPECT_EQ(greedy({.temperature = temperature}, {10, 30, -20, 29.5}), 1) << temperature;
  }
}

TEST(Sampler, TopKKeepsTheLargest) {
  expect_distribution({.temperature = 1, .top_k = 2}, kLogits, {0, 2.0 / 3, 0, 1.0 / 3});
  expect_distribution({.temperature = 1, .top_k = 100}, kLogits, {0.1, 0.5, 0.15, 0.25});
  EXPECT_EQ(greedy({.temperature = 1, .top_k = 1}, {0, 2, 1, 2}), 1) << "equal ones by lower id";
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesP) {
  expect_distribution({.temperature = 1, .top_p = 0.49}, kLogits, {0, 1, 0, 0});
  expect_distribution({.temperature = 1, .top_p = 0.7}, kLogits, {0, 2.0 / 3, 0, 1.0 / 3});
  expect_distribution({.temperature = 1, .top_p = 0.76}, kLogits, {0, 0.5 / 0.9, 0.15 / 0.9, 0.25 / 0.9});
}

TEST(Sampler, TopPCountsProbabilitiesAfterTemperatureAndTopK) {
  // Squared probabilities: 0.25 / 0.345 is 0.72 already.
  expect_distribution({.temperature = 0.5, .top_p = 0.7}, kLogits, {0, 1, 0, 0});
  // Of the best three, two have 0.75 / 0.9 = 0.83.
  expect_distribution({.temperature = 1, .top_k = 3, .top_p = 0.8}, kLogits, {0, 2.0 / 3, 0, 1.0 / 3});
}

TEST(Sampler, MinPDropsWhatIsFarBelowTheLargest) {
  expect_distribution({.temperature = 1, .min_p = 0.4}, kLogits, {0, 2.0 / 3, 0, 1.0 / 3});
  expect_distribution({.temperature = 1, .min_p = 0.25}, kLogits, {0, 0.5 / 0.9, 0.15 / 0.9, 0.25 / 0.9});
  expect_distribution({.temperature = 1, .min_p = 1}, kLogits, {0, 1, 0, 0});
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogitsOfPromptAndOutput) {
  const History history{.prompt = {0}, .output = {2, 2}};
  expect_distribution({.temperature = 1, .repetition_penalty = 2}, {2, 1, -1, 0}, softmax({1, 1, -2, 0}),
                      history);
  EXPECT_EQ(greedy({.repetition_penalty = 2.5}, {2, 1, -1, 0}, history), 1);
}

TEST(Sampler, PresenceAndFrequencyPenaltiesCountTheOutputOnly) {
  const History history{.prompt = {2, 2}, .output = {0, 0, 1}};
  const std::vector<float> logits{1, 1, 0, 0.5};
  expect_distribution({.temperature = 1, .presence_penalty = 0.5}, logits, softmax({0.5, 0.5, 0, 0.5}),
                      history);
  expect_distribution({.temperature = 1, .frequency_penalty = 0.5}, logits, softmax({0, 0.5, 0, 0.5}),
                      history);
  expect_distribution({.temperature = 1, .presence_penalty = 0.5, .frequency_penalty = -0.25}, logits,
                      softmax({1, 0.75, 0, 0.5}), history);
}

TEST(Sampler, ImpossibleTokensAreNeverDrawn) {
  expect_distribution({.temperature = 1}, {0, -kInfinity, 0, -kInfinity}, {0.5, 0, 0.5, 0});
  expect_distribution({.temperature = 1, .repetition_penalty = 2, .presence_penalty = 1},
                      {0, -kInfinity, 0, -kInfinity}, {0.5, 0, 0.5, 0}, {.prompt = {1}, .output = {}});
}

std::vector<int32_t> draws(uint64_t seed) {
  Sampler sampler({.temperature = 1.5, .seed = seed}, {});
  std::vector<int32_t> ids;
  for (int i = 0; i < 50; ++i)
    ids.push_back(sampler.sample(kLogits).id);
  return ids;
}

TEST(Sampler, EqualSeedsGiveEqualTokens) {
  EXPECT_EQ(draws(7), draws(7));
  EXPECT_NE(draws(7), draws(8));
}

// More tokens survive than are sorted at first: of 1,000 equal ones, half of the probability is the first
// 500.
TEST(Sampler, TopPCutsALongEvenTail) {
  Sampler sampler({.temperature = 1, .top_p = 0.5, .seed = 5}, {});
  const std::vector<float> logits(1000, 1.5f);
  int32_t largest = 0;
  for (int i = 0; i < 5000; ++i)
    largest = std::max(largest, sampler.sample(logits).id);
  EXPECT_LE(largest, 500);  // the sum of 500 thousandths may fall just short of a half
  EXPECT_GT(largest, 480);
}

TEST(Sampler, LogprobsAreTheModelsOwnWhateverTheSettings) {
  const SamplingParams params{.temperature = 0.3,
                              .top_k = 2,
                              .repetition_penalty = 1.5,
                              .presence_penalty = 1,
                              .seed = 3,
                              .logprobs = 3};
  Sampler sampler(params, std::vector<int32_t>{1, 2});
  const std::vector<float> logits{1.0f, 3.0f, 2.0f, 3.0f};
  const std::vector<double> want = softmax({1, 3, 2, 3});
  const auto log_of = [&](int32_t id) { return std::log(want[static_cast<size_t>(id)]); };
  for (int i = 0; i < 20; ++i) {
    const SampledToken token = sampler.sample(logits);
    EXPECT_NEAR(token.logprob.value(), log_of(token.id), 1e-6);
    ASSERT_EQ(token.top_logprobs.size(), 3u);
    EXPECT_EQ(token.top_logprobs[0].first, 1) << "equal ones by lower id";
    EXPECT_EQ(token.top_logprobs[1].first, 3);
    EXPECT_EQ(token.top_logprobs[2].first, 2);
    for (const auto& [id, logprob] : token.top_logprobs)
      EXPECT_NEAR(logprob, log_of(id), 1e-6);
  }
  EXPECT_FALSE(Sampler({}, {}).sample(logits).logprob.has_value());
  const SampledToken alone = Sampler({.logprobs = 0}, {}).sample(logits);
  EXPECT_TRUE(alone.logprob.has_value());
  EXPECT_THAT(alone.top_logprobs, testing::IsEmpty());
}

TEST(Sampler, LogitsThatAreNotNumbersAreRefused) {
  for (const std::vector<float>& logits :
       {std::vector<float>{0, kNaN, 1}, {kNaN, 0, 1}, {0, kInfinity, 1}, {-kInfinity, -kInfinity}, {kNaN}}) {
    expect_error([&] { Sampler({}, {}).sample(logits); }, "logits: expected numbers");
    expect_error([&] { Sampler({.temperature = 1}, {}).sample(logits); }, "logits: expected numbers");
  }
}

TEST(Sampler, ParametersOutOfRangeAreRefusedByName) {
  constexpr int64_t kVocab = 4;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<SamplingParams, const char*>> wrong{
      {{.temperature = -0.1}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.temperature = 101}, "temperature"},
      {{.top_k = -1}, "top_k"},
      {{.top_p = 0}, "top_p"},
      {{.top_p = 1.01}, "top_p"},
      {{.min_p = -0.01}, "min_p"},
      {{.min_p = 1.01}, "min_p"},
      {{.repetition_penalty = 0}, "repetition_penalty"},
      {{.repetition_penalty = nan}, "repetition_penalty"},
      {{.presence_penalty = 101}, "presence_penalty"},
      {{.frequency_penalty = -101}, "frequency_penalty"},
      {{.logprobs = -1}, "logprobs"},
      {{.logprobs = kVocab + 1}, "logprobs"},
  };
  for (const auto& [params, parameter] : wrong) {
    expect_error([&p = params] { check(p, kVocab); },
                 std::string("sampling: ") + parameter + ": expected a number in [");
  }
  check({}, kVocab);
  check({.temperature = 2, .top_k = kVocab, .top_p = 1, .min_p = 1, .logprobs = kVocab}, kVocab);
}

}  // namespace
}  // namespace switchyard
