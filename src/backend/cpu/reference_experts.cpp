#include <algorithm>

#include "backend/cpu/reference.h"
#include "base/error.h"

namespace switchyard {

void ReferenceBackend::dispatch_plan(const DispatchPlanArgs& a) {
  const int64_t slots = a.rows * a.top_k;
  std::fill_n(a.row_of_slot, slots, -1);
  int32_t row = 0;
  for (int64_t e = 0; e < a.experts; ++e) {
    a.offsets[e] = row;
    for (int64_t slot = 0; slot < slots; ++slot) {
      if (a.expert_ids[slot] != e) continue;
      a.token_of_row[row] = static_cast<int32_t>(slot / a.top_k);
      a.row_of_slot[slot] = row++;
    }
  }
  a.offsets[a.experts] = row;
  std::fill(a.token_of_row + row, a.token_of_row + slots, -1);
  const auto assigned = std::count_if(a.expert_ids, a.expert_ids + slots, [](int32_t e) { return e != -1; });
  SY_CHECK(row == assigned, "{} of {} assignments name an expert in [0, {})", row, assigned, a.experts);
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
  std::fill(a.out + a.offsets[a.experts] * a.out_features, a.out + a.rows * a.out_features, 0.0f);
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
        if (a.row_of_slot[slot] < 0) continue;
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
      if (f.row_of_slot[slot] < 0) continue;
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

}  // namespace switchyard
