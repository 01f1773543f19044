// Requests through a session: when they end, how they are cancelled, and which are refused.
#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/tiny_engine.h"

namespace switchyard {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SessionTest : public testing::Test {
 protected:
  Session session(const SessionOptions& options) {
    return Session(*engine_.model, engine_.tokenizer, *engine_.backend, options);
  }
  static void run(Session& session) {
    while (session.step()) {
    }
  }

  TinyEngine& engine_ = shared_tiny_engine();
  std::vector<GreedyReference> references_ = greedy_references();
  const std::vector<int32_t>& prompt_ = references_[0].prompt_ids;
  const std::vector<int32_t>& answer_ = references_[0].answer_ids;  // ends with an end token
};

std::vector<int32_t> first(const std::vector<int32_t>& ids, size_t count) {
  return {ids.begin(), ids.begin() + static_cast<int64_t>(count)};
}

TEST_F(SessionTest, EndsAtAnyEndTokenWithoutShowingIt) {
  const Answer answer = run_one(engine_, {.prompt = prompt_, .end_tokens = engine_.generation.eos_token_ids});
  EXPECT_EQ(answer.tokens, answer_);
  EXPECT_EQ(answer.finish, FinishReason::kEndToken);
  EXPECT_EQ(answer.text, engine_.tokenizer.decode(first(answer_, answer_.size() - 1), false));

  for (const size_t length : {1, 4}) {
    const Answer shorter =
        run_one(engine_, {.prompt = prompt_, .max_tokens = 30, .end_tokens = {5, answer_[length - 1], 7}});
    EXPECT_EQ(shorter.tokens, first(answer_, length));
    EXPECT_EQ(shorter.finish, FinishReason::kEndToken);
    EXPECT_EQ(shorter.text, engine_.tokenizer.decode(first(answer_, length - 1), false));
  }
}

TEST_F(SessionTest, EndsAfterMaxTokens) {
  for (const int64_t max_tokens : {1, 5}) {
    const Answer answer = run_one(engine_, {.prompt = prompt_, .max_tokens = max_tokens});
    EXPECT_EQ(answer.tokens, first(answer_, static_cast<size_t>(max_tokens)));
    EXPECT_EQ(answer.finish, FinishReason::kMaxTokens);
    EXPECT_EQ(answer.text, engine_.tokenizer.decode(answer.tokens, true));
  }
}

TEST_F(SessionTest, EndsWhenTheContextIsFull) {
  const auto context = static_cast<int64_t>(prompt_.size()) + 3;
  const Answer answer = run_one(engine_, {.prompt = prompt_}, {.context = context});
  EXPECT_EQ(answer.tokens, first(answer_, 3));
  EXPECT_EQ(answer.finish, FinishReason::kContextFull);
}

TEST_F(SessionTest, EndsAtAStopStringThatSpansTokens) {
  const std::string whole = engine_.tokenizer.decode(first(answer_, 10), true);
  // From the middle of one token to the middle of a later one.
  const std::string stop = whole.substr(whole.size() / 3, whole.size() / 3);
  const size_t at = whole.find(stop);
  ASSERT_GT(stop.size(), 4u);
  const Answer answer =
      run_one(engine_, {.prompt = prompt_, .max_tokens = 30, .stop = {"no such text", stop}});
  EXPECT_EQ(answer.finish, FinishReason::kStopString);
  EXPECT_EQ(answer.text, whole.substr(0, at));
  EXPECT_LT(answer.tokens.size(), 10u);
}

TEST_F(SessionTest, AStopStringThatNeverCompletesIsShownAtTheEnd) {
  const std::string whole = engine_.tokenizer.decode(first(answer_, 6), true);
  const std::string almost = whole.substr(whole.size() - 2) + "\x01";
  const Answer answer = run_one(engine_, {.prompt = prompt_, .max_tokens = 6, .stop = {almost}});
  EXPECT_EQ(answer.finish, FinishReason::kMaxTokens);
  EXPECT_EQ(answer.text, whole);
}

TEST_F(SessionTest, CancelledBeforeTheFirstStepIsNeverAnswered) {
  Session s = session({.context = 256});
  Answer cancelled;
  Answer other;
  const Session::Id id = s.submit({.prompt = prompt_, .max_tokens = 3}, cancelled.sink());
  s.submit({.prompt = prompt_, .max_tokens = 3}, other.sink());
  s.cancel(id);
  run(s);
  EXPECT_THAT(cancelled.tokens, IsEmpty());
  EXPECT_EQ(other.tokens, first(answer_, 3));
  s.cancel(id);  // of a request that is gone: nothing happens
}

TEST_F(SessionTest, CancelFromWithinItsOwnSink) {
  Session s = session({.context = 256});
  std::vector<int32_t> seen;
  Session::Id id = 0;
  id = s.submit({.prompt = prompt_}, [&](const GeneratedToken& token) {
    seen.push_back(token.sampled.id);
    if (seen.size() == 2) s.cancel(id);
  });
  Answer other;
  s.submit({.prompt = prompt_, .max_tokens = 4}, other.sink());
  run(s);
  EXPECT_EQ(seen, first(answer_, 2));
  EXPECT_EQ(other.tokens, first(answer_, 4));
}

// Both get their token from the same step: the second must not see it.
TEST_F(SessionTest, CancelFromWithinAnothersSink) {
  Session s = session({.context = 512});
  Answer cancelled;
  Session::Id id = 0;
  int calls = 0;
  s.submit({.prompt = prompt_, .max_tokens = 4}, [&](const GeneratedToken&) {
    if (++calls == 2) s.cancel(id);
  });
  id = s.submit({.prompt = prompt_, .max_tokens = 4}, cancelled.sink());
  run(s);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(cancelled.tokens, first(answer_, 1));
}

TEST_F(SessionTest, ASinkMaySubmit) {
  Session s = session({.context = 256});
  Answer next;
  s.submit({.prompt = prompt_, .max_tokens = 1},
           [&](const GeneratedToken&) { s.submit({.prompt = prompt_, .max_tokens = 2}, next.sink()); });
  run(s);
  EXPECT_EQ(next.tokens, first(answer_, 2));
}

TEST_F(SessionTest, AfterAnExceptionTheWaitingRequestsAreServed) {
  const auto context = static_cast<int64_t>(prompt_.size()) + 4;
  Session s = session({.context = context});  // room for one request at a time
  s.submit({.prompt = prompt_, .max_tokens = 4},
           [](const GeneratedToken&) { throw Error("sink", "the client has gone"); });
  Answer waiting;
  s.submit({.prompt = prompt_, .max_tokens = 4}, waiting.sink());
  expect_error([&] { s.step(); }, "the client has gone");
  run(s);
  EXPECT_EQ(waiting.tokens, first(answer_, 4));
}

TEST_F(SessionTest, ImpossibleRequestsAreRefused) {
  Session s = session({.context = 32});
  const auto refuse = [&](const Request& request, const std::string& part) {
    expect_error([&] { s.submit(request, [](const GeneratedToken&) { FAIL(); }); }, part);
  };
  const std::vector<int32_t> prompt{1, 2, 3};
  refuse({}, "prompt: expected at least one token");
  refuse({.prompt = {1, 4096}}, "expected an id in [0, 4096), got 4096");
  refuse({.prompt = {-1}}, "expected an id in [0, 4096), got -1");
  refuse({.prompt = prompt, .max_tokens = 0}, "max_tokens: expected at least 1, got 0");
  refuse({.prompt = prompt, .max_tokens = 30}, "at most the context of 32 tokens, got 3 + 30");
  refuse({.prompt = prompt, .max_tokens = INT64_MAX}, "at most the context of 32 tokens");
  refuse({.prompt = std::vector<int32_t>(32, 1)}, "at most the context of 32 tokens, got 32 + 1");
  refuse({.prompt = prompt, .stop = {"a", ""}}, "stop: expected non-empty strings");
  refuse({.prompt = prompt, .sampling = {.top_p = 2}}, "sampling: top_p");
  EXPECT_FALSE(s.step()) << "nothing was queued";
}

TEST_F(SessionTest, ImpossibleOptionsAreRefused) {
  expect_error([&] { session({.context = 0}); }, "context: expected 1 to 2147483647 tokens, got 0");
  expect_error([&] { session({.context = int64_t{1} << 60}); }, "context: expected 1 to 2147483647 tokens");
  expect_error([&] { session({.context = 16, .max_batch_tokens = 0}); },
               "max_batch_tokens: expected 1 to 2147483647 tokens, got 0");
}

// The first request sets the whole context aside. What is kept of it for the second, which extends it, must
// leave room for the third to run beside the second.
TEST_F(SessionTest, ARetainedPrefixKeepsNoMoreMemoryThanItsTokens) {
  Session s = session({.context = 128});
  s.submit({.prompt = prompt_, .end_tokens = {answer_.back()}}, [](const GeneratedToken&) {});
  run(s);
  std::vector<int32_t> longer = prompt_;
  longer.insert(longer.end(), answer_.begin(), answer_.end());
  std::string order;
  s.submit({.prompt = longer, .max_tokens = 3}, [&](const GeneratedToken&) { order += 'a'; });
  s.submit({.prompt = prompt_, .max_tokens = 3}, [&](const GeneratedToken&) { order += 'b'; });
  run(s);
  EXPECT_EQ(order, "ababab");
}

TEST_F(SessionTest, ReportsTheExpertsThatPredictedEachToken) {
  Session s = session({.context = 256, .max_batch_tokens = 7});
  const ModelShape& shape = engine_.model->shape();
  std::vector<GeneratedToken> alone;
  s.submit({.prompt = prompt_, .max_tokens = 3, .return_experts = true},
           [&](const GeneratedToken& token) { alone.push_back(token); });
  run(s);
  const auto tokens = static_cast<int64_t>(prompt_.size()) + 2;  // the last one is not computed
  ASSERT_EQ(static_cast<int64_t>(s.statistics().hits().size()), shape.layer_count());
  for (const auto& [layer, hits] : s.statistics().hits()) {
    EXPECT_EQ(load_figures(hits).assignments, tokens * shape.top_k) << layer;
  }
  std::vector<GeneratedToken> together;
  s.submit({.prompt = references_[1].prompt_ids, .max_tokens = 3}, [](const GeneratedToken&) {});
  s.submit({.prompt = prompt_, .max_tokens = 3, .return_experts = true},
           [&](const GeneratedToken& token) { together.push_back(token); });
  run(s);
  ASSERT_EQ(alone.size(), 3u);
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(static_cast<int64_t>(alone[i].experts.size()), shape.layer_count());
    for (size_t l = 0; l < alone[i].experts.size(); ++l) {
      EXPECT_EQ(static_cast<int64_t>(alone[i].experts[l].expert_ids.size()), shape.top_k);
      EXPECT_EQ(together[i].experts[l].expert_ids, alone[i].experts[l].expert_ids);
      EXPECT_EQ(together[i].experts[l].weights, alone[i].experts[l].weights);
    }
  }
}

}  // namespace
}  // namespace switchyard
