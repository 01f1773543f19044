// switchyard <command> MODEL [options]. Exit codes: 0 success, 1 bad input or a failed check, 2 bad usage.
#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/version.h"

namespace switchyard {
namespace {

// A file opened while one of the three standard descriptors is closed would take its number: a model would be
// read as the prompt, a message written into an output. What is opened here instead refuses the wrong
// direction, so that reading stdin and writing stdout still fail.
void occupy_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));  // the lowest free number
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Inspects, runs and verifies mixture-of-experts language models from Hugging Face folders."};
  app.name("switchyard");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  const Command commands[] = {
      inspect_command(app), run_command(app),        tokenize_command(app),          logits_command(app),
      verify_command(app),  perplexity_command(app), calibrate_capacity_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    std::ostringstream text;
    app.exit(e, text);
    print(text.str());
    return 0;
  } catch (const CLI::ParseError& e) {
    constexpr size_t kMaxMessageBytes = 1000;
    print_error(
        fmt::format("switchyard: {}\nRun with --help for usage.\n", printable(e.what(), kMaxMessageBytes)));
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
  switchyard::occupy_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, not a death,
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file above the user's size limit
  try {
    return switchyard::run(argc, argv);
  } catch (const std::exception& e) {
    switchyard::print_error(fmt::format("switchyard: {}\n", e.what()));
    return 1;
  }
}
