// How CpuBackend shares work among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace switchyard {

// Work below this runs on the calling thread. At best a worker that still spins joins within 1 us, one that
// sleeps within 16 (Zen 5 guest; bench_kernels --benchmark_filter=fork_join).
inline constexpr double kInlineNanoseconds = 10'000;
// Enough to make the claim of a task (tens of nanoseconds) not count.
inline constexpr double kTaskNanoseconds = 4'000;
// Tasks per thread: a thread that is held up by something else leaves its share to the others.
inline constexpr int64_t kTasksPerThread = 8;

// Rough rates of one core, which decide only how work is cut, never what comes out.
inline constexpr double kBytesPerNanosecond = 20;
inline constexpr double kFlopsPerNanosecond = 50;

// Scratch of this thread, kept from call to call, so that a decode step allocates nothing.
inline float* thread_scratch(int64_t floats) {
  thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(static_cast<size_t>(floats));
  return scratch.data();
}

// Nanoseconds to stream `floats` float32 numbers.
constexpr double streaming(int64_t floats) {
  return static_cast<double>(floats) * sizeof(float) / kBytesPerNanosecond;
}

inline constexpr double kExpNanoseconds = 0.5;  // per element, vectorised

template <typename F>
void CpuBackend::for_tasks(int64_t tasks, double nanoseconds_per_task, F&& f) {
  if (static_cast<double>(tasks) * nanoseconds_per_task >= kInlineNanoseconds) {
    pool_.parallel_for(tasks, f);
  } else {
    for (int64_t task = 0; task < tasks; ++task)
      f(task);
  }
}

template <typename F>
void CpuBackend::for_ranges(int64_t items, double nanoseconds_per_item, F&& f) {
  if (items <= 0) return;
  const double total = static_cast<double>(items) * nanoseconds_per_item;
  const auto worthwhile = static_cast<int64_t>(total / kTaskNanoseconds);
  const int64_t tasks =
      std::clamp<int64_t>(worthwhile, 1, std::min(items, pool_.threads() * kTasksPerThread));
  for_tasks(tasks, total / static_cast<double>(tasks),
            [&](int64_t task) { f(items * task / tasks, items * (task + 1) / tasks); });
}

}  // namespace switchyard
