// Options and helpers that commands share.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "io/generation_config.h"
#include "io/tokenizer/tokenizer.h"
#include "models/registry.h"

namespace switchyard {

// Numbers as they are written. The parser's own conversion alone would take an empty text for an absent
// option, wrap negative seeds, and clamp what does not fit.
CLI::Validator is_integer();
CLI::Validator is_unsigned();
CLI::Validator is_number(double min = -std::numeric_limits<double>::max(),
                         double max = std::numeric_limits<double>::max());

// MODEL: an existing folder. Parsing throws Error for another one.
void add_folder_option(CLI::App& app, std::string& folder, const std::string& help);

// MODEL, and the options that say how it is loaded.
struct ModelOptions {
  std::string folder;
  std::string device = "cpu";
  int threads = 0;  // 0: one for each usable processor
  std::string rope_precision = "f32";
  std::vector<std::string> ignored_keys;

  void add_to(CLI::App& app);  // parsing throws Error for a device that this build does not have
  LoadOptions load_options() const;
};

// A backend and a model on it; what a user should know about the checkpoint is printed to stderr.
struct LoadedModel {
  explicit LoadedModel(const ModelOptions& options);

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

void print_notes(const Checkpoint& checkpoint);  // to stderr

// Says on stderr when `positions` are more than the model was trained for.
void note_untrained_positions(const Model& model, int64_t positions);

// Throws Error that names the first byte which is not valid UTF-8.
void check_utf8(const std::string& where, const std::string& text);

// One line of stdin without its end, or all of it. False at its end. Throws Error when stdin cannot be read.
bool read_line(std::string& line);
std::string read_stdin();

// Prints to stdout, unbuffered; throws Error when stdout cannot be written (disk full, closed pipe).
void print(const std::string& text);
void print_json(const Json& document);

// Prints to stderr; a stderr that cannot be written is no reason to fail.
void print_error(const std::string& text);

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
