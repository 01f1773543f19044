#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/stop_matcher.h"
#include "io/tokenizer/stream_decoder.h"

namespace switchyard {

struct Session::Sequence {
  Sequence(Id request_id, Request r, TokenSink s, PagedKvCache& cache, const Tokenizer& tokenizer)
      : id(request_id),
        request(std::move(r)),
        sink(std::move(s)),
        cached(cache),
        tokens(request.prompt),
        sampler(request.sampling, request.prompt),
        decoder(tokenizer, true),
        stop(request.stop) {}

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t prompt_length() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t generated() const { return length() - prompt_length(); }

  Id id;
  Request request;
  TokenSink sink;
  CachedSequence cached;
  std::vector<int32_t> tokens;  // prompt and output
  int64_t computed = 0;         // of them have keys and values in the cache
  Sampler sampler;
  StreamDecoder decoder;
  StopMatcher stop;
  bool finished = false;
};

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
    case FinishReason::kStopString:
      return "stop";
    case FinishReason::kMaxTokens:
    case FinishReason::kContextFull:
      return "length";
  }
  return "";
}

namespace {

// Whether keys and values computed under one policy hold under the other.
bool same_policy(const RoutingPolicy* a, const RoutingPolicy* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

const SessionOptions& checked(const SessionOptions& options, const ModelShape& model) {
  const auto check_tokens = [](const char* option, int64_t value) {
    if (value >= 1 && value <= INT32_MAX) return;  // positions are int32
    throw Error("session", option, fmt::format("1 to {} tokens", INT32_MAX), fmt::format("{}", value));
  };
  check_tokens("context", options.context);
  check_tokens("max_batch_tokens", options.max_batch_tokens);
  if (options.capacity) check(*options.capacity, model);
  return options;
}

}  // namespace

Session::Session(const Model& model, const Tokenizer& tokenizer, Backend& backend,
                 const SessionOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      backend_(backend),
      options_(checked(options, model.shape())),
      arena_(backend.memory()),
      cache_(backend, model.shape(), options.context),
      recorder_(backend) {}

Session::~Session() = default;

Session::Id Session::submit(Request request, TokenSink sink) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) throw Error("request", "prompt", "at least one token", "none");
  check_token_ids("request", request.prompt, model_.shape().vocab);
  if (request.max_tokens && *request.max_tokens < 1) {
    throw Error("request", "max_tokens", "at least 1", fmt::format("{}", *request.max_tokens));
  }
  const int64_t output = request.max_tokens.value_or(1);
  if (output > options_.context - length) {
    throw Error("request", "prompt and max_tokens",
                fmt::format("at most the context of {} tokens", options_.context),
                fmt::format("{} + {}", length, output));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) throw Error("request", "stop", "non-empty strings", "an empty one");
  }
  check(request.sampling, model_.shape().vocab);
  waiting_.push_back(
      std::make_unique<Sequence>(next_id_, std::move(request), std::move(sink), cache_, tokenizer_));
  return next_id_++;
}

void Session::cancel(Id id) {
  for (auto& sequence : running_) {
    if (sequence->id == id) sequence->finished = true;
  }
  std::erase_if(waiting_, [&](const auto& sequence) { return sequence->id == id; });
}

// Blocks for the whole request are set aside when it starts, so that a running sequence never waits for
// memory.
bool Session::reserve(Sequence& sequence) {
  const int64_t prompt = sequence.length();
  const int64_t most =
      std::min(options_.context, prompt + sequence.request.max_tokens.value_or(options_.context));
  if (retained_) {
    const auto [ours, theirs] = std::mismatch(sequence.tokens.begin(), sequence.tokens.end(),
                                              retained_->tokens.begin(), retained_->tokens.end());
    // The last prompt token is always computed: its logits are wanted.
    const int64_t shared = std::min<int64_t>(ours - sequence.tokens.begin(), prompt - 1);
    const bool rotated_alike =
        std::max(prompt, retained_->rope_length) <= model_.shape().constant_rope_length;
    const bool routed_alike =
        same_policy(sequence.request.routing_policy.get(), retained_->routing_policy.get());
    if (shared > 0 && rotated_alike && routed_alike) {
      sequence.cached = std::move(retained_->cached);
      sequence.computed = shared;
    }
    retained_.reset();
  }
  return sequence.cached.reserve(most);
}

void Session::admit() {
  while (!waiting_.empty() && reserve(*waiting_.front())) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// Sequences that wait for one token only come first, so that a long prompt never makes them wait a whole
// step.
std::vector<Session::Sequence*> Session::by_urgency() const {
  std::vector<Sequence*> order;
  for (const auto& sequence : running_)
    order.push_back(sequence.get());
  std::stable_partition(order.begin(), order.end(),
                        [](const Sequence* s) { return s->length() - s->computed == 1; });
  return order;
}

bool Session::step() {
  retire_finished();
  admit();
  if (running_.empty()) return false;
  try {
    run_one_step();
  } catch (...) {
    running_.clear();  // not retained: their cached keys and values may be broken
    throw;
  }
  return true;
}

void Session::run_one_step() {
  StepBuilder step(options_.capacity);
  std::vector<Sequence*> sampled;  // sequences whose next token this step gives, in order of their logits
  std::vector<int64_t> rows;       // the row that gives it
  for (Sequence* sequence : by_urgency()) {
    const int64_t count =
        std::min(sequence->length() - sequence->computed, options_.max_batch_tokens - step.tokens());
    if (count == 0) continue;
    const bool complete = sequence->computed + count == sequence->length();
    step.add(std::span(sequence->tokens)
                 .subspan(static_cast<size_t>(sequence->computed), static_cast<size_t>(count)),
             sequence->computed, sequence->cached, complete ? Logits::kLast : Logits::kNone,
             sequence->prompt_length(), sequence->request.routing_policy);
    sequence->computed += count;
    if (!complete) continue;
    sampled.push_back(sequence);
    rows.push_back(step.tokens() - 1);
  }

  recorder_.clear();
  Context c{.backend = backend_, .arena = arena_, .tape = nullptr, .observer = &recorder_};
  const std::vector<float> logits = to_host(backend_, run_step(c, model_, step, cache_));
  for (const auto& choice : recorder_.choices()) {
    statistics_.add(choice.layer, choice.experts, choice.expert_ids);
    for (const RoutingEffects& effects : choice.effects)
      statistics_.add(choice.layer, effects);
  }
  const auto vocab = static_cast<size_t>(model_.shape().vocab);
  for (size_t i = 0; i < sampled.size(); ++i) {
    if (sampled[i]->finished) continue;  // cancelled by the sink of another one
    deliver(*sampled[i], std::span(logits).subspan(i * vocab, vocab), rows[i]);
  }
}

void Session::deliver(Sequence& sequence, std::span<const float> logits, int64_t row) {
  GeneratedToken token{.sampled = sequence.sampler.sample(logits), .text = {}, .experts = {}, .finish = {}};
  sequence.tokens.push_back(token.sampled.id);
  const bool ends = std::ranges::count(sequence.request.end_tokens, token.sampled.id) > 0;
  if (!ends) token.text = sequence.stop.push(sequence.decoder.push(token.sampled.id));
  token.finish = finish_reason(sequence, token.sampled.id);
  if (token.finish && !sequence.stop.stopped()) {
    token.text += sequence.stop.push(sequence.decoder.finish());
    token.text += sequence.stop.finish();
  }
  if (sequence.request.return_experts) token.experts = experts_of_row(row);
  sequence.finished = token.finish.has_value();
  sequence.sink(token);
}

std::optional<FinishReason> Session::finish_reason(const Sequence& sequence, int32_t token) const {
  if (std::ranges::count(sequence.request.end_tokens, token) > 0) return FinishReason::kEndToken;
  if (sequence.stop.stopped()) return FinishReason::kStopString;
  if (sequence.generated() == sequence.request.max_tokens) return FinishReason::kMaxTokens;
  if (sequence.length() >= options_.context) return FinishReason::kContextFull;
  return std::nullopt;
}

std::vector<RoutingRecorder::LayerChoice> Session::experts_of_row(int64_t row) const {
  std::vector<RoutingRecorder::LayerChoice> result;
  for (const auto& all : recorder_.choices()) {
    RoutingRecorder::LayerChoice choice{
        .layer = all.layer, .experts = all.experts, .top_k = 0, .expert_ids = {}, .weights = {}};
    for (int64_t slot = row * all.top_k; slot < (row + 1) * all.top_k; ++slot) {
      const auto i = static_cast<size_t>(slot);
      if (all.expert_ids[i] < 0) continue;
      choice.expert_ids.push_back(all.expert_ids[i]);
      choice.weights.push_back(all.weights[i]);
      ++choice.top_k;
    }
    if (!all.effects.empty()) choice.effects = {all.effects[static_cast<size_t>(row)]};
    result.push_back(std::move(choice));
  }
  return result;
}

void Session::retire_finished() {
  for (const auto& sequence : running_) {
    if (!sequence->finished) continue;
    sequence->tokens.resize(static_cast<size_t>(sequence->computed));
    sequence->cached.shrink(sequence->computed);
    retained_ = Retained{std::move(sequence->cached), std::move(sequence->tokens),
                         std::max(sequence->computed, sequence->prompt_length()),
                         std::move(sequence->request.routing_policy)};
  }
  std::erase_if(running_, [](const auto& sequence) { return sequence->finished; });
}

}  // namespace switchyard
