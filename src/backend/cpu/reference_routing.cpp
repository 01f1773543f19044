#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/cpu/reference.h"
#include "base/error.h"

namespace switchyard {
namespace {

void softmax(const float* logits, int64_t count, float* out) {
  const double largest = *std::max_element(logits, logits + count);
  double sum = 0;
  for (int64_t e = 0; e < count; ++e)
    sum += std::exp(logits[e] - largest);
  for (int64_t e = 0; e < count; ++e)
    out[e] = static_cast<float>(std::exp(logits[e] - largest) / sum);
}

void sigmoid(const float* logits, int64_t count, float* out) {
  for (int64_t e = 0; e < count; ++e)
    out[e] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logits[e]))));
}

// Indices of the `count` largest scores, best first; equal scores in ascending index.
std::vector<int32_t> best_of(const std::vector<float>& scores, int64_t count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float group_score(GroupScore kind, std::vector<float> group) {
  std::sort(group.begin(), group.end(), std::greater<>());
  const bool two = kind == GroupScore::kBestTwo && group.size() > 1 && group[1] > -kInfinity;
  return two ? group[0] + group[1] : group[0];
}

// Minus infinity, as in transformers' DeepSeek-V3: with 0 an excluded expert would beat one whose biased
// score is negative. Its DeepSeek-V2 does use 0, which is below every softmax probability but one that is 0
// itself and then weighs nothing.
void exclude_groups(const RouteArgs& a, std::vector<float>& selection) {
  const int64_t size = a.experts / a.groups;
  std::vector<float> scores;
  for (auto group = selection.begin(); group != selection.end(); group += size)
    scores.push_back(group_score(a.group_score, {group, group + size}));
  std::vector<bool> kept(scores.size(), false);
  for (const int32_t g : best_of(scores, a.kept_groups))
    kept[static_cast<size_t>(g)] = true;
  for (size_t e = 0; e < selection.size(); ++e) {
    if (!kept[e / static_cast<size_t>(size)]) selection[e] = -std::numeric_limits<float>::infinity();
  }
}

std::vector<float> selection_scores(const RouteArgs& a, const float* scores, const float* addends) {
  std::vector<float> selection(scores, scores + a.experts);
  for (size_t e = 0; e < selection.size(); ++e) {
    if (a.selection_bias != nullptr) selection[e] += a.selection_bias[e];
    if (addends != nullptr && addends[e] == -kInfinity) selection[e] = -kInfinity;
  }
  exclude_groups(a, selection);
  return selection;
}

// The sum that the weights of the experts in `slots` slots are divided by; an id of -1 is none.
double weight_divisor(bool normalize, double epsilon, const float* scores, const int32_t* ids,
                      int64_t slots) {
  if (!normalize) return 1;
  double sum = 0;
  for (int64_t k = 0; k < slots; ++k)
    sum += ids[k] < 0 ? 0.0f : scores[ids[k]];
  return sum + epsilon;
}

const RoutePolicy* policy_of(const RouteArgs& a, int64_t row) {
  return a.policies == nullptr || a.policy_of_row[row] < 0 ? nullptr : a.policies + a.policy_of_row[row];
}

}  // namespace

void ReferenceBackend::fail_route(const RouteArgs& a, int64_t row) {
  const RoutePolicy* policy = policy_of(a, row);
  const int64_t top_k = policy == nullptr ? a.top_k : policy->top_k;
  std::fill_n(a.probabilities + row * a.experts, a.experts, kNan);
  if (a.selection != nullptr) std::fill_n(a.selection + row * a.experts, a.experts, kNan);
  int32_t* ids = a.expert_ids + row * a.slots;
  float* weights = a.weights + row * a.slots;
  std::iota(ids, ids + top_k, 0);
  std::fill(ids + top_k, ids + a.slots, -1);
  std::fill_n(weights, top_k, kNan);
  std::fill(weights + top_k, weights + a.slots, 0.0f);
  const auto key = [](const RoutingFault& f) { return std::pair(f.layer, f.row); };
  const RoutingFault fault{a.layer, row};
  if (!routing_fault_ || key(fault) < key(*routing_fault_)) routing_fault_ = fault;
}

std::optional<RoutingFault> ReferenceBackend::take_routing_fault() {
  return std::exchange(routing_fault_, {});
}

void ReferenceBackend::route(const RouteArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    std::vector<float> logits(a.logits + t * a.experts, a.logits + (t + 1) * a.experts);
    if (std::any_of(logits.begin(), logits.end(), [](float z) { return std::isnan(z); })) {
      fail_route(a, t);
      continue;
    }
    const RoutePolicy* policy = policy_of(a, t);
    const float* addends = policy == nullptr ? nullptr : policy->addends + a.layer * a.experts;
    const int64_t top_k = policy == nullptr ? a.top_k : policy->top_k;
    for (size_t e = 0; policy != nullptr && e < logits.size(); ++e)
      logits[e] = (logits[e] + addends[e]) / policy->temperature;
    float* scores = a.probabilities + t * a.experts;
    (a.score == RouterScore::kSoftmax ? softmax : sigmoid)(logits.data(), a.experts, scores);
    const std::vector<float> selection = selection_scores(a, scores, addends);
    if (a.selection != nullptr) std::copy(selection.begin(), selection.end(), a.selection + t * a.experts);
    const std::vector<int32_t> chosen = best_of(selection, top_k);
    const double divisor = weight_divisor(a.normalize, a.epsilon, scores, chosen.data(), top_k);
    for (int64_t k = 0; k < a.slots; ++k) {
      const int32_t id = k < top_k ? chosen[static_cast<size_t>(k)] : -1;
      a.expert_ids[t * a.slots + k] = id;
      a.weights[t * a.slots + k] = id < 0 ? 0.0f : static_cast<float>(a.scaling * scores[id] / divisor);
    }
  }
}

namespace {

// Adds to d_s the gradient of the scores s through the weights w_k = scaling * s_k / z, z = weight_divisor:
// d_s_k += scaling / z * (d_w_k - sum_j d_w_j s_j / z), without the sum where z is the constant 1.
void add_weights_backward(const RouteArgs& a, const float* s, const int32_t* ids, const float* d_w,
                          std::vector<double>& d_s) {
  const double z = weight_divisor(a.normalize, a.epsilon, s, ids, a.slots);
  double dot = 0;
  for (int64_t k = 0; a.normalize && k < a.slots; ++k)
    dot += static_cast<double>(d_w[k]) * s[ids[k]] / z;
  for (int64_t k = 0; k < a.slots; ++k)
    d_s[static_cast<size_t>(ids[k])] += a.scaling * (d_w[k] - dot) / z;
}

}  // namespace

// Through the softmax: d_l = s (d_s - d_s . s). Through the sigmoid: d_l = s (d_s - d_s s).
void ReferenceBackend::route_backward(const RouteBackwardArgs& a) {
  const RouteArgs& f = a.forward;
  SY_CHECK(f.policies == nullptr, "the backward pass of {} routing policies", "no");
  for (int64_t t = 0; t < f.rows; ++t) {
    const float* s = f.probabilities + t * f.experts;
    std::vector<double> d_s(static_cast<size_t>(f.experts), 0.0);
    if (a.d_probabilities != nullptr) {
      std::copy_n(a.d_probabilities + t * f.experts, f.experts, d_s.begin());
    }
    if (a.d_weights != nullptr) {
      add_weights_backward(f, s, f.expert_ids + t * f.slots, a.d_weights + t * f.slots, d_s);
    }
    const double dot = std::inner_product(d_s.begin(), d_s.end(), s, 0.0);
    for (int64_t e = 0; e < f.experts; ++e) {
      const double d = d_s[static_cast<size_t>(e)];
      const double mean = f.score == RouterScore::kSoftmax ? dot : d * s[e];
      a.d_logits[t * f.experts + e] += static_cast<float>(s[e] * (d - mean));
    }
  }
}

void ReferenceBackend::routing_sums(const RoutingSumsArgs& a) {
  for (int64_t slot = 0; slot < a.rows * a.top_k; ++slot) {
    if (a.expert_ids[slot] >= 0) a.hits[a.expert_ids[slot]] += 1;
  }
  for (int64_t e = 0; e < a.experts; ++e) {
    double sum = a.probability_sums[e];
    for (int64_t t = 0; t < a.rows; ++t)
      sum += a.probabilities[t * a.experts + e];
    a.probability_sums[e] = static_cast<float>(sum);
  }
}

void ReferenceBackend::balance_loss(const BalanceLossArgs& a) {
  if (a.total_rows == 0) return;
  const auto rows = static_cast<double>(a.total_rows);
  double sum = 0;
  for (int64_t e = 0; e < a.experts; ++e)
    sum += (a.hits[e] / rows) * (a.probability_sums[e] / rows);
  a.loss[0] += static_cast<float>(a.scale * static_cast<double>(a.experts) * sum);
}

void ReferenceBackend::balance_loss_backward(const BalanceLossBackwardArgs& a) {
  const auto total = static_cast<double>(a.total_rows);
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t e = 0; e < a.experts; ++e) {
      const double slope = a.scale * static_cast<double>(a.experts) * a.hits[e] / (total * total);
      a.d_probabilities[t * a.experts + e] += static_cast<float>(a.d_loss[0] * slope);
    }
  }
}

}  // namespace switchyard
