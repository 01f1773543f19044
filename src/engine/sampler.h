// From logits to a token. The steps and their order follow transformers: penalties, temperature, top-k,
// top-p, min-p.
//
//   repetition penalty r: logits of tokens seen in prompt or output are divided by r when positive, else
//     multiplied by r;
//   presence and frequency penalty, as in OpenAI's API: with counts over the output,
//     logit -= presence * [count > 0] + frequency * count;
//   top-k: the k largest logits are kept, equal ones by lower id;
//   top-p: of those, the smallest set of largest ones whose probabilities together reach p;
//   min-p: what is below min_p times the largest probability is dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace switchyard {

struct SamplingParams {
  double temperature = 0.0;  // 0: greedy, ties to the lower id
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  uint64_t seed = 0;
  std::optional<int64_t> logprobs =
      {};  // report each token's, with so many alternatives; they cost a pass over V
};

// Throws Error naming the parameter that is out of range.
void check(const SamplingParams& params, int64_t vocab);

struct SampledToken {
  int32_t id;
  // When asked for: natural logarithm of the model's own probability, before penalties and temperature.
  std::optional<float> logprob;
  std::vector<std::pair<int32_t, float>> top_logprobs;  // most likely first
};

// One sequence's sampler: its random numbers and counts depend on nothing outside the sequence.
class Sampler {
 public:
  Sampler(const SamplingParams& params, std::span<const int32_t> prompt);

  // logits [V], all finite or -inf, at least one finite. Throws Error when they are not.
  SampledToken sample(std::span<const float> logits);

 private:
  struct Candidate {
    int32_t id;
    double logit;  // after temperature, relative to the best one's: at most 0
  };

  bool has_penalties() const;
  std::vector<float> penalised(std::span<const float> logits) const;
  std::vector<Candidate> candidates(std::span<const float> logits) const;  // what may be drawn
  void cut_tail(std::vector<Candidate>& all) const;                        // top-p and min-p
  int32_t draw(const std::vector<Candidate>& candidates);

  SamplingParams params_;
  std::mt19937_64 random_;
  // Of each token in prompt or output: how often it is in the output.
  std::unordered_map<int32_t, int64_t> output_counts_;
};

}  // namespace switchyard
