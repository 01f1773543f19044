// Backward passes of linear layers: how their sums of outer products are cut for the threads.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/plain_block.h"
#include "base/error.h"

namespace switchyard {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
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
