// A request's tokens depend on nothing but the request: not on the backend, on its neighbours in the batch,
// on how its prompt is cut, on threads, or on what the session has cached.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/session.h"
#include "support/model_runner.h"
#include "support/tiny_engine.h"

namespace switchyard {
namespace {

TEST(SessionGreedy, IsThatOfTransformersOnEveryBackend) {
  for (const BackendUnderTest& backend : backends_under_test()) {
    TinyEngine engine(backend.make());
    std::vector<Request> requests;
    const std::vector<GreedyReference> references = greedy_references();
    for (const GreedyReference& reference : references) {
      requests.push_back({.prompt = reference.prompt_ids,
                          .max_tokens = static_cast<int64_t>(reference.answer_ids.size()),
                          .end_tokens = engine.generation.eos_token_ids});
    }
    const std::vector<Answer> answers = run_all(engine, requests);
    ASSERT_FALSE(references.empty());
    for (size_t i = 0; i < references.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, references[i].answer_ids)
          << backend.name << ", prompt " << engine.tokenizer.decode(references[i].prompt_ids, false);
    }
  }
}

SamplingParams seeded(uint64_t seed) {
  return {.temperature = 1.2, .top_p = 0.95, .repetition_penalty = 1.05, .seed = seed, .logprobs = 0};
}

// Requests of many lengths: greedy and sampled by turns.
std::vector<Request> mixed_requests() {
  const std::vector<GreedyReference> references = greedy_references();
  std::vector<Request> requests;
  for (size_t i = 0; i < 9; ++i) {
    Request request{.prompt = references[i % references.size()].prompt_ids,
                    .max_tokens = static_cast<int64_t>(3 + 5 * (i % 4))};
    for (size_t repeat = 0; repeat < i % 3; ++repeat)
      request.prompt.insert(request.prompt.end(), request.prompt.begin(), request.prompt.end());
    if (i % 2 == 0) request.sampling = seeded(i);
    requests.push_back(request);
  }
  return requests;
}

void expect_equal(const Answer& got, const Answer& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.logprobs, want.logprobs);  // bit for bit
  EXPECT_EQ(got.pieces, want.pieces);
  EXPECT_EQ(got.finish, want.finish);
}

std::vector<Answer> each_alone(TinyEngine& engine, const std::vector<Request>& requests) {
  std::vector<Answer> answers;
  for (const Request& request : requests)
    answers.push_back(run_one(engine, request));
  return answers;
}

TEST(SessionIdentity, AloneAmongOthersAndInSmallSteps) {
  TinyEngine& engine = shared_tiny_engine();
  const std::vector<Request> requests = mixed_requests();
  const std::vector<Answer> alone = each_alone(engine, requests);
  for (const SessionOptions& options :
       {SessionOptions{.context = 1024},                          // all together
        SessionOptions{.context = 1024, .max_batch_tokens = 11},  // cut prompts
        SessionOptions{.context = 1024, .max_batch_tokens = 1},
        SessionOptions{.context = 128}}) {  // some have to wait
    const std::vector<Answer> together = run_all(engine, requests, options);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "request " << i << ", context " << options.context << ", steps of "
                                      << options.max_batch_tokens);
      expect_equal(together[i], alone[i]);
    }
  }
}

TEST(SessionIdentity, AnyNumberOfThreads) {
  const std::vector<Request> requests = mixed_requests();
  const std::vector<Answer> want = run_all(shared_tiny_engine(), requests);
  for (const int threads : {2, 3}) {
    TinyEngine engine(std::make_unique<CpuBackend>(CpuOptions{.threads = threads, .isa = {}}));
    const std::vector<Answer> got = run_all(engine, requests);
    for (size_t i = 0; i < requests.size(); ++i)
      expect_equal(got[i], want[i]);
  }
}

TEST(SessionIdentity, SeedsDecideSampledTokens) {
  TinyEngine& engine = shared_tiny_engine();
  Request request{.prompt = greedy_references()[0].prompt_ids, .max_tokens = 16, .sampling = seeded(1)};
  const Answer first = run_one(engine, request);
  expect_equal(run_one(engine, request), first);
  request.sampling.seed = 2;
  EXPECT_NE(run_one(engine, request).tokens, first.tokens);
}

// A conversation whose every turn extends the last one, on one session and on fresh ones.
TEST(SessionIdentity, ARetainedPrefixChangesNothing) {
  TinyEngine& engine = shared_tiny_engine();
  Session session(*engine.model, engine.tokenizer, *engine.backend, {.context = 512});
  std::vector<int32_t> conversation;
  for (const GreedyReference& turn : greedy_references()) {
    conversation.insert(conversation.end(), turn.prompt_ids.begin(), turn.prompt_ids.end());
    const Request request{.prompt = conversation, .max_tokens = 12, .sampling = seeded(conversation.size())};
    if (conversation.size() + 12 > 512) break;
    session.statistics().clear();
    Answer got;
    session.submit(request, got.sink());
    while (session.step()) {
    }
    expect_equal(got, run_one(engine, request));
    const bool first_turn = conversation.size() == turn.prompt_ids.size();
    const auto computed = load_figures(session.statistics().hits().at(0)).assignments;
    // The first turn computes its prompt and all tokens but the last; a later one what is new.
    const auto new_tokens = static_cast<int64_t>(turn.prompt_ids.size() + got.tokens.size());
    EXPECT_EQ(computed, (new_tokens - (first_turn ? 1 : 0)) * engine.model->shape().top_k);
    conversation.insert(conversation.end(), got.tokens.begin(), got.tokens.end());
  }
}

TEST(SessionIdentity, ARetainedPrefixSharedOnlyInPartOrWhole) {
  TinyEngine& engine = shared_tiny_engine();
  Session session(*engine.model, engine.tokenizer, *engine.backend, {.context = 128});
  const std::vector<int32_t> prompt = greedy_references()[0].prompt_ids;
  std::vector<int32_t> changed = prompt;
  changed[changed.size() / 2] = 100;
  const std::vector<int32_t> shorter(prompt.begin(), prompt.begin() + 5);
  for (const std::vector<int32_t>& next : {prompt, prompt, changed, prompt, shorter, {7}, prompt}) {
    const Request request{.prompt = next, .max_tokens = 8, .sampling = {.logprobs = 0}};
    Answer got;
    session.submit(request, got.sink());
    while (session.step()) {
    }
    expect_equal(got, run_one(engine, request));
  }
}

}  // namespace
}  // namespace switchyard
