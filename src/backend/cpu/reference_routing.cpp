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

float group_score(GroupScore kind, std::vector<float> group) {
  std::sort(group.begin(), group.end(), std::greater<>());
  return kind == GroupScore::kBestTwo && group.size() > 1 ? group[0] + group[1] : group[0];
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

std::vector<float> selection_scores(const RouteArgs& a, const float* scores) {
  std::vector<float> selection(scores, scores + a.experts);
  for (size_t e = 0; a.selection_bias != nullptr && e < selection.size(); ++e)
    selection[e] += a.selection_bias[e];
  exclude_groups(a, selection);
  return selection;
}

// The sum that weights are divided by.
double weight_divisor(const RouteArgs& a, const float* scores, const int32_t* ids) {
  if (!a.normalize) return 1;
  double sum = 0;
  for (int64_t k = 0; k < a.top_k; ++k)
    sum += scores[ids[k]];
  return sum + a.epsilon;
}

}  // namespace

void ReferenceBackend::record_routing_fault(RoutingFault fault) {
  const auto key = [](const RoutingFault& f) { return std::pair(f.layer, f.row); };
  if (!routing_fault_ || key(fault) < key(*routing_fault_)) routing_fault_ = fault;
}

std::optional<RoutingFault> ReferenceBackend::take_routing_fault() {
  return std::exchange(routing_fault_, {});
}

void ReferenceBackend::route(const RouteArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    const float* logits = a.logits + t * a.experts;
    float* probabilities = a.probabilities + t * a.experts;
    int32_t* ids = a.expert_ids + t * a.top_k;
    float* weights = a.weights + t * a.top_k;
    if (std::any_of(logits, logits + a.experts, [](float z) { return std::isnan(z); })) {
      record_routing_fault({a.layer, t});
      std::fill_n(probabilities, a.experts, std::numeric_limits<float>::quiet_NaN());
      std::iota(ids, ids + a.top_k, 0);
      std::fill_n(weights, a.top_k, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    (a.score == RouterScore::kSoftmax ? softmax : sigmoid)(logits, a.experts, probabilities);
    const std::vector<int32_t> chosen = best_of(selection_scores(a, probabilities), a.top_k);
    std::copy(chosen.begin(), chosen.end(), ids);
    const double divisor = weight_divisor(a, probabilities, ids);
    for (int64_t k = 0; k < a.top_k; ++k)
      weights[k] = static_cast<float>(a.scaling * probabilities[ids[k]] / divisor);
  }
}

namespace {

// Adds to d_s the gradient of the scores s through the weights w_k = scaling * s_k / z, z = weight_divisor:
// d_s_k += scaling / z * (d_w_k - sum_j d_w_j s_j / z), without the sum where z is the constant 1.
void add_weights_backward(const RouteArgs& a, const float* s, const int32_t* ids, const float* d_w,
                          std::vector<double>& d_s) {
  const double z = weight_divisor(a, s, ids);
  double dot = 0;
  for (int64_t k = 0; a.normalize && k < a.top_k; ++k)
    dot += static_cast<double>(d_w[k]) * s[ids[k]] / z;
  for (int64_t k = 0; k < a.top_k; ++k)
    d_s[static_cast<size_t>(ids[k])] += a.scaling * (d_w[k] - dot) / z;
}

}  // namespace

// Through the softmax: d_l = s (d_s - d_s . s). Through the sigmoid: d_l = s (d_s - d_s s).
void ReferenceBackend::route_backward(const RouteBackwardArgs& a) {
  const RouteArgs& f = a.forward;
  for (int64_t t = 0; t < f.rows; ++t) {
    const float* s = f.probabilities + t * f.experts;
    std::vector<double> d_s(static_cast<size_t>(f.experts), 0.0);
    if (a.d_probabilities != nullptr) {
      std::copy_n(a.d_probabilities + t * f.experts, f.experts, d_s.begin());
    }
    if (a.d_weights != nullptr) {
      add_weights_backward(f, s, f.expert_ids + t * f.top_k, a.d_weights + t * f.top_k, d_s);
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
  for (int64_t slot = 0; slot < a.rows * a.top_k; ++slot)
    a.hits[a.expert_ids[slot]] += 1;
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
