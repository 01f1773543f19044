// Options and helpers that commands share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "io/generation_config.h"
#include "io/tokenizer/tokenizer.h"
#include "models/registry.h"

namespace switchyard {

// MODEL, and the options that say how it is loaded.
struct ModelOptions {
  std::string folder;
  std::string device = "cpu";
  int threads = 0;  // 0: one for each usable processor
  std::string rope_precision = "f32";
  std::vector<std::string> ignored_keys;

  void add_to(CLI::App& app);
  LoadOptions load_options() const;
};

// A backend and a model on it. Throws Error for a device that this build does not have.
struct LoadedModel {
  explicit LoadedModel(const ModelOptions& options);

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

std::unique_ptr<Backend> make_backend(const ModelOptions& options);

// Prints to stdout and flushes; throws Error when stdout cannot be written (disk full, closed pipe).
void print(const std::string& text);
void print_json(const Json& document);

// A progress line on stderr, only where stderr is a terminal.
class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress();
  void show(int64_t done);

 private:
  std::string what_;
  int64_t total_;
  bool enabled_;
};

}  // namespace switchyard
