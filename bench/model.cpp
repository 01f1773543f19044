// Whole-model speed: tokens per second of prefill and decode, on the embedded model and on a shape of
// Qwen1.5-MoE-A2.7B with random bfloat16 weights (6 layers, 4.1 GB).
#include <memory>

#include <benchmark/benchmark.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/step.h"
#include "experts/routing_statistics.h"
#include "models/accounting.h"
#include "models/registry.h"

namespace switchyard {
namespace {

std::unique_ptr<Model> random_model(Backend& backend) {
  const Json config = {{"model_type", "qwen2_moe"},
                       {"vocab_size", 151936},
                       {"hidden_size", 2048},
                       {"num_hidden_layers", 6},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 16},
                       {"num_experts", 60},
                       {"num_experts_per_tok", 4},
                       {"moe_intermediate_size", 1408},
                       {"shared_expert_intermediate_size", 5632}};
  RandomWeights weights(DType::kBF16, 1);
  return make_model(ConfigReader(config, "benchmark shape"), weights, backend);
}

// One model at a time: the large one takes gigabytes.
struct Loaded {
  CpuBackend backend{CpuOptions{}};
  std::unique_ptr<Model> model;

  static Loaded& tiny() {
    static Loaded loaded;
    if (!loaded.model)
      loaded.model = load_model(SWITCHYARD_SOURCE_DIR "/models/tiny-qwen2-moe", loaded.backend);
    return loaded;
  }
  static Loaded& large() {
    static Loaded loaded;
    if (!loaded.model) loaded.model = random_model(loaded.backend);
    return loaded;
  }
};

std::vector<int32_t> some_tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(5 + i * 37 % 4000);
  return tokens;
}

void prefill(benchmark::State& state, Loaded& (*get)()) {
  Loaded& l = get();
  const std::vector<int32_t> tokens = some_tokens(state.range(0));
  PagedKvCache cache(l.backend, l.model->shape(), state.range(0));
  CachedSequence sequence(cache);
  if (!sequence.reserve(state.range(0))) return state.SkipWithError("cache too small");
  Arena arena(l.backend.memory());
  Context c{.backend = l.backend, .arena = arena};
  for (auto _ : state) {
    StepBuilder step;
    step.add(tokens, 0, sequence, Logits::kLast);
    benchmark::DoNotOptimize(run_step(c, *l.model, step, cache).f32()[0]);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));  // items per second: tokens per second
}

enum class Watch { kNothing, kRouting };

// Decode of `batch` sequences that have 64 tokens behind them, with or without the recorder of expert
// choices.
void decode(benchmark::State& state, Loaded& (*get)(), Watch watch) {
  constexpr int64_t kContext = 64;
  Loaded& l = get();
  const int64_t batch = state.range(0);
  PagedKvCache cache(l.backend, l.model->shape(), batch * (kContext + 16));
  Arena arena(l.backend.memory());
  RoutingRecorder recorder(l.backend);
  Context c{.backend = l.backend, .arena = arena};
  if (watch == Watch::kRouting) c.observer = &recorder;
  std::vector<CachedSequence> sequences;
  const std::vector<int32_t> prompt = some_tokens(kContext * batch);
  for (int64_t b = 0; b < batch; ++b) {
    if (!sequences.emplace_back(cache).reserve(kContext + 1)) return state.SkipWithError("cache too small");
    StepBuilder step;
    step.add(std::span(prompt).subspan(static_cast<size_t>(b * kContext), kContext), 0, sequences.back(),
             Logits::kLast);
    run_step(c, *l.model, step, cache);
  }
  int32_t token = 7;
  for (auto _ : state) {
    recorder.clear();
    StepBuilder step;
    for (int64_t b = 0; b < batch; ++b) {
      const int32_t next = (token + static_cast<int32_t>(b) * 101) % 4000;
      step.add(std::span(&next, 1), kContext, sequences[static_cast<size_t>(b)], Logits::kLast);
    }
    benchmark::DoNotOptimize(run_step(c, *l.model, step, cache).f32()[0]);
    token = (token + 13) % 4000;
  }
  state.SetItemsProcessed(state.iterations() * batch);
  const double bytes = parameters_read_per_step(*l.model, account(*l.model), batch) * 2;
  state.counters["weight_GBps"] =
      benchmark::Counter(bytes * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

void milliseconds(benchmark::internal::Benchmark* b) {
  b->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(prefill, tiny, Loaded::tiny)->Arg(128)->Arg(512)->Apply(milliseconds);
BENCHMARK_CAPTURE(decode, tiny, Loaded::tiny, Watch::kNothing)->Arg(1)->Arg(8)->Apply(milliseconds);
BENCHMARK_CAPTURE(decode, tiny_watched, Loaded::tiny, Watch::kRouting)->Arg(1)->Arg(8)->Apply(milliseconds);
BENCHMARK_CAPTURE(prefill, qwen1_5_moe_6_layers, Loaded::large)->Arg(128)->Arg(512)->Apply(milliseconds);
BENCHMARK_CAPTURE(decode, qwen1_5_moe_6_layers, Loaded::large, Watch::kNothing)
    ->Arg(1)
    ->Arg(8)
    ->Apply(milliseconds);

}  // namespace
}  // namespace switchyard
