// Rotary types whose frequencies depend on the length of the sequence: a request's tokens are those of the
// request alone, and cached keys serve only where they are rotated as the new prompt needs them.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/logits.h"
#include "engine/perplexity.h"
#include "engine/trace.h"
#include "support/editable_checkpoint.h"
#include "support/model_runner.h"
#include "support/tiny_engine.h"

namespace switchyard {
namespace {

constexpr int64_t kLimit = 40;  // from here on frequencies change

Json longrope() {
  std::vector<double> short_factors, long_factors;
  for (int i = 0; i < 16; ++i) {
    short_factors.push_back(1 + 0.05 * i);
    long_factors.push_back(1.5 + 0.5 * i);
  }
  return {{"rope_type", "longrope"},
          {"rope_theta", 1e6},
          {"short_factor", short_factors},
          {"long_factor", long_factors},
          {"original_max_position_embeddings", kLimit}};
}

class SessionRope : public testing::TestWithParam<std::string> {
 protected:
  SessionRope() : engine_(std::make_unique<CpuBackend>(CpuOptions{.threads = 1, .isa = {}})) {
    if (GetParam() == "dynamic") {
      checkpoint_.config["rope_parameters"] = {
          {"rope_type", "dynamic"}, {"rope_theta", 1e6}, {"factor", 8.0}};
      checkpoint_.config["max_position_embeddings"] = kLimit;
    } else {
      checkpoint_.config["rope_parameters"] = longrope();
    }
    engine_.model = checkpoint_.load(*engine_.backend);
  }

  static std::vector<int32_t> prompt(int64_t length) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<int32_t>(300 + i * i * 7 % 3000));
    return ids;
  }

  TinyEngine engine_;
  EditableCheckpoint checkpoint_{SWITCHYARD_SOURCE_DIR "/models/tiny-qwen2-moe"};
};

INSTANTIATE_TEST_SUITE_P(Types, SessionRope, testing::Values("dynamic", "longrope"),
                         [](const auto& instance) { return instance.param; });

TEST_P(SessionRope, BatchesAndChunksChangeNothing) {
  std::vector<Request> requests;
  for (const int64_t length : {5, 36, 40, 41, 60})
    requests.push_back({.prompt = prompt(length), .max_tokens = 8});
  for (const int64_t step_tokens : {512, 7, 1}) {
    const auto together = run_all(engine_, requests, {.context = 1024, .max_batch_tokens = step_tokens});
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<int32_t> want =
          greedy_continuation(*engine_.backend, *engine_.model, requests[i].prompt, 8);
      want.erase(want.begin(), want.begin() + static_cast<int64_t>(requests[i].prompt.size()));
      EXPECT_EQ(together[i].tokens, want) << "request " << i << ", steps of " << step_tokens;
    }
  }
}

// What a turn of a chat leaves behind serves the next one while both stay below the limit.
TEST_P(SessionRope, ARetainedPrefixServesOnlyBelowTheLimit) {
  struct Turn {
    int64_t prompt;
    int64_t max_tokens;
    bool reuses;
  };
  Session session(*engine_.model, engine_.tokenizer, *engine_.backend, {.context = 256});
  const std::vector<Turn> turns = {
      {10, 4, false},
      {20, 4, true},
      {kLimit, 1, true},
      {kLimit, 2, true},
      {kLimit, 3, false},      // the first of the two tokens was rotated for a longer
                               // sequence
      {30, 4, false},          // so were the last of these keys, beyond what could serve
      {kLimit + 1, 1, false},  // is itself longer
      {20, 1, false},          // all keys were rotated for a longer prompt
      {30, 1, true},
      {kLimit + 5, 1, false},
      {kLimit + 5, 1, false},
  };
  for (const Turn& turn : turns) {
    SCOPED_TRACE(testing::Message() << turn.prompt << " + " << turn.max_tokens);
    const Request request{
        .prompt = prompt(turn.prompt), .max_tokens = turn.max_tokens, .sampling = {.logprobs = 0}};
    session.statistics().clear();
    Answer got;
    session.submit(request, got.sink());
    while (session.step()) {
    }
    const Answer want = run_one(engine_, request);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.logprobs, want.logprobs);  // bit for bit
    const auto computed = load_figures(session.statistics().hits().at(0)).assignments;
    const int64_t all = (turn.prompt + turn.max_tokens - 1) * engine_.model->shape().top_k;
    EXPECT_EQ(computed < all, turn.reuses);
  }
}

// A window is one prompt, however it is cut.
TEST_P(SessionRope, PerplexityIsThatOfWholeWindows) {
  const std::vector<int32_t> tokens = prompt(150);
  const std::vector<float> logits = all_logits(*engine_.backend, *engine_.model, {tokens});
  const auto vocab = static_cast<size_t>(engine_.model->shape().vocab);
  double nll = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto row = std::span(logits).subspan(i * vocab, vocab);
    nll += log_sum_exp(row) - row[static_cast<size_t>(tokens[i + 1])];
  }
  const Perplexity got =
      perplexity(*engine_.backend, *engine_.model, tokens, {.window = 150, .stride = 150}, [](int64_t) {});
  EXPECT_DOUBLE_EQ(got.nll, nll / 149);
}

}  // namespace
}  // namespace switchyard
