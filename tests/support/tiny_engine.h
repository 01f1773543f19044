// The small trained model of the repository, and sessions on it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "io/generation_config.h"
#include "models/registry.h"

namespace switchyard {

struct TinyEngine {
  explicit TinyEngine(std::unique_ptr<Backend> backend_of_test);

  std::unique_ptr<Backend> backend;
  Tokenizer tokenizer;
  std::unique_ptr<Model> model;
  GenerationConfig generation;
};

// One for all tests of a binary: the CPU backend with one thread. Sessions on it do not see each other.
TinyEngine& shared_tiny_engine();

// What a request's sink saw.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::string> pieces;
  std::string text;  // of all pieces
  std::optional<FinishReason> finish;

  TokenSink sink();  // `this` must live as long as the request
};

// Runs the requests together to their end.
std::vector<Answer> run_all(TinyEngine& engine, const std::vector<Request>& requests,
                            const SessionOptions& options = {.context = 1024});
Answer run_one(TinyEngine& engine, const Request& request, const SessionOptions& options = {.context = 512});

// The prompts and greedy answers that transformers gives for this model.
struct GreedyReference {
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> answer_ids;  // without the prompt
};
std::vector<GreedyReference> greedy_references();

}  // namespace switchyard
