// A pool for short parallel loops: the caller works too, a call allocates nothing, and workers that find no
// work sleep after a few tens of microseconds, so that an idle process uses no processor time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace switchyard {

class ThreadPool {
 public:
  // `threads` includes the caller of parallel_for: 1 starts no thread at all. Must be at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls f(task) once for every task in [0, tasks), in no particular order and possibly at the same time,
  // and returns when all are done; what the tasks wrote is then visible to the caller. One task, a pool of
  // one thread, and a call from inside a task of any pool run inline, in ascending order.
  // f must not throw: an exception that leaves it ends the program. One caller at a time.
  template <typename F>
  void parallel_for(int64_t tasks, F&& f) {
    using Function = std::remove_reference_t<F>;
    const Job job{[](const void* context, int64_t task) noexcept {
                    (*static_cast<Function*>(const_cast<void*>(context)))(task);
                  },
                  &f, tasks};
    run(job);
  }

 private:
  struct Job {
    void (*call)(const void* context, int64_t task) noexcept;
    const void* context;
    int64_t tasks;
  };

  void run(const Job& job);
  void publish(const Job& job);
  void close_and_wait();
  void work();
  uint64_t wait_for_job(uint64_t last_generation);
  bool join(uint64_t seen);
  void leave();
  void claim_tasks();

  // Generation of the job, whether it is open to workers that come late, and how many workers are inside: see
  // thread_pool.cpp. On a line of its own, because spinning workers read it all the time.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int64_t> next_task_{0};
  alignas(64) Job job_{};          // written only while no worker is inside
  std::atomic<uint32_t> wake_{0};  // changes when a job opens or the pool ends: workers sleep on it
  std::atomic<uint32_t> done_{0};  // changes when the last worker leaves: the caller sleeps on it
  std::atomic<bool> ending_{false};
  std::atomic<bool> in_use_{false};
  std::vector<std::thread> workers_;
};

}  // namespace switchyard
