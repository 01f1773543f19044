// One function per command: declares it on the app and returns what runs it. Commands parse arguments and
// print; everything else is below them.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace switchyard {

// Declares the command under `app`. The function to run when the command was given returns the exit code.
using Action = std::function<int()>;
struct Command {
  CLI::App* app;
  Action action;
};

Command inspect_command(CLI::App& app);
Command run_command(CLI::App& app);
Command tokenize_command(CLI::App& app);
Command logits_command(CLI::App& app);
Command verify_command(CLI::App& app);
Command perplexity_command(CLI::App& app);
Command calibrate_capacity_command(CLI::App& app);

}  // namespace switchyard
