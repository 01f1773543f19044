// Micro-benchmarks of the CPU backend at the shapes of Qwen1.5-MoE-A2.7B (D 2048, F 1408, shared F 5632,
// 60 experts, top 4, 16 heads of 128, V 151936), on all usable processors.
//
// "GB/s" and "GFLOP/s" are what an op must read or compute at least, over its time; "of_probe" is that over
// what probes.h measured on the same machine just before.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "base/cpus.h"
#include "probes.h"

namespace switchyard {
namespace {

constexpr int64_t kD = 2048;
constexpr int64_t kExperts = 60;
constexpr int64_t kTopK = 4;
constexpr int64_t kExpertWidth = 1408;

// Twenty times a last-level cache of 32 MiB, so that decode reads memory.
constexpr int64_t kPoolBytes = 640 << 20;

// Weights to stream: small finite numbers in every dtype.
const std::byte* weight_pool() {
  static const std::vector<std::byte> pool = [] {
    std::vector<std::byte> bytes(kPoolBytes);
    for (size_t i = 0; i < bytes.size(); i += 2) {
      bytes[i] = static_cast<std::byte>(i / 2 % 251);
      bytes[i + 1] = static_cast<std::byte>(0x3C + i / 2 % 2);
    }
    return bytes;
  }();
  return pool.data();
}

// The next piece of the pool with each call, round and round: a matrix that is not in the caches.
Matrix streamed_matrix(int64_t rows, int64_t cols, DType dtype) {
  static int64_t call = 0;
  const int64_t bytes = rows * cols * size_bytes(dtype);
  const int64_t places = kPoolBytes / bytes;
  return {weight_pool() + call++ % places * bytes, dtype, rows, cols};
}

std::vector<float> random_floats(int64_t count) {
  std::mt19937 generator(1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = static_cast<float>(generator() >> 8) * 0x1p-23f - 1;
  return values;
}

CpuBackend& backend_of(Isa isa) {
  static std::map<Isa, std::unique_ptr<CpuBackend>> backends;
  std::unique_ptr<CpuBackend>& backend = backends[isa];
  if (backend == nullptr) backend = std::make_unique<CpuBackend>(CpuOptions{0, isa});
  return *backend;
}

double probed_bandwidth() {
  static const double probed = [] {
    ThreadPool pool(usable_cpus());
    return read_bandwidth(pool, weight_pool(), kPoolBytes);
  }();
  return probed;
}

double probed_peak(Isa isa) {
  static std::map<Isa, double> probed;
  if (probed.count(isa) == 0) {
    ThreadPool pool(usable_cpus());
    probed[isa] = multiply_add_peak(pool, isa);
  }
  return probed[isa];
}

// The clock for rates is the wall: Iterations and time are Google Benchmark's.
void set_bytes(benchmark::State& state, int64_t bytes_per_call) {
  const double total = static_cast<double>(bytes_per_call) * static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(total / 1e9, benchmark::Counter::kIsRate);
  state.counters["of_probe"] = benchmark::Counter(total / probed_bandwidth(), benchmark::Counter::kIsRate);
}

void set_flops(benchmark::State& state, Isa isa, double flops_per_call) {
  const double total = flops_per_call * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(total / 1e9, benchmark::Counter::kIsRate);
  if (probed_peak(isa) > 0) {
    state.counters["of_probe"] = benchmark::Counter(total / probed_peak(isa), benchmark::Counter::kIsRate);
  }
}

void probes(benchmark::State& state) {
  for (auto _ : state) {
    ThreadPool pool(usable_cpus());
    state.counters["read GB/s"] = read_bandwidth(pool, weight_pool(), kPoolBytes) / 1e9;
    for (const Isa isa : isas_of_machine()) {
      if (isa == Isa::kGeneric) continue;
      state.counters[fmt::format("{} GFLOP/s", name(isa))] = multiply_add_peak(pool, isa) / 1e9;
    }
  }
}

// From the call until all threads work on it and have left: what CpuBackend weighs against running inline.
// `idle` before each call decides whether the workers still spin or sleep.
void fork_join(benchmark::State& state, std::chrono::microseconds idle) {
  ThreadPool pool(usable_cpus());
  for (auto _ : state) {
    if (idle.count() > 0) std::this_thread::sleep_for(idle);
    const auto start = std::chrono::steady_clock::now();
    std::atomic<int> arrived{0};
    pool.parallel_for(pool.threads(), [&](int64_t) {
      ++arrived;
      while (arrived.load() < pool.threads())
        std::this_thread::yield();
    });
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

void linear(benchmark::State& state, Isa isa, int64_t rows, int64_t out, int64_t in, DType dtype) {
  CpuBackend& backend = backend_of(isa);
  const std::vector<float> x = random_floats(rows * in);
  std::vector<float> y(static_cast<size_t>(rows * out));
  for (auto _ : state) {
    const Matrix weight = streamed_matrix(out, in, dtype);
    backend.linear({x.data(), weight, nullptr, DType::kF32, rows, y.data()});
  }
  if (rows == 1) {
    set_bytes(state, out * in * size_bytes(dtype));
  } else {
    set_flops(state, isa, 2.0 * static_cast<double>(rows * out * in));
  }
}

void linear_backward(benchmark::State& state, Isa isa, int64_t rows, int64_t out, int64_t in,
                     bool of_weight) {
  CpuBackend& backend = backend_of(isa);
  const std::vector<float> x = random_floats(rows * in);
  const std::vector<float> d_out = random_floats(rows * out);
  std::vector<float> d_x(static_cast<size_t>(rows * in));
  std::vector<float> d_weight(static_cast<size_t>(out * in));
  for (auto _ : state) {
    if (of_weight) {
      backend.linear_backward_weight({d_out.data(), x.data(), rows, out, in, d_weight.data(), nullptr});
    } else {
      const Matrix weight = streamed_matrix(out, in, DType::kBF16);
      backend.linear_backward_input({d_out.data(), weight, rows, d_x.data()});
    }
  }
  set_flops(state, isa, 2.0 * static_cast<double>(rows * out * in));
}

// `tokens` tokens, each to kTopK different experts.
void expert_linear(benchmark::State& state, Isa isa, int64_t tokens, int64_t out, int64_t in, DType dtype) {
  CpuBackend& backend = backend_of(isa);
  const int64_t rows = tokens * kTopK;
  std::vector<Matrix> weights;
  for (int64_t e = 0; e < kExperts; ++e)
    weights.push_back(streamed_matrix(out, in, dtype));
  const std::vector<float> x = random_floats(rows * in);
  std::vector<float> y(static_cast<size_t>(rows * out));
  std::vector<int32_t> offsets(kExperts + 1);
  std::mt19937 generator(2);
  std::vector<int32_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0);
  for (auto _ : state) {
    state.PauseTiming();
    std::fill(offsets.begin(), offsets.end(), 0);
    for (int64_t t = 0; t < tokens; ++t) {
      std::shuffle(order.begin(), order.end(), generator);
      for (size_t k = 0; k < kTopK; ++k)
        ++offsets[static_cast<size_t>(order[k]) + 1];
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    state.ResumeTiming();
    backend.expert_linear({x.data(), weights.data(), offsets.data(), kExperts, rows, out, in, y.data()});
  }
  if (tokens == 1) {
    set_bytes(state, kTopK * out * in * size_bytes(dtype));
  } else {
    set_flops(state, isa, 2.0 * static_cast<double>(rows * out * in));
  }
}

// `rows` rows at the end of one sequence of `context` positions.
void attention(benchmark::State& state, Isa isa, int64_t rows, int64_t context) {
  constexpr int64_t kHeads = 16;
  constexpr int64_t kHeadDim = 128;
  constexpr int64_t kBlockSize = 16;
  CpuBackend& backend = backend_of(isa);
  const int64_t blocks = (context + kBlockSize - 1) / kBlockSize;
  const std::vector<float> keys = random_floats(blocks * kBlockSize * kHeads * kHeadDim);
  const std::vector<float> values = keys;
  const KvLayer kv{const_cast<float*>(keys.data()),
                   const_cast<float*>(values.data()),
                   DType::kF32,
                   kBlockSize,
                   kHeads,
                   kHeadDim};
  const std::vector<float> q = random_floats(rows * kHeads * kHeadDim);
  std::vector<float> out(q.size());
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  const std::vector<int32_t> sequences(static_cast<size_t>(rows), 0);
  std::iota(table.begin(), table.end(), 0);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(context - rows));
  for (auto _ : state) {
    backend.attention({q.data(),
                       kv,
                       {positions.data(), sequences.data(), table.data(), rows, blocks},
                       kHeads,
                       0.088f,
                       0,
                       out.data(),
                       nullptr});
  }
  if (rows == 1) {
    set_bytes(state, 2 * context * kHeads * kHeadDim * static_cast<int64_t>(sizeof(float)));
  } else {
    const double visible =
        static_cast<double>(rows) * (static_cast<double>(context - rows) + static_cast<double>(rows + 1) / 2);
    set_flops(state, isa, 4.0 * visible * kHeads * kHeadDim);
  }
}

void route(benchmark::State& state, Isa isa, int64_t rows, int64_t experts) {
  CpuBackend& backend = backend_of(isa);
  const std::vector<float> logits = random_floats(rows * experts);
  std::vector<float> probabilities(logits.size());
  std::vector<int32_t> ids(static_cast<size_t>(rows * kTopK));
  std::vector<float> weights(ids.size());
  for (auto _ : state) {
    backend.route({.logits = logits.data(),
                   .rows = rows,
                   .experts = experts,
                   .top_k = kTopK,
                   .slots = kTopK,
                   .probabilities = probabilities.data(),
                   .expert_ids = ids.data(),
                   .weights = weights.data()});
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

// Ops on rows of D values, at `rows` rows.
void rows_op(benchmark::State& state, Isa isa, const std::string& op, int64_t rows) {
  CpuBackend& backend = backend_of(isa);
  const int64_t count = rows * kD;
  const std::vector<float> a = random_floats(count);
  const std::vector<float> b = random_floats(count);
  std::vector<float> out(a.size());
  for (auto _ : state) {
    if (op == "rms_norm") backend.rms_norm({a.data(), b.data(), DType::kF32, rows, kD, 1e-6f, out.data()});
    if (op == "add") backend.add({a.data(), b.data(), 1, count, out.data()});
    if (op == "swiglu") backend.swiglu({a.data(), b.data(), count, out.data()});
  }
  state.SetItemsProcessed(state.iterations() * count);
}

template <typename... Args>
void add_benchmark(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->UseRealTime()->Unit(benchmark::kMicrosecond);
}

void register_for(Isa isa) {
  const std::string end = fmt::format("/{}", name(isa));
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::string tail = fmt::format("/{}{}", name(dtype), end);
    add_benchmark("linear/decode_2048x2048" + tail, linear, isa, 1, kD, kD, dtype);
    add_benchmark("linear/decode_5632x2048" + tail, linear, isa, 1, 5632, kD, dtype);
    add_benchmark("linear/decode_2048x5632" + tail, linear, isa, 1, kD, 5632, dtype);
    add_benchmark("linear/prefill8_1408x2048" + tail, linear, isa, 8, kExpertWidth, kD, dtype);
    add_benchmark("linear/prefill64_1408x2048" + tail, linear, isa, 64, kExpertWidth, kD, dtype);
    add_benchmark("linear/prefill512_1408x2048" + tail, linear, isa, 512, kExpertWidth, kD, dtype);
    add_benchmark("linear/prefill512_2048x5632" + tail, linear, isa, 512, kD, 5632, dtype);
    add_benchmark("expert_linear/decode_1408x2048" + tail, expert_linear, isa, 1, kExpertWidth, kD, dtype);
    add_benchmark("expert_linear/decode_2048x1408" + tail, expert_linear, isa, 1, kD, kExpertWidth, dtype);
    add_benchmark("expert_linear/prefill512_1408x2048" + tail, expert_linear, isa, 512, kExpertWidth, kD,
                  dtype);
  }
  add_benchmark("linear/decode_151936x2048/BF16" + end, linear, isa, 1, 151936, kD, DType::kBF16);
  add_benchmark("linear_backward_input/512_1408x2048/BF16" + end, linear_backward, isa, 512, kExpertWidth, kD,
                false);
  add_benchmark("linear_backward_weight/512_1408x2048" + end, linear_backward, isa, 512, kExpertWidth, kD,
                true);
  add_benchmark("attention/decode_1024" + end, attention, isa, 1, 1024);
  add_benchmark("attention/decode_8192" + end, attention, isa, 1, 8192);
  add_benchmark("attention/prefill_512" + end, attention, isa, 512, 512);
  for (const int64_t experts : {60, 64, 128}) {
    add_benchmark(fmt::format("route/1x{}{}", experts, end), route, isa, 1, experts);
    add_benchmark(fmt::format("route/512x{}{}", experts, end), route, isa, 512, experts);
  }
  for (const char* op : {"rms_norm", "add", "swiglu"}) {
    add_benchmark(fmt::format("{}/1x2048{}", op, end), rows_op, isa, std::string(op), 1);
    add_benchmark(fmt::format("{}/512x2048{}", op, end), rows_op, isa, std::string(op), 512);
  }
}

}  // namespace
}  // namespace switchyard

int main(int argc, char** argv) {
  using switchyard::add_benchmark;
  benchmark::RegisterBenchmark("probes", switchyard::probes)->Iterations(1)->Unit(benchmark::kMillisecond);
  for (const auto& [name, idle] : {std::pair("fork_join/awake", 0), std::pair("fork_join/asleep", 500)}) {
    benchmark::RegisterBenchmark(name, switchyard::fork_join, std::chrono::microseconds(idle))
        ->UseManualTime()
        ->Iterations(1000)
        ->Unit(benchmark::kMicrosecond);
  }
  for (const switchyard::Isa isa : switchyard::isas_of_machine())
    switchyard::register_for(isa);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
