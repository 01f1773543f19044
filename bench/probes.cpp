#include "probes.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <benchmark/benchmark.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace switchyard {
namespace {

double seconds_of(auto&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int64_t kStreams =
    4;  // places that a thread reads from at once: one does not fill the memory's queues

// Sums of kStreams neighbouring stretches of memory, read in step, a cache line of each at a time. `Line` is
// a vector of the compiler's with 64 bytes: the attribute of the caller decides which instructions it
// becomes.
using Line = uint64_t __attribute__((vector_size(64), aligned(16), may_alias));

[[gnu::always_inline]] inline uint64_t read_streams(const std::byte* data, int64_t bytes_per_stream) {
  Line sums[kStreams] = {};
  for (int64_t i = 0; i < bytes_per_stream; i += static_cast<int64_t>(sizeof(Line))) {
#pragma GCC unroll 4
    for (int64_t s = 0; s < kStreams; ++s) {
      sums[s] += *reinterpret_cast<const Line*>(data + s * bytes_per_stream + i);
    }
  }
  const Line sum = sums[0] + sums[1] + sums[2] + sums[3];
  return sum[0] + sum[7];
}

uint64_t read_streams_generic(const std::byte* data, int64_t bytes) {
  return read_streams(data, bytes);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) uint64_t read_streams_avx2(const std::byte* data, int64_t bytes) {
  return read_streams(data, bytes);
}
__attribute__((target("avx512f"))) uint64_t read_streams_avx512(const std::byte* data, int64_t bytes) {
  return read_streams(data, bytes);
}
#endif

auto fastest_read_streams() {
#if defined(__x86_64__)
  if (machine_has(Isa::kAvx512)) return read_streams_avx512;
  if (machine_has(Isa::kAvx2)) return read_streams_avx2;
#endif
  return read_streams_generic;
}

#if defined(__x86_64__)
constexpr int64_t kRounds = 2'000'000;
constexpr int kChains = 12;  // more than latency times throughput

__attribute__((target("avx512f"))) float multiply_add_avx512() {
  __m512 sums[kChains];
  for (int c = 0; c < kChains; ++c)
    sums[c] = _mm512_set1_ps(static_cast<float>(c));
  const __m512 factor = _mm512_set1_ps(0.999f);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c)
      sums[c] = _mm512_fmadd_ps(sums[c], factor, factor);
  }
  for (int c = 1; c < kChains; ++c)
    sums[0] = _mm512_add_ps(sums[0], sums[c]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx2,fma"))) float multiply_add_avx2() {
  __m256 sums[kChains];
  for (int c = 0; c < kChains; ++c)
    sums[c] = _mm256_set1_ps(static_cast<float>(c));
  const __m256 factor = _mm256_set1_ps(0.999f);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c)
      sums[c] = _mm256_fmadd_ps(sums[c], factor, factor);
  }
  for (int c = 1; c < kChains; ++c)
    sums[0] = _mm256_add_ps(sums[0], sums[c]);
  return _mm256_cvtss_f32(sums[0]);
}
#endif

}  // namespace

double read_bandwidth(ThreadPool& pool, const std::byte* data, int64_t bytes) {
  constexpr int kPasses = 7;
  constexpr int64_t kStreamBytes = 1 << 20;
  const auto read = fastest_read_streams();
  const int64_t tasks = bytes / (kStreams * kStreamBytes);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double seconds = seconds_of([&] {
      pool.parallel_for(tasks, [&](int64_t task) {
        benchmark::DoNotOptimize(read(data + task * kStreams * kStreamBytes, kStreamBytes));
      });
    });
    best = std::max(best, static_cast<double>(tasks * kStreams * kStreamBytes) / seconds);
  }
  return best;
}

double multiply_add_peak([[maybe_unused]] ThreadPool& pool, [[maybe_unused]] Isa isa) {
  double best = 0;
#if defined(__x86_64__)
  if (isa == Isa::kGeneric) return 0;
  const int lanes = isa == Isa::kAvx512 ? 16 : 8;
  for (int run = 0; run < 10; ++run) {
    const double seconds = seconds_of([&] {
      pool.parallel_for(pool.threads(), [&](int64_t) {
        benchmark::DoNotOptimize(isa == Isa::kAvx512 ? multiply_add_avx512() : multiply_add_avx2());
      });
    });
    best = std::max(best, 2.0 * lanes * kChains * kRounds * pool.threads() / seconds);
  }
#endif
  return best;
}

}  // namespace switchyard
