#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "engine/logits.h"

namespace switchyard {
namespace {

void check_range(const char* name, double value, double min, double max) {
  if (value >= min && value <= max) return;  // NaN fails both
  throw Error("sampling", name, fmt::format("a number in [{}, {}]", min, max), fmt::format("{}", value));
}

// Best first; equal logits by lower id.
constexpr auto kBetter = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

void check_numbers(std::span<const float> logits) {
  if (std::isfinite(logits[static_cast<size_t>(most_likely(logits))]) &&
      std::none_of(logits.begin(), logits.end(), [](float z) { return std::isnan(z); })) {
    return;
  }
  throw Error("sampling", "logits", "numbers", "NaN or infinity: the weights are broken");
}

std::vector<std::pair<int32_t, float>> top_logprobs(std::span<const float> logits, double log_sum,
                                                    int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<int64_t>(count, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float za = logits[static_cast<size_t>(a)];
    const float zb = logits[static_cast<size_t>(b)];
    return za > zb || (za == zb && a < b);
  });
  std::vector<std::pair<int32_t, float>> likely;
  for (auto id = ids.begin(); id != end; ++id) {
    likely.emplace_back(*id, static_cast<float>(logits[static_cast<size_t>(*id)] - log_sum));
  }
  return likely;
}

}  // namespace

void check(const SamplingParams& params, int64_t vocab) {
  check_range("temperature", params.temperature, 0, 100);
  check_range("top_k", static_cast<double>(params.top_k), 0, static_cast<double>(INT32_MAX));
  check_range("top_p", params.top_p, 1e-9, 1);
  check_range("min_p", params.min_p, 0, 1);
  check_range("repetition_penalty", params.repetition_penalty, 1e-3, 1000);
  check_range("presence_penalty", params.presence_penalty, -100, 100);
  check_range("frequency_penalty", params.frequency_penalty, -100, 100);
  check_range("logprobs", static_cast<double>(params.logprobs.value_or(0)), 0, static_cast<double>(vocab));
}

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> prompt)
    : params_(params), random_(params.seed) {
  for (const int32_t id : prompt)
    output_counts_.try_emplace(id, 0);
}

SampledToken Sampler::sample(std::span<const float> logits) {
  check_numbers(logits);
  const std::vector<float> changed = has_penalties() ? penalised(logits) : std::vector<float>();
  const std::span<const float> used = changed.empty() ? logits : std::span<const float>(changed);
  SampledToken token{.id = params_.temperature == 0 ? most_likely(used) : draw(candidates(used)),
                     .logprob = {},
                     .top_logprobs = {}};
  ++output_counts_[token.id];
  if (params_.logprobs) {
    const double log_sum = log_sum_exp(logits);
    token.logprob = static_cast<float>(logits[static_cast<size_t>(token.id)] - log_sum);
    token.top_logprobs = top_logprobs(logits, log_sum, *params_.logprobs);
  }
  return token;
}

bool Sampler::has_penalties() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

std::vector<float> Sampler::penalised(std::span<const float> logits) const {
  std::vector<float> result(logits.begin(), logits.end());
  for (const auto& [id, count] : output_counts_) {
    double logit = result[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    logit -= params_.presence_penalty * (count > 0 ? 1 : 0);
    logit -= params_.frequency_penalty * static_cast<double>(count);
    result[static_cast<size_t>(id)] = static_cast<float>(logit);
  }
  return result;
}

std::vector<Sampler::Candidate> Sampler::candidates(std::span<const float> logits) const {
  std::vector<Candidate> all;
  all.reserve(logits.size());
  const double largest = logits[static_cast<size_t>(most_likely(logits))];
  for (size_t id = 0; id < logits.size(); ++id) {
    // Relative to the best, so that no temperature is too small: a quotient may be -inf, never +inf.
    all.push_back({static_cast<int32_t>(id), (logits[id] - largest) / params_.temperature});
  }
  const auto top_k = static_cast<size_t>(params_.top_k);
  if (top_k > 0 && top_k < all.size()) {
    std::partial_sort(all.begin(), all.begin() + params_.top_k, all.end(), kBetter);
    all.resize(top_k);
  }
  if (params_.top_p < 1 || params_.min_p > 0) cut_tail(all);
  return all;
}

// What is kept is mostly a small part of a large vocabulary, so a growing head is sorted instead of
// everything.
void Sampler::cut_tail(std::vector<Candidate>& all) const {
  double total = 0;
  for (const Candidate& c : all)
    total += std::exp(c.logit);
  for (size_t head = 64;; head *= 8) {
    head = std::min(head, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<int64_t>(head), all.end(), kBetter);
    double before = 0;  // probability of the better ones
    size_t kept = 0;
    for (; kept < head; ++kept) {
      const double relative = std::exp(all[kept].logit);  // to the most likely
      if (kept > 0 && (before >= params_.top_p || relative < params_.min_p)) break;
      before += relative / total;
    }
    if (kept == head && head < all.size()) continue;
    all.resize(kept);
    return;
  }
}

int32_t Sampler::draw(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& c : candidates)
    total += std::exp(c.logit);
  // 53 random bits, written out since the standard leaves its distributions' algorithms open.
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  for (const Candidate& c : candidates) {
    left -= std::exp(c.logit);
    if (left < 0) return c.id;
  }
  return candidates.back().id;
}

}  // namespace switchyard
