// The router: scores, groups, the choice and its weights, one row at a time. Bound by exp and, for many
// experts per token, by the insertions of choose_best.
#pragma once

#include "backend/cpu/kernels/softmax.h"

namespace switchyard {
namespace {

inline bool any_nan(const float* x, int64_t count) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i)
    found |= x[i] != x[i];
  return found;
}

inline void softmax(const float* x, int64_t count, float* out) {
  const float total = exp_and_sum(x, count, largest_of(x, count), out);
  for_each_vec(0, count, [&](int64_t i, int64_t n) {
    store_up_to(load_up_to(out + i, n) / Vec::broadcast(total), out + i, n);
  });
}

// Insertion into the list of the best so far; equal scores stay in ascending id.
inline void choose_best(const float* scores, int64_t count, int64_t top_k, int32_t* ids) {
  int64_t chosen = 0;
  for (int64_t e = 0; e < count; ++e) {
    if (chosen == top_k && !(scores[e] > scores[ids[top_k - 1]])) continue;
    int64_t place = chosen < top_k ? chosen++ : top_k - 1;
    for (; place > 0 && scores[e] > scores[ids[place - 1]]; --place)
      ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(e);
  }
}

inline const RoutePolicy* policy_of(const RouteArgs& a, int64_t row) {
  return a.policies == nullptr || a.policy_of_row[row] < 0 ? nullptr : a.policies + a.policy_of_row[row];
}

// The best score of a group, or the sum of its two best, or of the one that it has.
inline float group_score(GroupScore kind, const float* scores, int64_t count) {
  int32_t best[2];
  choose_best(scores, count, smaller(2, count), best);
  const float second = kind == GroupScore::kBestTwo && count > 1 ? scores[best[1]] : -kInfinity;
  return second > -kInfinity ? scores[best[0]] + second : scores[best[0]];
}

inline void exclude_groups(const RouteArgs& a, float* selection) {
  const int64_t size = a.experts / a.groups;
  float scores[kMaxRoutedExperts];
  int32_t kept[kMaxRoutedExperts];
  bool is_kept[kMaxRoutedExperts] = {};
  for (int64_t g = 0; g < a.groups; ++g)
    scores[g] = group_score(a.group_score, selection + g * size, size);
  choose_best(scores, a.groups, a.kept_groups, kept);
  for (int64_t g = 0; g < a.kept_groups; ++g)
    is_kept[kept[g]] = true;
  for (int64_t e = 0; e < a.experts; ++e) {
    if (!is_kept[e / size]) selection[e] = -kInfinity;
  }
}

inline void selection_scores(const RouteArgs& a, const float* scores, const float* addends,
                             float* selection) {
  for_each_vec(0, a.experts, [&](int64_t e, int64_t n) {
    Vec score = load_up_to(scores + e, n);
    if (a.selection_bias != nullptr) score = score + load_up_to(a.selection_bias + e, n);
    store_up_to(score, selection + e, n);
  });
  for (int64_t e = 0; addends != nullptr && e < a.experts; ++e) {
    if (addends[e] == -kInfinity) selection[e] = -kInfinity;
  }
  if (a.kept_groups < a.groups) exclude_groups(a, selection);
}

// logits -> scores. `out` may be `logits`.
inline void router_scores(RouterScore kind, const float* logits, int64_t count, float* out) {
  if (kind == RouterScore::kSoftmax) return softmax(logits, count, out);
  for_each_vec(0, count,
               [&](int64_t e, int64_t n) { store_up_to(sigmoid(load_up_to(logits + e, n)), out + e, n); });
}

inline void apply_policy(const float* logits, const float* addends, float temperature, int64_t count,
                         float* out) {
  const Vec divisor = Vec::broadcast(temperature);
  for_each_vec(0, count, [&](int64_t e, int64_t n) {
    store_up_to((load_up_to(logits + e, n) + load_up_to(addends + e, n)) / divisor, out + e, n);
  });
}

// The sum that the weights of `top_k` experts are divided by.
inline float weight_divisor(const RouteArgs& a, const float* scores, const int32_t* ids, int64_t top_k) {
  if (!a.normalize) return 1;
  float sum = 0;
  for (int64_t k = 0; k < top_k; ++k)
    sum += scores[ids[k]];
  return sum + a.epsilon;
}

inline bool route(const RouteArgs& a, int64_t row) {
  const float* logits = a.logits + row * a.experts;
  float* scores = a.probabilities + row * a.experts;
  int32_t* ids = a.expert_ids + row * a.slots;
  float* weights = a.weights + row * a.slots;
  if (any_nan(logits, a.experts)) return false;

  const RoutePolicy* policy = policy_of(a, row);
  const float* addends = policy == nullptr ? nullptr : policy->addends + a.layer * a.experts;
  const int64_t top_k = policy == nullptr ? a.top_k : policy->top_k;
  if (policy != nullptr) apply_policy(logits, addends, policy->temperature, a.experts, scores);
  router_scores(a.score, policy == nullptr ? logits : scores, a.experts, scores);
  float scratch[kMaxRoutedExperts];
  float* selection = a.selection == nullptr ? scratch : a.selection + row * a.experts;
  selection_scores(a, scores, addends, selection);
  choose_best(selection, a.experts, top_k, ids);
  const float divisor = weight_divisor(a, scores, ids, top_k);
  for (int64_t k = 0; k < top_k; ++k)
    weights[k] = a.scaling * scores[ids[k]] / divisor;
  for (int64_t k = top_k; k < a.slots; ++k) {
    ids[k] = -1;
    weights[k] = 0;
  }
  return true;
}

}  // namespace
}  // namespace switchyard
