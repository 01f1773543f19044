#include "support/tiny_engine.h"

#include "backend/cpu/cpu_backend.h"
#include "base/json.h"

namespace switchyard {
namespace {

const std::string kFolder = SWITCHYARD_SOURCE_DIR "/models/tiny-qwen2-moe";

}  // namespace

TinyEngine::TinyEngine(std::unique_ptr<Backend> backend_of_test)
    : backend(std::move(backend_of_test)),
      tokenizer(Tokenizer::load(kFolder)),
      model(load_model(kFolder, *backend)),
      generation(read_generation_config(kFolder, ConfigReader::open(kFolder + "/config.json"),
                                        model->shape().vocab)) {}

TinyEngine& shared_tiny_engine() {
  static TinyEngine engine(std::make_unique<CpuBackend>(CpuOptions{.threads = 1, .isa = {}}));
  return engine;
}

TokenSink Answer::sink() {
  return [this](const GeneratedToken& token) {
    tokens.push_back(token.sampled.id);
    if (token.sampled.logprob) logprobs.push_back(*token.sampled.logprob);
    pieces.push_back(token.text);
    text += token.text;
    finish = token.finish;
  };
}

std::vector<Answer> run_all(TinyEngine& engine, const std::vector<Request>& requests,
                            const SessionOptions& options) {
  Session session(*engine.model, engine.tokenizer, *engine.backend, options);
  std::vector<Answer> answers(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request = requests[i];
    request.sampling.logprobs = 0;
    session.submit(request, answers[i].sink());
  }
  while (session.step()) {
  }
  return answers;
}

Answer run_one(TinyEngine& engine, const Request& request, const SessionOptions& options) {
  return run_all(engine, {request}, options).front();
}

std::vector<GreedyReference> greedy_references() {
  std::vector<GreedyReference> references;
  const std::string path = kFolder + "/greedy_reference.json";
  for (const Json& entry : parse_json(read_file(path, 1 << 20), path)) {
    const auto prompt = entry.at("prompt_ids").get<std::vector<int32_t>>();
    const auto all = entry.at("output_ids").get<std::vector<int32_t>>();
    references.push_back(
        {.prompt_ids = prompt, .answer_ids = {all.begin() + static_cast<int64_t>(prompt.size()), all.end()}});
  }
  return references;
}

}  // namespace switchyard
