#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/reference.h"

namespace switchyard {
namespace {

// The slots that hold an assignment, largest weight first; equal ones stay in ascending row and slot. NaN, of
// a row that has been recorded as a fault, is below everything.
std::vector<int64_t> by_priority(const LimitCapacityArgs& a) {
  std::vector<int64_t> order;
  for (int64_t slot = 0; slot < a.rows * a.slots; ++slot) {
    if (a.expert_ids[slot] >= 0) order.push_back(slot);
  }
  const auto priority = [&](int64_t slot) {
    return std::isnan(a.weights[slot]) ? -std::numeric_limits<float>::infinity() : a.weights[slot];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t s, int64_t other) { return priority(s) > priority(other); });
  return order;
}

// The best expert with room for the row that its slots do not hold yet, or -1.
int32_t next_best(const LimitCapacityArgs& a, int64_t row, const std::vector<int64_t>& loads) {
  const float* selection = a.selection + row * a.experts;
  const int32_t* held = a.limited_ids + row * a.slots;
  int32_t best = -1;
  float best_score = -std::numeric_limits<float>::infinity();
  for (int32_t e = 0; e < a.experts; ++e) {
    if (!(selection[e] > best_score) || loads[static_cast<size_t>(e)] >= a.capacity) continue;
    if (std::find(held, held + a.slots, e) != held + a.slots) continue;
    best = e;
    best_score = selection[e];
  }
  return best;
}

// What the row's weights are their scores times: scaling / the sum of the scores that route chose.
float weight_of_score(const LimitCapacityArgs& a, int64_t row) {
  if (!a.normalize) return a.scaling;
  float sum = 0;
  for (int64_t slot = row * a.slots; slot < (row + 1) * a.slots; ++slot)
    sum += a.expert_ids[slot] < 0 ? 0 : a.probabilities[row * a.experts + a.expert_ids[slot]];
  return a.scaling / (sum + a.epsilon);
}

}  // namespace

void ReferenceBackend::limit_capacity(const LimitCapacityArgs& a) {
  std::copy_n(a.expert_ids, a.rows * a.slots, a.limited_ids);
  std::copy_n(a.weights, a.rows * a.slots, a.limited_weights);
  std::vector<int64_t> loads(static_cast<size_t>(a.experts), 0);
  std::vector<int64_t> overflow;  // in the order of priority
  for (const int64_t slot : by_priority(a)) {
    int64_t& load = loads[static_cast<size_t>(a.expert_ids[slot])];
    if (load < a.capacity) {
      ++load;
    } else {
      overflow.push_back(slot);
    }
  }
  for (const int64_t slot : overflow) {
    const int64_t row = slot / a.slots;
    const int32_t e = a.selection == nullptr ? -1 : next_best(a, row, loads);
    a.limited_ids[slot] = e;
    a.limited_weights[slot] = e < 0 ? 0.0f : weight_of_score(a, row) * a.probabilities[row * a.experts + e];
    if (e >= 0) ++loads[static_cast<size_t>(e)];
  }
}

}  // namespace switchyard
