// Linear layers and their backward passes: how products are cut into blocks for the threads and the caches.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "base/error.h"

namespace switchyard {
namespace {

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

// Elements that a kernel reads: those of a plain matrix in place, those of a packed one decoded.
struct PlainBlock {
  const void* data;
  DType dtype;
  int64_t stride;  // elements from one row to the next
};

// Rows [row, row + rows) and columns [col, col + cols). What is decoded is gone with the thread's next call.
PlainBlock plain_block(const Matrix& m, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  if (m.is_plain()) {
    const auto* data = static_cast<const std::byte*>(m.data);
    return {data + (row * m.cols + col) * size_bytes(m.dtype), m.dtype, m.cols};
  }
  float* decoded = thread_scratch(rows * cols);
  for (int64_t r = 0; r < rows; ++r)
    decode_row(m, row + r, col, cols, decoded + r * cols);
  return {decoded, DType::kF32, cols};
}

int64_t element_bytes(const Matrix& m) {
  return m.is_plain() ? size_bytes(m.dtype) : size_bytes(DType::kF32);
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

// Rows [row, row + 48) and columns [col, col + 64) of d_x += d_out weight. A packed weight is decoded a piece
// at a time, which changes no bit: see OuterBlock.
void input_gradient(const Kernels& kernels, const float* d_out, const Matrix& weight, int64_t rows,
                    float* d_x, int64_t row, int64_t col) {
  constexpr int64_t kDecodedTerms = 512;
  const int64_t cols = std::min(kOuterColsPerTask, weight.cols - col);
  const int64_t step = weight.is_plain() ? weight.rows : kDecodedTerms;
  for (int64_t term = 0; term < weight.rows; term += step) {
    const int64_t terms = std::min(step, weight.rows - term);
    const PlainBlock block = plain_block(weight, term, terms, col, cols);
    kernels.outer({.a = d_out + row * weight.rows + term,
                   .a_stride_i = weight.rows,
                   .a_stride_j = 1,
                   .rows = std::min(kOuterRowsPerTask, rows - row),
                   .terms = terms,
                   .b = block.data,
                   .b_dtype = block.dtype,
                   .b_stride = block.stride,
                   .cols = cols,
                   .out = d_x + row * weight.cols + col,
                   .out_stride = weight.cols});
  }
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
  if (a.rows == 0) return;
  const int64_t N = a.weight.rows;
  const int64_t K = a.weight.cols;
  const DotPlan plan = plan_dot(a.rows, N, K, element_bytes(a.weight), pool_.threads());
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
              const PlainBlock weight = plain_block(a.weight, n, features, 0, K);
              kernels_.dot({.x = a.x + row * K,
                            .x_stride = K,
                            .tokens = std::min(kMaxDotTokens, a.rows - row),
                            .weight = weight.data,
                            .weight_dtype = weight.dtype,
                            .weight_stride = weight.stride,
                            .weight_rows = features,
                            .k = K,
                            .bias = a.bias == nullptr ? nullptr : bias,
                            .out = a.out + row * N + n,
                            .out_stride = N});
            });
}

// A task is one head and a block of rows.
void CpuBackend::head_linear(const HeadLinearArgs& a) {
  const int64_t K = a.weight.cols;
  const int64_t in = a.transposed ? a.rows_used : K;
  const int64_t out = a.transposed ? K : a.rows_used;
  const int64_t row_blocks = ceil_div(a.rows, kMaxDotTokens);
  const auto work = static_cast<double>(2 * std::min(a.rows, kMaxDotTokens) * a.rows_used * K);
  for_tasks(a.heads * row_blocks, work / kFlopsPerNanosecond, [&](int64_t task) {
    const int64_t h = task / row_blocks;
    const int64_t row = task % row_blocks * kMaxDotTokens;
    const int64_t rows = std::min(kMaxDotTokens, a.rows - row);
    const float* x = a.x + (row * a.heads + h) * in;
    float* to = a.out + (row * a.heads + h) * out;
    const PlainBlock w = plain_block(a.weight, h * a.head_rows + a.first_row, a.rows_used, 0, K);
    if (!a.transposed) {
      kernels_.dot({.x = x,
                    .x_stride = a.heads * in,
                    .tokens = rows,
                    .weight = w.data,
                    .weight_dtype = w.dtype,
                    .weight_stride = w.stride,
                    .weight_rows = a.rows_used,
                    .k = K,
                    .bias = nullptr,
                    .out = to,
                    .out_stride = a.heads * out});
      return;
    }
    for (int64_t t = 0; t < rows; ++t)
      std::fill_n(to + t * a.heads * out, out, 0.0f);
    kernels_.outer({.a = x,
                    .a_stride_i = a.heads * in,
                    .a_stride_j = 1,
                    .rows = rows,
                    .terms = a.rows_used,
                    .b = w.data,
                    .b_dtype = w.dtype,
                    .b_stride = w.stride,
                    .cols = K,
                    .out = to,
                    .out_stride = a.heads * out});
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
  const DotPlan plan = plan_dot(rows_each, N, K, element_bytes(a.weights[busy.front()]), pool_.threads());
  const auto tasks = static_cast<int64_t>(busy.size()) * plan.feature_tasks;
  for_tasks(tasks, plan.task_nanoseconds, [&](int64_t task) {
    const int32_t e = busy[static_cast<size_t>(task / plan.feature_tasks)];
    const int64_t n = task % plan.feature_tasks * plan.features_per_task;
    const int64_t features = std::min(plan.features_per_task, N - n);
    const PlainBlock weight = plain_block(a.weights[e], n, features, 0, K);
    for (int64_t row = a.offsets[e]; row < a.offsets[e + 1]; row += kMaxDotTokens) {
      kernels_.dot({.x = a.x + row * K,
                    .x_stride = K,
                    .tokens = std::min(kMaxDotTokens, a.offsets[e + 1] - row),
                    .weight = weight.data,
                    .weight_dtype = weight.dtype,
                    .weight_stride = weight.stride,
                    .weight_rows = features,
                    .k = K,
                    .bias = nullptr,
                    .out = a.out + row * N + n,
                    .out_stride = N});
    }
  });
}

void CpuBackend::linear_backward_input(const LinearBackwardInputArgs& a) {
  const int64_t col_tasks = ceil_div(a.weight.cols, kOuterColsPerTask);
  for_tasks(col_tasks * ceil_div(a.rows, kOuterRowsPerTask), outer_nanoseconds(a.weight.rows),
            [&](int64_t task) {
              input_gradient(kernels_, a.d_out, a.weight, a.rows, a.d_x, task / col_tasks * kOuterRowsPerTask,
                             task % col_tasks * kOuterColsPerTask);
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
  for_tasks(static_cast<int64_t>(busy.size()) * col_tasks, outer_nanoseconds(a.out_features),
            [&](int64_t task) {
              const int32_t e = busy[static_cast<size_t>(task / col_tasks)];
              const int64_t begin = a.offsets[e];
              const int64_t rows = a.offsets[e + 1] - begin;
              for (int64_t row = 0; row < rows; row += kOuterRowsPerTask) {
                input_gradient(kernels_, a.d_out + begin * a.out_features, a.weights[e], rows,
                               a.d_x + begin * a.in_features, row, task % col_tasks * kOuterColsPerTask);
              }
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
