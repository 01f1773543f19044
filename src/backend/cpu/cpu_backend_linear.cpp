// Linear layers: how products are cut into blocks for the threads and the caches, and which kernel takes
// them.
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

// A block of a product that one call of a kernel computes: 384 KiB of activations and at most as much of
// weights with k = 2048, so that both stay in the second-level cache.
constexpr int64_t kMaxDotRows = 64;
constexpr int64_t kActivationBytes = 384 << 10;
constexpr int64_t kTokenStep = 24;  // a multiple of the tiles of all kernels

int64_t max_tokens(ProductForm form, int64_t k) {
  const int64_t element = form == ProductForm::kFloat32 ? 4 : form == ProductForm::kBf16 ? 2 : 1;
  return std::max<int64_t>(kActivationBytes / (element * k) / kTokenStep, 1) * kTokenStep;
}

double bytes_per_weight(const Matrix& m) {
  if (m.format == MatrixFormat::kInt8Panels) return sizeof(Int8PanelBlock) / 512.0;
  if (m.format == MatrixFormat::kInt4Panels) return sizeof(Int4PanelBlock) / 512.0;
  return static_cast<double>(m.is_plain() ? size_bytes(m.dtype) : size_bytes(DType::kF32));
}

// How the outputs of a product with a weight [features, k] are cut among tasks; whole panels stay together.
struct DotPlan {
  int64_t features_per_task;
  int64_t feature_tasks;
  double task_nanoseconds;
};

DotPlan plan_dot(int64_t rows, const Matrix& weight, int threads) {
  const int64_t share = ceil_div(weight.rows, threads * kTasksPerThread);
  const int64_t features_per_task =
      std::clamp(ceil_div(share, kPanelRows) * kPanelRows, kPanelRows, kMaxDotRows);
  const auto work = static_cast<double>(features_per_task * weight.cols);
  return {features_per_task, ceil_div(weight.rows, features_per_task),
          std::max(work * bytes_per_weight(weight) / kBytesPerNanosecond,
                   2 * work * static_cast<double>(rows) / kFlopsPerNanosecond)};
}

constexpr int64_t kHeadTokens = 48;  // of head_linear

const std::byte* panel_at(const Matrix& m, int64_t row) {
  return static_cast<const std::byte*>(m.data) + row / kPanelRows * panel_bytes(m.format, m.cols);
}

}  // namespace

ProductForm CpuBackend::form_of(const Matrix& weight) const {
  if (activations() == Activations::kFloat32) return ProductForm::kFloat32;
  if (is_panels(weight.format)) return ProductForm::kRounded;
  const bool bf16 = weight.is_plain() && weight.dtype == DType::kBF16 && kernels_.dot_bf16 != nullptr;
  return bf16 ? ProductForm::kBf16 : ProductForm::kFloat32;
}

ProductRows CpuBackend::product_rows(const float* x, int64_t rows, int64_t cols, ProductForms forms) {
  ProductRows out{x, nullptr, {}};
  if (forms.bf16) {
    rounded_bf16_.resize(std::max(rounded_bf16_.size(), static_cast<size_t>(rows * cols)));
    for_ranges(rows, streaming(cols), [&](int64_t begin, int64_t end) {
      kernels_.round_bf16(x, begin * cols, end * cols, rounded_bf16_.data());
    });
    out.bf16 = rounded_bf16_.data();
  }
  if (forms.rounded) {
    const int64_t groups = rounded_groups(cols);
    const auto count = static_cast<size_t>(rows * groups);
    rounded_codes_.resize(std::max(rounded_codes_.size(), count * kRoundedGroup));
    rounded_scales_.resize(std::max(rounded_scales_.size(), count));
    rounded_sums_.resize(std::max(rounded_sums_.size(), count));
    out.rounded = {rounded_codes_.data(), rounded_scales_.data(), rounded_sums_.data(), groups};
    for_ranges(rows, streaming(2 * cols),
               [&](int64_t begin, int64_t end) { kernels_.round_rows(x, cols, out.rounded, begin, end); });
  }
  return out;
}

void CpuBackend::multiply(const ProductRows& x, int64_t row, int64_t rows, const Matrix& weight, int64_t n,
                          int64_t features, const float* bias, float* out) const {
  const int64_t N = weight.rows;
  const int64_t K = weight.cols;
  float* to = out + row * N + n;
  switch (form_of(weight)) {
    case ProductForm::kRounded:
      kernels_.panel_dot({.x = x.rounded.from(row),
                          .tokens = rows,
                          .panels = panel_at(weight, n),
                          .format = weight.format,
                          .weight_rows = features,
                          .bias = bias,
                          .out = to,
                          .out_stride = N});
      return;
    case ProductForm::kBf16:
      kernels_.dot_bf16({.x = x.bf16 + row * K,
                         .x_stride = K,
                         .tokens = rows,
                         .weight = static_cast<const uint16_t*>(weight.data) + n * K,
                         .weight_stride = K,
                         .weight_rows = features,
                         .k = K,
                         .bias = bias,
                         .out = to,
                         .out_stride = N});
      return;
    case ProductForm::kFloat32: {
      const PlainBlock block = plain_block(weight, n, features, 0, K);
      kernels_.dot({.x = x.x + row * K,
                    .x_stride = K,
                    .tokens = rows,
                    .weight = block.data,
                    .weight_dtype = block.dtype,
                    .weight_stride = block.stride,
                    .weight_rows = features,
                    .k = K,
                    .bias = bias,
                    .out = to,
                    .out_stride = N});
    }
  }
}

void CpuBackend::linear(const LinearArgs& a) {
  if (a.rows == 0) return;
  const int64_t N = a.weight.rows;
  const ProductForm form = form_of(a.weight);
  ProductForms forms;
  forms.add(form);
  const ProductRows x = product_rows(a.x, a.rows, a.weight.cols, forms);
  const DotPlan plan = plan_dot(a.rows, a.weight, pool_.threads());
  const int64_t rows_per_task = max_tokens(form, a.weight.cols);
  const int64_t row_blocks = ceil_div(a.rows, rows_per_task);
  // Consecutive tasks share a block of rows, which so stays in the caches.
  for_tasks(plan.feature_tasks * row_blocks, plan.task_nanoseconds / static_cast<double>(row_blocks),
            [&](int64_t task) {
              const int64_t row = task / plan.feature_tasks * rows_per_task;
              const int64_t n = task % plan.feature_tasks * plan.features_per_task;
              const int64_t features = std::min(plan.features_per_task, N - n);
              float bias[kMaxDotRows];
              if (a.bias != nullptr) {
                const auto* from = static_cast<const std::byte*>(a.bias) + n * size_bytes(a.bias_dtype);
                convert_to_f32(a.bias_dtype, from, features, bias);
              }
              multiply(x, row, std::min(rows_per_task, a.rows - row), a.weight, n, features,
                       a.bias == nullptr ? nullptr : bias, a.out);
            });
}

// A task is one head and a block of rows.
void CpuBackend::head_linear(const HeadLinearArgs& a) {
  const int64_t K = a.weight.cols;
  const int64_t in = a.transposed ? a.rows_used : K;
  const int64_t out = a.transposed ? K : a.rows_used;
  const int64_t row_blocks = ceil_div(a.rows, kHeadTokens);
  const auto work = static_cast<double>(2 * std::min(a.rows, kHeadTokens) * a.rows_used * K);
  for_tasks(a.heads * row_blocks, work / kFlopsPerNanosecond, [&](int64_t task) {
    const int64_t h = task / row_blocks;
    const int64_t row = task % row_blocks * kHeadTokens;
    const int64_t rows = std::min(kHeadTokens, a.rows - row);
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
  ProductForms forms;
  for (const int32_t e : busy)
    forms.add(form_of(a.weights[e]));
  const ProductRows x = product_rows(a.x, a.offsets[a.experts], a.in_features, forms);
  const auto busy_count = static_cast<int64_t>(busy.size());
  const DotPlan plan = plan_dot(ceil_div(a.rows, busy_count), a.weights[busy.front()], pool_.threads());
  for_tasks(busy_count * plan.feature_tasks, plan.task_nanoseconds, [&](int64_t task) {
    const int32_t e = busy[static_cast<size_t>(task / plan.feature_tasks)];
    const Matrix& weight = a.weights[e];
    const int64_t n = task % plan.feature_tasks * plan.features_per_task;
    const int64_t features = std::min(plan.features_per_task, a.out_features - n);
    const int64_t step = max_tokens(form_of(weight), a.in_features);
    for (int64_t row = a.offsets[e]; row < a.offsets[e + 1]; row += step)
      multiply(x, row, std::min(step, a.offsets[e + 1] - row), weight, n, features, nullptr, a.out);
  });
}

}  // namespace switchyard
