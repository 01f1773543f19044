// switchyard <command> MODEL [options]. Exit codes: 0 success, 1 bad input or a failed check, 2 bad usage.
#include <csignal>
#include <cstdio>
#include <exception>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/version.h"

namespace switchyard {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"Inspects, runs and verifies mixture-of-experts language models from Hugging Face folders."};
  app.name("switchyard");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  const Command commands[] = {inspect_command(app), run_command(app),    tokenize_command(app),
                              logits_command(app),  verify_command(app), perplexity_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "switchyard: %s\nRun with --help for usage.\n", e.what());
    return 2;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.action();
  }
  return 2;
}

}  // namespace
}  // namespace switchyard

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, not a death
  spdlog::set_default_logger(spdlog::stderr_color_st("switchyard"));
  spdlog::set_pattern("%l: %v");
  try {
    return switchyard::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "switchyard: %s\n", e.what());
    return 1;
  }
}
