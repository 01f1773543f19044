#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/routing_options.h"
#include "engine/calibration.h"
#include "engine/session.h"

namespace switchyard {
namespace {

struct Options {
  ModelOptions model;
  RouterOptions router;
  std::string file;
  int64_t window = 0;
  int64_t max_tokens = 0;
  bool json = false;
};

struct Suggestion {
  int64_t largest_load;
  int64_t capacity;
  double factor;
};

Json to_json(const Suggestion& s) {
  return {{"largest_load", s.largest_load},
          {"suggested_capacity", s.capacity},
          {"suggested_capacity_factor", s.factor}};
}

std::string to_text(const std::string& layer, const Suggestion& s) {
  return fmt::format("{:<6} {:>12} {:>18} {:>16.2f}\n", layer, s.largest_load, s.capacity, s.factor);
}

int calibrate(const Options& o) {
  const auto files = ModelFiles::open(o.model.path);
  const Tokenizer tokenizer = load_tokenizer(*files);
  const std::vector<int32_t> tokens = encode_file(tokenizer, o.file, o.max_tokens);
  const LoadedModel loaded(o.model, *files);
  const ModelShape& shape = loaded.model->shape();
  const auto policy = o.router.for_model(*loaded.backend, shape).policy;
  const int64_t window =
      o.window > 0 ? o.window : std::min(SessionOptions().max_batch_tokens, shape.max_positions);
  note_untrained_positions(*loaded.model, std::min(window, static_cast<int64_t>(tokens.size())));
  Progress progress("calibration", static_cast<int64_t>(tokens.size()));
  const CapacityCalibration result = calibrate_capacity(*loaded.backend, *loaded.model, tokens, window,
                                                        policy, [&](int64_t done) { progress.show(done); });
  const int64_t top_k = policy == nullptr ? shape.top_k : policy->top_k();
  const auto suggest = [&](int64_t load) {
    const int64_t capacity = suggested_capacity(load);
    return Suggestion{load, capacity, capacity_factor_of(capacity, result.step_tokens, top_k, shape.experts)};
  };
  int64_t largest = 0;
  Json layers = Json::object();
  std::string text = fmt::format("{:<6} {:>12} {:>18} {:>16}\n", "layer", "largest load",
                                 "suggested capacity", "capacity factor");
  for (const auto& [layer, load] : result.largest_load) {
    largest = std::max(largest, load);
    layers[std::to_string(layer)] = to_json(suggest(load));
    text += to_text(std::to_string(layer), suggest(load));
  }
  if (o.json) {
    Json document = to_json(suggest(largest));
    document.update({{"tokens", tokens.size()}, {"step_tokens", result.step_tokens}, {"layers", layers}});
    print_json(document);
  } else {
    print(text + to_text("all", suggest(largest)) +
          fmt::format("{} tokens in steps of up to {}, {} of {} experts each\n", tokens.size(),
                      result.step_tokens, top_k, shape.experts));
  }
  return 0;
}

}  // namespace

Command calibrate_capacity_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "calibrate-capacity", "The largest load of an expert over a text, and the capacity that it suggests");
  o->model.add_to(*command);
  command->add_option("FILE", o->file, "UTF-8 text")->required();
  command
      ->add_option(
          "--window", o->window,
          "Tokens of a step; default the smaller of 512, as `run` takes a prompt, and what the model was "
          "trained for")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_option("--max-tokens", o->max_tokens, "Takes only the first so many tokens of the text")
      ->check(CLI::Range(1, INT32_MAX));
  o->router.add_policy_to(*command);
  command->add_flag("--json", o->json, "One JSON document");
  return {command, [o] { return calibrate(*o); }};
}

}  // namespace switchyard
