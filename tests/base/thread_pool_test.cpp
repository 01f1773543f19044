#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <gtest/gtest.h>

#include "base/cpus.h"

namespace switchyard {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, CallsEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<int> calls(static_cast<size_t>(tasks));  // not atomic: two calls of one task are a data race
    pool.parallel_for(tasks, [&](int64_t task) { ++calls[static_cast<size_t>(task)]; });
    EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), tasks);
  }
}

TEST_P(ThreadPoolTest, ManyShortJobsInARow) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int64_t job = 0; job < 20000; ++job) {
    const int64_t tasks = job % 5;
    pool.parallel_for(tasks, [&](int64_t task) { sum.fetch_add(task + job, std::memory_order_relaxed); });
    expected += tasks * (tasks - 1) / 2 + tasks * job;
    ASSERT_EQ(sum.load(), expected) << "job " << job;  // nothing of a job is left when its call returns
  }
}

TEST_P(ThreadPoolTest, WorkersThatFellAsleepWakeUp) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> calls{0};
    pool.parallel_for(8, [&](int64_t) { ++calls; });
    ASSERT_EQ(calls.load(), 8);
  }
}

TEST_P(ThreadPoolTest, ANestedLoopRunsInline) {
  ThreadPool pool(GetParam());
  std::atomic<int> calls{0};
  std::atomic<int> elsewhere{0};
  pool.parallel_for(6, [&](int64_t) {
    const auto self = std::this_thread::get_id();
    pool.parallel_for(5, [&](int64_t) {
      ++calls;
      if (std::this_thread::get_id() != self) ++elsewhere;
    });
  });
  EXPECT_EQ(calls.load(), 30);
  EXPECT_EQ(elsewhere.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

TEST(ThreadPool, UsesItsThreads) {
  ThreadPool pool(3);
  // Three tasks that wait for each other end only if three threads run them at once.
  std::atomic<int> arrived{0};
  pool.parallel_for(3, [&](int64_t) {
    ++arrived;
    while (arrived.load() < 3)
      std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(ThreadPool, DoesNotSpinWhenIdle) {
  ThreadPool pool(4);
  pool.parallel_for(16, [](int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();  // processor time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double busy_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(busy_seconds, 0.05);
}

TEST(ThreadPoolDeathTest, AnExceptionFromATaskEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ThreadPool pool(2);
  EXPECT_DEATH(pool.parallel_for(4, [](int64_t) { throw 1; }), "");
}

TEST(Cpus, AtLeastOne) {
  EXPECT_GE(usable_cpus(), 1);
}

TEST(Cpus, QuotaRoundsUp) {
  EXPECT_EQ(cpus_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cpus_of_quota("150000 100000\n"), 2);
  EXPECT_EQ(cpus_of_quota("1000 100000\n"), 1);
  EXPECT_EQ(cpus_of_quota("max 100000\n"), 0);
  EXPECT_EQ(cpus_of_quota(""), 0);
}

}  // namespace
}  // namespace switchyard
