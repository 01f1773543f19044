#include "engine/perplexity.h"

#include <algorithm>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/routing_options.h"

namespace switchyard {
namespace {

struct Options {
  ModelOptions model;
  RouterOptions router;
  std::string file;
  int64_t window = 0;
  int64_t stride = 0;
  int64_t max_tokens = 0;
  bool json = false;
};

int run_perplexity(const Options& o) {
  const auto files = ModelFiles::open(o.model.path);
  const Tokenizer tokenizer = load_tokenizer(*files);
  const std::vector<int32_t> tokens = encode_file(tokenizer, o.file, o.max_tokens);
  const LoadedModel loaded(o.model, *files);
  PerplexityOptions options;
  options.window = o.window > 0 ? o.window : std::min<int64_t>(2048, loaded.model->shape().max_positions);
  options.stride = o.stride > 0 ? o.stride : std::max<int64_t>(1, options.window / 2);
  options.routing = o.router.for_model(*loaded.backend, loaded.model->shape());
  note_untrained_positions(*loaded.model, std::min(options.window, static_cast<int64_t>(tokens.size())));
  Progress progress("perplexity", static_cast<int64_t>(tokens.size()));
  const Perplexity result =
      perplexity(*loaded.backend, *loaded.model, tokens, options, [&](int64_t done) { progress.show(done); });
  if (o.json) {
    print_json({{"nll", result.nll},
                {"perplexity", result.perplexity()},
                {"tokens", tokens.size()},
                {"scored_tokens", result.tokens},
                {"window", options.window},
                {"stride", options.stride}});
  } else {
    print(fmt::format(
        "nll        {:.6f} per token\nperplexity {:.4f}\nscored     {} of {} tokens, window {}, stride {}\n",
        result.nll, result.perplexity(), result.tokens, tokens.size(), options.window, options.stride));
  }
  return 0;
}

}  // namespace

Command perplexity_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "perplexity", "Negative log likelihood per token and perplexity of a text, in windows");
  o->model.add_to(*command);
  command->add_option("FILE", o->file, "UTF-8 text")->required();
  command
      ->add_option("--window", o->window,
                   "Tokens the model sees at once; default the smaller of 2048 and what "
                   "the model was trained for")
      ->check(CLI::Range(2, INT32_MAX));
  command->add_option("--stride", o->stride, "Tokens from one window to the next; default half a window")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_option("--max-tokens", o->max_tokens, "Scores only the first so many tokens of the text")
      ->check(CLI::Range(2, INT32_MAX));
  o->router.add_to(*command);
  command->add_flag("--json", o->json, "One JSON document");
  return {command, [o] { return run_perplexity(*o); }};
}

}  // namespace switchyard
