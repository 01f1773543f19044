// The CPU backend: the fast kernels of one instruction set on a pool of threads. Ops that are not overridden
// here take a small part of any step and are the reference's.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/product.h"
#include "backend/cpu/reference.h"
#include "base/thread_pool.h"

namespace switchyard {

struct CpuOptions {
  int threads = 0;         // including the caller; 0: usable_cpus()
  std::optional<Isa> isa;  // none: the fastest that the machine has
  Activations activations = Activations::kFloat32;
};

// Neighbouring rows of a step that belong to one sequence, at positions that follow each other.
struct AttentionRows {
  int64_t row;  // the first
  int64_t rows;
};

// A token's results have the same bits whatever the number of threads and the other rows of a call; they
// differ between instruction sets. Cached keys and values are F32.
class CpuBackend : public ReferenceBackend {
 public:
  // Throws Error when the machine lacks the instruction set, or the number of threads is not in [0, 1024].
  explicit CpuBackend(const CpuOptions& options = {});

  std::string description() const override;  // "cpu (avx512, 2 threads)"
  Isa isa() const { return kernels_.isa; }

  // cpu_backend.cpp
  void embedding(const EmbeddingArgs&) override;
  void rms_norm(const RmsNormArgs&) override;
  void add(const AddArgs&) override;
  void swiglu(const SwigluArgs&) override;
  void swiglu_backward(const SwigluBackwardArgs&) override;
  void gated_add(const GatedAddArgs&) override;
  void gather_rows(const GatherRowsArgs&) override;
  void copy_columns(const CopyColumnsArgs&) override;
  void route(const RouteArgs&) override;
  void dispatch_plan(const DispatchPlanArgs&) override;
  void combine(const CombineArgs&) override;
  void cross_entropy(const CrossEntropyArgs&) override;
  void cross_entropy_backward(const CrossEntropyBackwardArgs&) override;

  // cpu_backend_attention.cpp
  void rope(const RopeArgs&) override;
  void kv_write(const KvWriteArgs&) override;
  void attention(const AttentionArgs&) override;
  void attention_backward(const AttentionBackwardArgs&) override;

  // cpu_backend_linear.cpp
  void linear(const LinearArgs&) override;
  void head_linear(const HeadLinearArgs&) override;
  void expert_linear(const ExpertLinearArgs&) override;

  // cpu_backend_gradients.cpp
  void linear_backward_input(const LinearBackwardInputArgs&) override;
  void linear_backward_weight(const LinearBackwardWeightArgs&) override;
  void expert_linear_backward_input(const ExpertLinearBackwardInputArgs&) override;
  void expert_linear_backward_weight(const ExpertLinearBackwardWeightArgs&) override;

 private:
  // Calls f(begin, end) for ranges that cover [0, items), on several threads where the work is worth it.
  template <typename F>
  void for_ranges(int64_t items, double nanoseconds_per_item, F&& f);
  // Calls f(task) for every task, on several threads where the work is worth it.
  template <typename F>
  void for_tasks(int64_t tasks, double nanoseconds_per_task, F&& f);
  // The rows of x [rows, cols] as the kernels for a weight take them. What is rounded is gone with the next
  // call.
  ProductForm form_of(const Matrix& weight) const;
  ProductRows product_rows(const float* x, int64_t rows, int64_t cols, ProductForms forms);
  // Rows [row, row + rows) of a product, outputs [n, n + features); out: [.., weight.rows] of row 0.
  void multiply(const ProductRows& x, int64_t row, int64_t rows, const Matrix& weight, int64_t n,
                int64_t features, const float* bias, float* out) const;
  // The experts that own rows, ascending.
  const std::vector<int32_t>& busy_experts(const int32_t* offsets, int64_t experts);
  // The step cut into pieces of up to `max_rows` rows.
  const std::vector<AttentionRows>& attention_tiles(const StepRows& step, int64_t max_rows);

  const Kernels& kernels_;
  ThreadPool pool_;
  std::mutex fault_mutex_;  // route's rows may record faults at the same time
  // Kept from call to call, so that a decode step allocates nothing.
  std::vector<int32_t> busy_experts_;
  std::vector<int8_t> rounded_codes_;
  std::vector<float> rounded_scales_;
  std::vector<int32_t> rounded_sums_;
  std::vector<uint16_t> rounded_bf16_;
  std::vector<AttentionRows> attention_tiles_;
};

}  // namespace switchyard
