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

constexpr int64_t kStreams = 4;

// Reads kStreams neighbouring stretches of memory in step.
uint64_t read_streams(const std::byte* data, int64_t bytes_per_stream) {
  constexpr int64_t kLine = 64;
  uint64_t sums[kStreams * kLine / 8] = {};
  for (int64_t i = 0; i + kLine <= bytes_per_stream; i += kLine) {
    for (int64_t s = 0; s < kStreams; ++s) {
      uint64_t line[kLine / 8];
      std::memcpy(line, data + s * bytes_per_stream + i, sizeof line);
      for (int64_t w = 0; w < kLine / 8; ++w)
        sums[s * kLine / 8 + w] += line[w];
    }
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums)
    sum += part;
  return sum;
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
  constexpr int64_t kStreamBytes = 64 << 10;
  const int64_t tasks = bytes / (kStreams * kStreamBytes);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double seconds = seconds_of([&] {
      pool.parallel_for(tasks, [&](int64_t task) {
        benchmark::DoNotOptimize(read_streams(data + task * kStreams * kStreamBytes, kStreamBytes));
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
