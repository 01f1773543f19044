// Linear layers and their backward passes: how products are cut into blocks for the threads and the caches.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "base/error.h"

namespace switchyard {
namespace {

void check_weight(const char* op, DType dtype) {
  SY_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16, "{}: a weight of {}", op,
           name(dtype));
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// A block of a product that one call computes: with k = 2048, 384 KiB of activations and at most as much of
// weights, so that both stay in the second-level cache.
constexpr int64_t kMaxDotTokens = 48;
constexpr int64_t kMaxDotRows = 64;

// How a product of [rows, k] with a weight [features, k] is cut.
struct DotPlan {
  int64_t features_per_task;
  int64_t feature_tasks;
  double task_nanoseconds;
};

DotPlan plan_dot(int64_t rows, int64_t features, int64_t k, int64_t element_bytes, int threads) {
  constexpr int64_t kFeatureStep = 8;
  const int64_t share = ceil_div(features, threads * kTasksPerThread);
  const int64_t features_per_task =
      std::clamp(ceil_div(share, kFeatureStep) * kFeatureStep, kFeatureStep, kMaxDotRows);
  const auto work = static_cast<double>(features_per_task * k);
  return {features_per_task, ceil_div(features, features_per_task),
          std::max(work * static_cast<double>(element_bytes) / kBytesPerNanosecond,
                   2 * work * static_cast<double>(rows) / kFlopsPerNanosecond)};
}

const void* element_pointer(const Matrix& m, int64_t row) {
  return static_cast<const std::byte*>(m.data) + row * m.cols * size_bytes(m.dtype);
}

// Backward passes: columns and rows of the output that one task computes.
constexpr int64_t kOuterColsPerTask = 64;
constexpr int64_t kOuterRowsPerTask = 48;

double outer_nanoseconds(int64_t terms) {
  return 2.0 * kOuterColsPerTask * kOuterRowsPerTask * static_cast<double>(terms) / kFlopsPerNanosecond;
}

// The part of a product `whole` that is columns from `col` and rows from `row` on, of a task's size.
OuterBlock part_of(const OuterBlock& whole, int64_t row, int64_t col) {
  OuterBlock part = whole;
  part.rows = std::min(kOuterRowsPerTask, whole.rows - row);
  part.cols = std::min(kOuterColsPerTask, whole.cols - col);
  part.a += row * whole.a_stride_i;
  part.b = static_cast<const std::byte*>(whole.b) + col * size_bytes(whole.b_dtype);
  part.out += row * whole.out_stride + col;
  return part;
}

OuterBlock input_gradient(const float* d_out, const Matrix& weight, int64_t rows, float* d_x) {
  return {.a = d_out,
          .a_stride_i = weight.rows,
          .a_stride_j = 1,
          .rows = rows,
          .terms = weight.rows,
          .b = weight.data,
          .b_dtype = weight.dtype,
          .b_stride = weight.cols,
          .cols = weight.cols,
          .out = d_x,
          .out_stride = weight.cols};
}

OuterBlock weight_gradient(const float* d_out, const float* x, int64_t rows, int64_t out_features,
                           int64_t in_features, float* d_weight) {
  return {.a = d_out,
          .a_stride_i = 1,
          .a_stride_j = out_features,
          .rows = out_features,
          .terms = rows,
          .b = x,
          .b_dtype = DType::kF32,
          .b_stride = in_features,
          .cols = in_features,
          .out = d_weight,
          .out_stride = in_features};
}

}  // namespace

void CpuBackend::linear(const LinearArgs& a) {
  check_weight("linear", a.weight.dtype);
  if (a.rows == 0) return;
  const int64_t N = a.weight.rows;
  const int64_t K = a.weight.cols;
  const DotPlan plan = plan_dot(a.rows, N, K, size_bytes(a.weight.dtype), pool_.threads());
  const int64_t row_blocks = ceil_div(a.rows, kMaxDotTokens);
  // Consecutive tasks share a block of rows, which so stays in the caches.
  for_tasks(plan.feature_tasks * row_blocks, plan.task_nanoseconds / static_cast<double>(row_blocks),
            [&](int64_t task) {
              const int64_t row = task / plan.feature_tasks * kMaxDotTokens;
              const int64_t n = task % plan.feature_tasks * plan.features_per_task;
              const int64_t features = std::min(plan.features_per_task, N - n);
              float bias[kMaxDotRows];
              if (a.bias != nullptr) {
                const auto* from = static_cast<const std::byte*>(a.bias) + n * size_bytes(a.bias_dtype);
                convert_to_f32(a.bias_dtype, from, features, bias);
              }
              kernels_.dot({.x = a.x + row * K,
                            .x_stride = K,
                            .tokens = std::min(kMaxDotTokens, a.rows - row),
                            .weight = element_pointer(a.weight, n),
                            .weight_dtype = a.weight.dtype,
                            .weight_stride = K,
                            .weight_rows = features,
                            .k = K,
                            .bias = a.bias == nullptr ? nullptr : bias,
                            .out = a.out + row * N + n,
                            .out_stride = N});
            });
}

const std::vector<int32_t>& CpuBackend::busy_experts(const int32_t* offsets, int64_t experts) {
  busy_experts_.clear();
  for (int32_t e = 0; e < experts; ++e) {
    if (offsets[e] < offsets[e + 1]) busy_experts_.push_back(e);
  }
  return busy_experts_;
}

void CpuBackend::expert_linear(const ExpertLinearArgs& a) {
  std::fill(a.out + a.offsets[a.experts] * a.out_features, a.out + a.rows * a.out_features, 0.0f);
  const std::vector<int32_t>& busy = busy_experts(a.offsets, a.experts);
  if (busy.empty()) return;
  const auto rows_each = ceil_div(a.rows, static_cast<int64_t>(busy.size()));
  const int64_t N = a.out_features;
  const int64_t K = a.in_features;
  const DotPlan plan = plan_dot(rows_each, N, K, size_bytes(a.weights[busy.front()].dtype), pool_.threads());
  const auto tasks = static_cast<int64_t>(busy.size()) * plan.feature_tasks;
  for_tasks(tasks, plan.task_nanoseconds, [&](int64_t task) {
    const int32_t e = busy[static_cast<size_t>(task / plan.feature_tasks)];
    const Matrix& weight = a.weights[e];
    check_weight("expert_linear", weight.dtype);
    const int64_t n = task % plan.feature_tasks * plan.features_per_task;
    for (int64_t row = a.offsets[e]; row < a.offsets[e + 1]; row += kMaxDotTokens) {
      kernels_.dot({.x = a.x + row * K,
                    .x_stride = K,
                    .tokens = std::min(kMaxDotTokens, a.offsets[e + 1] - row),
                    .weight = element_pointer(weight, n),
                    .weight_dtype = weight.dtype,
                    .weight_stride = K,
                    .weight_rows = std::min(plan.features_per_task, N - n),
                    .k = K,
                    .bias = nullptr,
                    .out = a.out + row * N + n,
                    .out_stride = N});
    }
  });
}

void CpuBackend::linear_backward_input(const LinearBackwardInputArgs& a) {
  check_weight("linear_backward_input", a.weight.dtype);
  const OuterBlock whole = input_gradient(a.d_out, a.weight, a.rows, a.d_x);
  const int64_t col_tasks = ceil_div(whole.cols, kOuterColsPerTask);
  for_tasks(col_tasks * ceil_div(whole.rows, kOuterRowsPerTask), outer_nanoseconds(whole.terms),
            [&](int64_t task) {
              kernels_.outer(
                  part_of(whole, task / col_tasks * kOuterRowsPerTask, task % col_tasks * kOuterColsPerTask));
            });
}

void CpuBackend::linear_backward_weight(const LinearBackwardWeightArgs& a) {
  if (a.d_bias != nullptr) {
    constexpr float kOne = 1;
    kernels_.outer({.a = &kOne,
                    .a_stride_i = 0,
                    .a_stride_j = 0,
                    .rows = 1,
                    .terms = a.rows,
                    .b = a.d_out,
                    .b_dtype = DType::kF32,
                    .b_stride = a.out_features,
                    .cols = a.out_features,
                    .out = a.d_bias,
                    .out_stride = a.out_features});
  }
  if (a.d_weight == nullptr || a.rows == 0) return;
  const OuterBlock whole = weight_gradient(a.d_out, a.x, a.rows, a.out_features, a.in_features, a.d_weight);
  const int64_t row_tasks = ceil_div(whole.rows, kOuterRowsPerTask);
  // Consecutive tasks share columns of x, which are the longer way through memory.
  for_tasks(row_tasks * ceil_div(whole.cols, kOuterColsPerTask), outer_nanoseconds(whole.terms),
            [&](int64_t task) {
              kernels_.outer(
                  part_of(whole, task % row_tasks * kOuterRowsPerTask, task / row_tasks * kOuterColsPerTask));
            });
}

void CpuBackend::expert_linear_backward_input(const ExpertLinearBackwardInputArgs& a) {
  const std::vector<int32_t>& busy = busy_experts(a.offsets, a.experts);
  const int64_t col_tasks = ceil_div(a.in_features, kOuterColsPerTask);
  for_tasks(
      static_cast<int64_t>(busy.size()) * col_tasks, outer_nanoseconds(a.out_features), [&](int64_t task) {
        const int32_t e = busy[static_cast<size_t>(task / col_tasks)];
        check_weight("expert_linear_backward_input", a.weights[e].dtype);
        const int64_t begin = a.offsets[e];
        const OuterBlock whole = input_gradient(a.d_out + begin * a.out_features, a.weights[e],
                                                a.offsets[e + 1] - begin, a.d_x + begin * a.in_features);
        for (int64_t row = 0; row < whole.rows; row += kOuterRowsPerTask)
          kernels_.outer(part_of(whole, row, task % col_tasks * kOuterColsPerTask));
      });
}

void CpuBackend::expert_linear_backward_weight(const ExpertLinearBackwardWeightArgs& a) {
  const std::vector<int32_t>& busy = busy_experts(a.offsets, a.experts);
  const int64_t col_tasks = ceil_div(a.in_features, kOuterColsPerTask);
  for_tasks(static_cast<int64_t>(busy.size()) * col_tasks, outer_nanoseconds(a.rows), [&](int64_t task) {
    const int32_t e = busy[static_cast<size_t>(task / col_tasks)];
    if (a.d_weights[e] == nullptr) return;
    const int64_t begin = a.offsets[e];
    const OuterBlock whole =
        weight_gradient(a.d_out + begin * a.out_features, a.x + begin * a.in_features,
                        a.offsets[e + 1] - begin, a.out_features, a.in_features, a.d_weights[e]);
    for (int64_t row = 0; row < whole.rows; row += kOuterRowsPerTask)
      kernels_.outer(part_of(whole, row, task % col_tasks * kOuterColsPerTask));
  });
}

}  // namespace switchyard
