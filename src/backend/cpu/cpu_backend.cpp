#include "backend/cpu/cpu_backend.h"

#include <cmath>
#include <cstring>
#include <limits>
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

const Kernels& kernels_of(std::optional<Isa> wanted) {
  const Isa isa = wanted.value_or(isas_of_machine().back());
  if (!machine_has(isa)) {
    throw Error("cpu backend", "instruction set", fmt::format("at most {}", name(isas_of_machine().back())),
                std::string(name(isa)));
  }
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

// Nanoseconds to stream `floats` float32 numbers.
double streaming(int64_t floats) {
  return static_cast<double>(floats) * sizeof(float) / kBytesPerNanosecond;
}

constexpr double kExpNanoseconds = 0.5;    // per element, vectorised
constexpr double kSinCosNanoseconds = 20;  // per pair, scalar

}  // namespace

CpuBackend::CpuBackend(const CpuOptions& options)
    : kernels_(kernels_of(options.isa)), pool_(checked_threads(options.threads)) {}

std::string CpuBackend::description() const {
  const int threads = pool_.threads();
  return fmt::format("cpu ({}, {} thread{})", name(isa()), threads, threads == 1 ? "" : "s");
}

void CpuBackend::embedding(const EmbeddingArgs& a) {
  for (int64_t t = 0; t < a.tokens; ++t) {
    SY_CHECK(a.ids[t] >= 0 && a.ids[t] < a.table.rows, "token id {} of a table of {}", a.ids[t],
             a.table.rows);
  }
  for_ranges(a.tokens, streaming(2 * a.table.cols),
             [&](int64_t begin, int64_t end) { kernels_.embedding(a, begin, end); });
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
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(a.out + i * a.cols, a.x + a.index[i] * a.cols, row_bytes);
  });
}

void CpuBackend::rope(const RopeArgs& a) {
  const int64_t half = a.head_dim / 2;
  const int64_t row = a.heads * a.head_dim;
  const double row_nanoseconds = kSinCosNanoseconds * static_cast<double>(half) + streaming(2 * row);
  for_ranges(a.rows, row_nanoseconds, [&](int64_t begin, int64_t end) {
    float* cosines = thread_scratch(2 * half);
    float* sines = cosines + half;
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < half; ++i) {
        // The angle is rounded to float32, as every trained checkpoint saw it.
        const float angle = static_cast<float>(a.positions[t]) * a.inverse_frequencies[i];
        cosines[i] = std::cos(angle) * a.attention_factor;
        sines[i] = std::sin(angle) * a.attention_factor * a.direction;
      }
      kernels_.rotate(a.x + t * row, cosines, sines, a.heads, a.head_dim, a.out + t * row);
    }
  });
}

void CpuBackend::kv_write(const KvWriteArgs& a) {
  SY_CHECK(a.kv.dtype == DType::kF32, "a cache of {}", name(a.kv.dtype));
  const KvLayer& kv = a.kv;
  const auto head_bytes = static_cast<size_t>(kv.head_dim) * sizeof(float);
  for_ranges(a.step.rows, streaming(4 * kv.kv_heads * kv.head_dim), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t position = a.step.positions[t];
      const int64_t block =
          a.step.block_table[a.step.sequences[t] * a.step.max_blocks + position / kv.block_size];
      for (int64_t g = 0; g < kv.kv_heads; ++g) {
        const int64_t to =
            ((block * kv.kv_heads + g) * kv.block_size + position % kv.block_size) * kv.head_dim;
        const int64_t from = (t * kv.kv_heads + g) * kv.head_dim;
        std::memcpy(static_cast<float*>(kv.keys) + to, a.keys + from, head_bytes);
        std::memcpy(static_cast<float*>(kv.values) + to, a.values + from, head_bytes);
      }
    }
  });
}

const std::vector<AttentionRows>& CpuBackend::attention_tiles(const StepRows& step, int64_t max_rows) {
  attention_tiles_.clear();
  for (int64_t t = 0; t < step.rows; ++t) {
    const bool follows =
        t > 0 && step.sequences[t] == step.sequences[t - 1] && step.positions[t] == step.positions[t - 1] + 1;
    if (follows && attention_tiles_.back().rows < max_rows) {
      ++attention_tiles_.back().rows;
    } else {
      attention_tiles_.push_back({t, 1});
    }
  }
  return attention_tiles_;
}

void CpuBackend::attention(const AttentionArgs& a) {
  SY_CHECK(a.kv.dtype == DType::kF32, "a cache of {}", name(a.kv.dtype));
  if (a.step.rows == 0) return;
  constexpr int64_t kQueriesPerTile = 24;  // enough for fma to hide the reading of keys and values
  const int64_t G = a.kv.kv_heads;
  const int64_t group = a.heads / G;
  const int64_t max_rows = std::max<int64_t>(1, kQueriesPerTile / group);
  const std::vector<AttentionRows>& tiles = attention_tiles(a.step, max_rows);
  const int64_t positions = *std::max_element(a.step.positions, a.step.positions + a.step.rows) + 1;
  const int64_t seen = a.window == 0 ? positions : std::min(positions, a.window);
  const auto tasks = static_cast<int64_t>(tiles.size()) * G;
  for_tasks(tasks, streaming(2 * seen * a.kv.head_dim), [&](int64_t task) {
    const AttentionRows& tile = tiles[static_cast<size_t>(task / G)];
    float* scratch = thread_scratch(attention_scratch_floats(tile.rows * group, a.kv.head_dim));
    kernels_.attention(a, tile.row, tile.rows, task % G, scratch);
  });
}

void CpuBackend::route(const RouteArgs& a) {
  const auto experts = static_cast<double>(a.experts);
  for_ranges(a.rows, experts * (kExpNanoseconds + 1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (kernels_.route(a, t)) continue;
      constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
      std::fill_n(a.probabilities + t * a.experts, a.experts, kNan);
      std::iota(a.expert_ids + t * a.top_k, a.expert_ids + (t + 1) * a.top_k, 0);
      std::fill_n(a.weights + t * a.top_k, a.top_k, kNan);
      const std::lock_guard lock(fault_mutex_);
      record_routing_fault({a.layer, t});
    }
  });
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
