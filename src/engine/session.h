// The door that all frontends use: requests go in, tokens come out. A session runs any number of requests
// over one paged cache; every step batches the next token of each running sequence with pieces of waiting
// prompts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/routing_policy.h"
#include "engine/sampler.h"
#include "engine/step.h"
#include "experts/routing_statistics.h"
#include "io/tokenizer/tokenizer.h"

namespace switchyard {

struct Request {
  std::vector<int32_t> prompt;                       // at least one token
  std::optional<int64_t> max_tokens = std::nullopt;  // nullopt: until the context is full
  SamplingParams sampling = {};
  std::vector<int32_t> end_tokens = {};  // any of them ends the text and is not shown
  std::vector<std::string> stop = {};    // any of these strings ends the text and is not shown
  bool return_experts = false;           // report the experts chosen for each token
  // How the request's tokens are routed; null: by the model's own rule. Made for this model and backend.
  std::shared_ptr<const RoutingPolicy> routing_policy = nullptr;
};

enum class FinishReason { kEndToken, kStopString, kMaxTokens, kContextFull };
std::string_view name(FinishReason reason);  // "stop" or "length", as OpenAI's API spells them

struct GeneratedToken {
  SampledToken sampled;
  std::string text;  // what became showable with this token: whole characters, free of stop strings
  // By sparse layer, of the position that predicted the token, without slots that have no expert; empty
  // unless return_experts.
  std::vector<RoutingRecorder::LayerChoice> experts;
  std::optional<FinishReason> finish;  // set with the last token
};
using TokenSink = std::function<void(const GeneratedToken&)>;

struct SessionOptions {
  int64_t context = 4096;          // positions of all sequences together
  int64_t max_batch_tokens = 512;  // tokens of one step
  // What experts take of one step; nullopt: everything, as published checkpoints expect.
  std::optional<Capacity> capacity = std::nullopt;
};

class Session {
 public:
  using Id = int64_t;

  // Throws Error for numbers of tokens that are not in [1, INT32_MAX], for a capacity that check() refuses,
  // and for a context that does not fit into memory.
  Session(const Model& model, const Tokenizer& tokenizer, Backend& backend, const SessionOptions& options);
  ~Session();

  // Queues a request; `sink` is called from step() once for every token. Throws Error for a request that
  // cannot be served: no token, ids outside the vocabulary, more tokens than the context, parameters out of
  // range.
  Id submit(Request request, TokenSink sink);

  // Ends a request: its sink is not called again. May be called from within any sink.
  void cancel(Id id);

  // One forward step. False when there is nothing left to do. When it throws (results that are not numbers, a
  // sampled id that the tokenizer does not have, or what a sink threw), the requests that were running have
  // ended; those that wait are served by the next step.
  bool step();

  // Choices of every routed token since the last clear().
  RoutingStatistics& statistics() { return statistics_; }

 private:
  struct Sequence;
  struct Retained {
    CachedSequence cached;
    std::vector<int32_t> tokens;                          // whose keys and values are cached
    int64_t rope_length;                                  // the longest that any of the keys is rotated for
    std::shared_ptr<const RoutingPolicy> routing_policy;  // that they were computed under
  };

  void admit();
  void run_one_step();
  std::vector<Sequence*> by_urgency() const;
  bool reserve(Sequence& sequence);
  void deliver(Sequence& sequence, std::span<const float> logits, int64_t row);
  std::optional<FinishReason> finish_reason(const Sequence& sequence, int32_t token) const;
  std::vector<RoutingRecorder::LayerChoice> experts_of_row(int64_t row) const;
  void retire_finished();

  const Model& model_;
  const Tokenizer& tokenizer_;
  Backend& backend_;
  SessionOptions options_;
  Arena arena_;
  PagedKvCache cache_;
  RoutingRecorder recorder_;
  RoutingStatistics statistics_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::optional<Retained> retained_;  // the last finished sequence: a chat's next turn starts with it
  Id next_id_ = 0;
};

}  // namespace switchyard
