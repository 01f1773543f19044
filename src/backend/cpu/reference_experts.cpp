#include <algorithm>
#include <cmath>
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

// Ids of the `top_k` largest scores, best first; equal scores in ascending id.
void choose_best(const float* scores, int64_t count, int64_t top_k, int32_t* ids) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  std::copy_n(order.begin(), top_k, ids);
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
    softmax(logits, a.experts, probabilities);
    choose_best(probabilities, a.experts, a.top_k, ids);
    double sum = 0;
    for (int64_t k = 0; k < a.top_k; ++k)
      sum += probabilities[ids[k]];
    for (int64_t k = 0; k < a.top_k; ++k) {
      weights[k] = static_cast<float>(a.scaling * probabilities[ids[k]] / (a.normalize ? sum : 1.0));
    }
  }
}

// Through the weights: w_k = scaling * p_k / z gives d_p_k = scaling / z * (d_w_k - sum_j d_w_j p_j / z) with
// z the sum of the chosen p when normalised, else d_p_k = scaling * d_w_k.
// Through the softmax: d_l = p (d_p - d_p . p).
void ReferenceBackend::route_backward(const RouteBackwardArgs& a) {
  const RouteArgs& f = a.forward;
  for (int64_t t = 0; t < f.rows; ++t) {
    const float* p = f.probabilities + t * f.experts;
    const int32_t* ids = f.expert_ids + t * f.top_k;
    std::vector<double> d_p(static_cast<size_t>(f.experts), 0.0);
    if (a.d_probabilities != nullptr) {
      std::copy_n(a.d_probabilities + t * f.experts, f.experts, d_p.begin());
    }
    if (a.d_weights != nullptr) {
      const float* d_w = a.d_weights + t * f.top_k;
      double z = 1;
      double dot = 0;
      if (f.normalize) {
        z = 0;
        for (int64_t k = 0; k < f.top_k; ++k)
          z += p[ids[k]];
        for (int64_t k = 0; k < f.top_k; ++k)
          dot += static_cast<double>(d_w[k]) * p[ids[k]] / z;
      }
      for (int64_t k = 0; k < f.top_k; ++k)
        d_p[static_cast<size_t>(ids[k])] += f.scaling * (d_w[k] - dot) / z;
    }
    double dot = 0;
    for (int64_t e = 0; e < f.experts; ++e)
      dot += d_p[static_cast<size_t>(e)] * p[e];
    for (int64_t e = 0; e < f.experts; ++e) {
      a.d_logits[t * f.experts + e] += static_cast<float>(p[e] * (d_p[static_cast<size_t>(e)] - dot));
    }
  }
}

void ReferenceBackend::dispatch_plan(const DispatchPlanArgs& a) {
  int32_t row = 0;
  for (int64_t e = 0; e < a.experts; ++e) {
    a.offsets[e] = row;
    for (int64_t slot = 0; slot < a.rows * a.top_k; ++slot) {
      if (a.expert_ids[slot] != e) continue;
      a.token_of_row[row] = static_cast<int32_t>(slot / a.top_k);
      a.row_of_slot[slot] = row++;
    }
  }
  a.offsets[a.experts] = row;
  SY_CHECK(row == a.rows * a.top_k, "{} of {} assignments name an expert in [0, {})", row, a.rows * a.top_k,
           a.experts);
}

void ReferenceBackend::expert_linear(const ExpertLinearArgs& a) {
  for (int64_t e = 0; e < a.experts; ++e) {
    const int64_t begin = a.offsets[e];
    ReferenceBackend::linear({.x = a.x + begin * a.in_features,
                              .weight = a.weights[e],
                              .bias = nullptr,
                              .bias_dtype = DType::kF32,
                              .rows = a.offsets[e + 1] - begin,
                              .out = a.out + begin * a.out_features});
  }
}

void ReferenceBackend::expert_linear_backward_input(const ExpertLinearBackwardInputArgs& a) {
  for (int64_t e = 0; e < a.experts; ++e) {
    const int64_t begin = a.offsets[e];
    ReferenceBackend::linear_backward_input({.d_out = a.d_out + begin * a.out_features,
                                             .weight = a.weights[e],
                                             .rows = a.offsets[e + 1] - begin,
                                             .d_x = a.d_x + begin * a.in_features});
  }
}

void ReferenceBackend::expert_linear_backward_weight(const ExpertLinearBackwardWeightArgs& a) {
  for (int64_t e = 0; e < a.experts; ++e) {
    if (a.d_weights[e] == nullptr) continue;
    const int64_t begin = a.offsets[e];
    ReferenceBackend::linear_backward_weight({.d_out = a.d_out + begin * a.out_features,
                                              .x = a.x + begin * a.in_features,
                                              .rows = a.offsets[e + 1] - begin,
                                              .out_features = a.out_features,
                                              .in_features = a.in_features,
                                              .d_weight = a.d_weights[e],
                                              .d_bias = nullptr});
  }
}

void ReferenceBackend::combine(const CombineArgs& a) {
  for (int64_t t = 0; t < a.rows; ++t) {
    for (int64_t d = 0; d < a.cols; ++d) {
      double sum = a.accumulate ? a.out[t * a.cols + d] : 0.0;
      for (int64_t k = 0; k < a.top_k; ++k) {
        const int64_t slot = t * a.top_k + k;
        const double weight = a.weights == nullptr ? 1.0 : a.weights[slot];
        sum += weight * a.y[a.row_of_slot[slot] * a.cols + d];
      }
      a.out[t * a.cols + d] = static_cast<float>(sum);
    }
  }
}

void ReferenceBackend::combine_backward(const CombineBackwardArgs& a) {
  const CombineArgs& f = a.forward;
  for (int64_t t = 0; t < f.rows; ++t) {
    for (int64_t k = 0; k < f.top_k; ++k) {
      const int64_t slot = t * f.top_k + k;
      const int64_t row = f.row_of_slot[slot] * f.cols;
      const double weight = f.weights == nullptr ? 1.0 : f.weights[slot];
      double dot = 0;
      for (int64_t d = 0; d < f.cols; ++d) {
        const double d_out = a.d_out[t * f.cols + d];
        if (a.d_y != nullptr) a.d_y[row + d] += static_cast<float>(weight * d_out);
        dot += d_out * f.y[row + d];
      }
      if (a.d_weights != nullptr) a.d_weights[slot] += static_cast<float>(dot);
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
