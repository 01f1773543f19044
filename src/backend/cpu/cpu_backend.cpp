#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "backend/cpu/parallel.h"
#include "base/cpus.h"
#include "base/error.h"

namespace switchyard {
namespace {

int checked_threads(int threads) {
  constexpr int kMaxThreads = 1024;
  if (threads < 0 || threads > kMaxThreads) {
    throw Error("cpu backend", "threads", fmt::format("0 to {}", kMaxThreads), fmt::format("{}", threads));
  }
  return threads == 0 ? std::min(usable_cpus(), kMaxThreads) : threads;
}

Isa checked_isa(std::optional<Isa> wanted) {
  const Isa isa = wanted.value_or(isas_of_machine().back());
  if (!machine_has(isa)) {
    throw Error("cpu backend", "instruction set", fmt::format("at most {}", name(isas_of_machine().back())),
                std::string(name(isa)));
  }
  return isa;
}

}  // namespace

const Kernels& kernels_of(Isa isa) {
  SY_CHECK(machine_has(isa), "kernels for {}", name(isa));
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Dot) return kAvx512DotKernels;
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

CpuBackend::CpuBackend(const CpuOptions& options)
    : ReferenceBackend(options.activations),
      kernels_(kernels_of(checked_isa(options.isa))),
      pool_(checked_threads(options.threads)) {}

std::string CpuBackend::description() const {
  const int threads = pool_.threads();
  return fmt::format("cpu ({}, {} thread{}{})", name(isa()), threads, threads == 1 ? "" : "s",
                     activations() == Activations::kRounded ? ", rounded activations" : "");
}

void CpuBackend::embedding(const EmbeddingArgs& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    SY_CHECK(a.ids[t] >= 0 && a.ids[t] < a.table.rows, "token id {} of a table of {}", a.ids[t],
             a.table.rows);
  }
  for_ranges(a.tokens, streaming(2 * a.table.cols), [&](int64_t begin, int64_t end) {
    if (a.table.is_plain()) return kernels_.embedding(a, begin, end);
    for (int64_t t = begin; t < end; ++t)
      decode_row(a.table, a.ids[t], 0, a.table.cols, a.out + t * a.table.cols);
  });
}

void CpuBackend::rms_norm(const RmsNormArgs& a) {
  for_ranges(a.rows, streaming(2 * a.cols),
             [&](int64_t begin, int64_t end) { kernels_.rms_norm(a, begin, end); });
}

void CpuBackend::add(const AddArgs& a) {
  for_ranges(a.count, streaming(3), [&](int64_t begin, int64_t end) { kernels_.add(a, begin, end); });
}

void CpuBackend::swiglu(const SwigluArgs& a) {
  for_ranges(a.count, kExpNanoseconds, [&](int64_t begin, int64_t end) { kernels_.swiglu(a, begin, end); });
}

void CpuBackend::swiglu_backward(const SwigluBackwardArgs& a) {
  for_ranges(a.forward.count, kExpNanoseconds + streaming(7),
             [&](int64_t begin, int64_t end) { kernels_.swiglu_backward(a, begin, end); });
}

void CpuBackend::gated_add(const GatedAddArgs& a) {
  for_ranges(a.rows, streaming(3 * a.cols),
             [&](int64_t begin, int64_t end) { kernels_.gated_add(a, begin, end); });
}

void CpuBackend::gather_rows(const GatherRowsArgs& a) {
  const auto row_bytes = static_cast<size_t>(a.cols) * sizeof(float);
  if (row_bytes == 0) return;
  for_ranges(a.rows, streaming(2 * a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (a.index[i] < 0) {
        std::memset(a.out + i * a.cols, 0, row_bytes);
      } else {
        std::memcpy(a.out + i * a.cols, a.x + a.index[i] * a.cols, row_bytes);
      }
    }
  });
}

void CpuBackend::copy_columns(const CopyColumnsArgs& a) {
  for_ranges(a.rows, streaming(2 * a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = a.x + t * a.x_stride;
      float* out = a.out + t * a.out_stride;
      if (a.accumulate) {
        std::transform(x, x + a.cols, out, out, std::plus<>());
      } else {
        std::copy_n(x, a.cols, out);
      }
    }
  });
}

void CpuBackend::route(const RouteArgs& a) {
  const auto experts = static_cast<double>(a.experts);
  for_ranges(a.rows, experts * (kExpNanoseconds + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (kernels_.route(a, t)) continue;
      const std::lock_guard lock(fault_mutex_);
      fail_route(a, t);
    }
  });
}

// Counting sort. While rows are given out, offsets[e] is the next free row of expert e, so that it ends as
// the first row of expert e + 1.
void CpuBackend::dispatch_plan(const DispatchPlanArgs& a) {
  const int64_t slots = a.rows * a.top_k;
  std::fill_n(a.offsets, a.experts + 1, 0);
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int32_t e = a.expert_ids[slot];
    SY_CHECK(e >= -1 && e < a.experts, "assignment {} names expert {} of {}", slot, e, a.experts);
    if (e >= 0) ++a.offsets[e + 1];
  }
  std::partial_sum(a.offsets, a.offsets + a.experts + 1, a.offsets);
  std::fill(a.token_of_row + a.offsets[a.experts], a.token_of_row + slots, -1);
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int32_t e = a.expert_ids[slot];
    a.row_of_slot[slot] = e < 0 ? -1 : a.offsets[e]++;
    if (e >= 0) a.token_of_row[a.row_of_slot[slot]] = static_cast<int32_t>(slot / a.top_k);
  }
  std::copy_backward(a.offsets, a.offsets + a.experts, a.offsets + a.experts + 1);
  a.offsets[0] = 0;
}

void CpuBackend::combine(const CombineArgs& a) {
  for_ranges(a.rows, streaming((a.top_k + 1) * a.cols),
             [&](int64_t begin, int64_t end) { kernels_.combine(a, begin, end); });
}

void CpuBackend::cross_entropy(const CrossEntropyArgs& a) {
  for_ranges(a.rows, kExpNanoseconds * static_cast<double>(a.vocab), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const SoftmaxParts parts = kernels_.softmax_parts(a.logits + t * a.vocab, a.vocab);
      a.log_sum_exp[t] = static_cast<float>(parts.largest + std::log(parts.sum));
    }
  });
  double total = 0;
  int64_t counted = 0;
  for (int64_t t = 0; t < a.rows; ++t) {
    if (a.targets[t] < 0) continue;
    total += static_cast<double>(a.log_sum_exp[t]) - a.logits[t * a.vocab + a.targets[t]];
    ++counted;
  }
  a.loss[0] = counted == 0 ? 0.0f : static_cast<float>(total / static_cast<double>(counted));
}

void CpuBackend::cross_entropy_backward(const CrossEntropyBackwardArgs& a) {
  const CrossEntropyArgs& f = a.forward;
  const int64_t counted = std::count_if(f.targets, f.targets + f.rows, [](int32_t v) { return v >= 0; });
  if (counted == 0) return;
  const auto scale = static_cast<float>(a.d_loss[0] / static_cast<double>(counted));
  for_ranges(f.rows, kExpNanoseconds * static_cast<double>(f.vocab), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (f.targets[t] < 0) continue;
      float* d_logits = a.d_logits + t * f.vocab;
      kernels_.add_scaled_exp(f.logits + t * f.vocab, f.vocab, f.log_sum_exp[t], scale, d_logits);
      d_logits[f.targets[t]] -= scale;
    }
  });
}

}  // namespace switchyard
