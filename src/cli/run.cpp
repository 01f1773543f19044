#include <chrono>
#include <csignal>
#include <random>

#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/experts_report.h"
#include "cli/routing_options.h"
#include "engine/session.h"
#include "io/chat_template.h"

namespace switchyard {
namespace {

struct Options {
  ModelOptions model;
  RouterOptions router;
  std::optional<std::string> prompt;
  std::string system;
  bool raw = false;
  bool show_experts = false;
  bool json = false;
  std::optional<int64_t> max_tokens;
  std::vector<std::string> stop;
  int64_t context = 0;
  // Sampling: what is not given comes from generation_config.json.
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<uint64_t> seed;
  int64_t logprobs = 0;
};

constexpr int kInterruptedExit = 130;  // as a shell reports SIGINT
volatile std::sig_atomic_t interrupted = 0;

// The next Ctrl-C ends the answer in order, or a wait for input (hence no SA_RESTART); one more ends the
// program.
void watch_interrupts() {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Answer {
  std::vector<GeneratedToken> tokens;
  std::string text;
  size_t prompt_tokens = 0;
  double first_token_s = 0;
  double total_s = 0;
};

// The next line of a chat. False at its end and when Ctrl-C ended the wait.
bool next_line(std::string& line) {
  try {
    return read_line(line);
  } catch (const Error&) {
    if (interrupted != 0) return false;
    throw;
  }
}

class Runner {
 public:
  explicit Runner(const Options& options)
      : options_(options),
        files_(ModelFiles::open(options.model.path)),
        tokenizer_(load_tokenizer(*files_)),
        loaded_(options.model, *files_),
        generation_(files_->generation_config(loaded_.model->shape().vocab)),
        routing_(options.router.for_model(*loaded_.backend, loaded_.model->shape())),
        session_(*loaded_.model, tokenizer_, *loaded_.backend,
                 {.context = context(), .capacity = routing_.capacity}) {
    note_untrained_positions(*loaded_.model, context());
    for (const std::string& what : generation_.unsupported)
      print_error(fmt::format("note: generation_config.json: {}\n", what));
    if (sampling().temperature == 0 && (options.top_k || options.top_p || options.min_p))
      print_error("note: at temperature 0 --top-k, --top-p and --min-p have no effect\n");
    check_utf8("--system", options.system);
    if (!options.raw) chat_ = files_->chat_template();
    if (!options.raw && !chat_) {
      throw Error(options.model.path, "chat template",
                  "chat_template.jinja, one in tokenizer_config.json, or one in the .gguf file",
                  "none; --raw continues a text without one");
    }
  }

  int run_once(const std::string& prompt) {
    check_utf8("prompt", prompt);
    const Answer answer = generate(options_.raw ? encode_raw(prompt) : encode_chat(first_messages(prompt)));
    report(answer);
    return interrupted != 0 ? kInterruptedExit : 0;
  }

  int chat() {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    OrderedJson messages = first_messages(std::nullopt);
    std::string line;
    while (interrupted == 0) {
      if (terminal) std::fprintf(stderr, "> ");
      if (!next_line(line)) break;
      if (line.empty()) continue;
      check_utf8("prompt", line);
      messages.push_back({{"role", "user"}, {"content", line}});
      const Answer answer = generate(options_.raw ? encode_raw(line) : encode_chat(messages));
      messages.push_back({{"role", "assistant"}, {"content", answer.text}});
      report(answer);
      session_.statistics().clear();
      if (interrupted != 0) watch_interrupts();  // Ctrl-C ended the answer, not the chat
    }
    if (terminal) std::fprintf(stderr, "\n");
    return interrupted != 0 ? kInterruptedExit : 0;
  }

 private:
  int64_t context() const {
    if (options_.context > 0) return options_.context;
    return std::min<int64_t>(4096, loaded_.model->shape().max_positions);
  }

  OrderedJson first_messages(const std::optional<std::string>& prompt) const {
    OrderedJson messages = OrderedJson::array();
    if (!options_.system.empty()) messages.push_back({{"role", "system"}, {"content", options_.system}});
    if (prompt) messages.push_back({{"role", "user"}, {"content", *prompt}});
    return messages;
  }

  std::vector<int32_t> encode_raw(const std::string& text) const {
    std::vector<int32_t> ids = tokenizer_.encode(text, {.add_special_tokens = true, .parse_special = true});
    if (ids.empty()) {
      throw Error("prompt", "", "at least one token",
                  "none: the text is empty and the tokenizer adds no BOS token");
    }
    return ids;
  }

  // What the user typed is marked, so that a control token spelled out in it stays ordinary text.
  std::vector<int32_t> encode_chat(const OrderedJson& messages) const {
    const auto rendered = chat_->render(messages, {});
    std::vector<int32_t> ids = tokenizer_.encode(rendered.text, {.literal_mask = rendered.from_input});
    if (ids.empty()) throw Error(options_.model.path, "chat template", "at least one token", "none");
    return ids;
  }

  SamplingParams sampling() const {
    const bool sampled = generation_.do_sample;
    SamplingParams p;
    p.temperature = options_.temperature.value_or(sampled ? generation_.temperature : 0.0);
    p.top_k = options_.top_k.value_or(sampled ? generation_.top_k : 0);
    p.top_p = options_.top_p.value_or(sampled ? generation_.top_p : 1.0);
    p.min_p = options_.min_p.value_or(sampled ? generation_.min_p : 0.0);
    p.repetition_penalty = options_.repetition_penalty.value_or(generation_.repetition_penalty);
    p.presence_penalty = options_.presence_penalty;
    p.frequency_penalty = options_.frequency_penalty;
    p.seed = options_.seed ? *options_.seed : std::random_device{}();
    if (options_.json) p.logprobs = options_.logprobs;
    return p;
  }

  Answer generate(std::vector<int32_t> prompt) {
    Answer answer;
    answer.prompt_tokens = prompt.size();
    const auto start = Clock::now();
    const auto sink = [&](const GeneratedToken& token) {
      if (answer.tokens.empty()) answer.first_token_s = seconds_since(start);
      answer.tokens.push_back(token);
      answer.text += token.text;
      if (!options_.json) print(token.text);
    };
    const Session::Id id = session_.submit({.prompt = std::move(prompt),
                                            .max_tokens = options_.max_tokens,
                                            .sampling = sampling(),
                                            .end_tokens = generation_.eos_token_ids,
                                            .stop = options_.stop,
                                            .return_experts = options_.show_experts,
                                            .routing_policy = routing_.policy},
                                           sink);
    while (session_.step()) {
      if (interrupted != 0) session_.cancel(id);
    }
    answer.total_s = seconds_since(start);
    return answer;
  }

  void report(const Answer& answer) {
    if (options_.json) return print_json(answer_json(answer));
    print("\n");
    if (options_.show_experts) {
      print("\n" + experts_by_token(answer.tokens, tokenizer_) + "\n" + load_summary(session_.statistics()));
    }
    std::fprintf(stderr, "%zu prompt tokens, first token after %.1f ms", answer.prompt_tokens,
                 answer.first_token_s * 1e3);
    if (answer.tokens.size() > 1) {
      const double rate =
          static_cast<double>(answer.tokens.size() - 1) / (answer.total_s - answer.first_token_s);
      std::fprintf(stderr, "; %zu tokens at %.1f tokens/s", answer.tokens.size(), rate);
    }
    std::fprintf(stderr, " on %s\n", loaded_.backend->description().c_str());
  }

  Json token_json(const GeneratedToken& token) const {
    Json out = {{"id", token.sampled.id}, {"text", token.text}, {"logprob", token.sampled.logprob.value()}};
    for (const auto& [id, logprob] : token.sampled.top_logprobs) {
      out["top_logprobs"].push_back(
          {{"id", id}, {"token", tokenizer_.decode(std::vector{id}, false)}, {"logprob", logprob}});
    }
    if (options_.show_experts) out["experts"] = experts_json(token);
    return out;
  }

  Json answer_json(const Answer& answer) {
    Json tokens = Json::array();
    for (const GeneratedToken& token : answer.tokens)
      tokens.push_back(token_json(token));
    const bool ended = !answer.tokens.empty() && answer.tokens.back().finish;
    Json document = {
        {"text", answer.text},
        {"finish_reason", ended ? std::string(name(*answer.tokens.back().finish)) : "interrupted"},
        {"prompt_tokens", answer.prompt_tokens},
        {"tokens", tokens},
        {"first_token_ms", answer.first_token_s * 1e3},
        {"total_ms", answer.total_s * 1e3}};
    if (options_.show_experts) document["load"] = load_json(session_.statistics());
    return document;
  }

  const Options& options_;
  std::unique_ptr<const ModelFiles> files_;
  Tokenizer tokenizer_;
  LoadedModel loaded_;
  GenerationConfig generation_;
  std::optional<ChatTemplate> chat_;
  RoutingOptions routing_;
  Session session_;
};

int run(const Options& o) {
  if (!o.prompt) {
    watch_interrupts();
    return Runner(o).chat();
  }
  const std::string prompt =
      *o.prompt == "-" ? read_stdin() : *o.prompt;  // here Ctrl-C still ends the program
  watch_interrupts();
  return Runner(o).run_once(prompt);
}

void add_sampling_options(CLI::App& command, Options& o) {
  const auto number = [&](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->check(is_number());
  };
  number("--temperature", o.temperature, "0: always the most likely token");
  command.add_option("--top-k", o.top_k, "Keep the k most likely tokens; 0: all")->check(is_integer());
  number("--top-p", o.top_p, "Keep the smallest set of tokens of this probability");
  number("--min-p", o.min_p, "Drop tokens below this share of the largest probability");
  number("--repetition-penalty", o.repetition_penalty, "Above 1: makes tokens seen before less likely");
  number("--presence-penalty", o.presence_penalty, "Subtracted from logits of tokens in the output");
  number("--frequency-penalty", o.frequency_penalty, "The same for each time they occur in it");
  command.add_option("--seed", o.seed, "Equal seeds give equal texts; default: a new one each time")
      ->check(is_unsigned());
}

}  // namespace

Command run_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Answers one prompt, or chats when none is given");
  o->model.add_to(*command);
  command->add_option("-p,--prompt", o->prompt, "The prompt; - reads it from stdin");
  CLI::Option* raw =
      command->add_flag("--raw", o->raw, "Continues the prompt as it is, without the chat template");
  command->add_option("--system", o->system, "System message of a chat")->excludes(raw);
  command->add_option("--max-tokens", o->max_tokens, "Ends the answer after so many tokens")
      ->check(is_integer());
  command->add_option("--stop", o->stop, "Ends the answer before this text; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--context", o->context,
                   "Positions of prompt and answer; default the smaller of 4096 and what "
                   "the model was trained for")
      ->check(CLI::Range(2, 1 << 24));
  command->add_flag("--show-experts", o->show_experts,
                    "Shows each token's experts and how evenly they were used");
  CLI::Option* json =
      command->add_flag("--json", o->json, "One JSON document for each answer instead of streamed text");
  command->add_option("--logprobs", o->logprobs, "With --json: so many alternatives with each token")
      ->check(is_integer())
      ->needs(json);
  add_sampling_options(*command, *o);
  o->router.add_to(*command);
  return {command, [o] { return run(*o); }};
}

}  // namespace switchyard
