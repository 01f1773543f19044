#include "base/thread_pool.h"

#include <chrono>

#include "base/error.h"

namespace switchyard {
namespace {

// state_ = generation << 16 | open << 15 | workers inside. A worker enters by compare-and-swap while the job
// is open; the caller closes the job and waits until nobody is inside. So a worker that wakes late finds the
// job closed, and job_ is never read while it changes.
constexpr uint64_t kOpen = 1u << 15;
constexpr uint64_t kInside = kOpen - 1;
constexpr int kGenerationShift = 16;

// Long enough to bridge the gaps between the ops of one decode step, short enough not to matter to anything
// else on the machine.
constexpr std::chrono::microseconds kSpinTime{40};

thread_local bool inside_task = false;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Tries `condition` for kSpinTime; whether it became true.
template <typename Condition>
bool spin_until(Condition condition) {
  constexpr int kTriesPerClockRead = 32;
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kTriesPerClockRead; ++i) {
      if (condition()) return true;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  SY_CHECK(threads >= 1 && threads < static_cast<int>(kInside), "a pool of {} threads", threads);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i)
    workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  ending_.store(true, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  for (std::thread& worker : workers_)
    worker.join();
}

void ThreadPool::run(const Job& job) {
  if (job.tasks <= 1 || workers_.empty() || inside_task) {
    for (int64_t task = 0; task < job.tasks; ++task)
      job.call(job.context, task);
    return;
  }
  SY_CHECK(!in_use_.exchange(true, std::memory_order_acquire), "two threads use one pool");
  publish(job);
  claim_tasks();
  close_and_wait();
  in_use_.store(false, std::memory_order_release);
}

void ThreadPool::publish(const Job& job) {
  job_ = job;
  next_task_.store(0, std::memory_order_relaxed);
  const uint64_t generation = (state_.load(std::memory_order_relaxed) >> kGenerationShift) + 1;
  state_.store(generation << kGenerationShift | kOpen, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
}

void ThreadPool::close_and_wait() {
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const auto nobody_inside = [this] { return (state_.load(std::memory_order_acquire) & kInside) == 0; };
  while (!spin_until(nobody_inside)) {
    const uint32_t before = done_.load(std::memory_order_acquire);
    if (nobody_inside()) return;
    done_.wait(before, std::memory_order_acquire);
  }
}

void ThreadPool::work() {
  uint64_t generation = 0;
  while ((generation = wait_for_job(generation)) != 0) {
    claim_tasks();
    leave();
  }
}

// Enters an open job newer than `last_generation` and returns its generation; 0 when the pool ends.
uint64_t ThreadPool::wait_for_job(uint64_t last_generation) {
  uint64_t seen = 0;
  const auto new_job = [&] {
    seen = state_.load(std::memory_order_acquire);
    return (seen & kOpen) != 0 && seen >> kGenerationShift != last_generation;
  };
  while (true) {
    const uint32_t before = wake_.load(std::memory_order_acquire);
    if (ending_.load(std::memory_order_acquire)) return 0;
    if (!spin_until(new_job)) {
      wake_.wait(before, std::memory_order_acquire);
      continue;
    }
    if (join(seen)) return seen >> kGenerationShift;
  }
}

bool ThreadPool::join(uint64_t seen) {
  const uint64_t generation = seen >> kGenerationShift;
  while ((seen & kOpen) != 0 && seen >> kGenerationShift == generation) {
    if (state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadPool::leave() {
  const uint64_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & (kOpen | kInside)) != 1) return;
  done_.fetch_add(1, std::memory_order_release);
  done_.notify_one();
}

void ThreadPool::claim_tasks() {
  inside_task = true;
  const Job job = job_;
  for (int64_t task; (task = next_task_.fetch_add(1, std::memory_order_relaxed)) < job.tasks;)
    job.call(job.context, task);
  inside_task = false;
}

}  // namespace switchyard
