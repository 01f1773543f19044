#include "cli/common.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/files.h"
#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

template <typename Number>
std::optional<Number> parse(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Validators answer with what is wrong, or with an empty text.
template <typename Number, typename Accept>
CLI::Validator validator(const std::string& expected, Accept accept) {
  return {[expected, accept](std::string& text) {
            const auto value = parse<Number>(text);
            if (value && accept(*value)) return std::string();
            return fmt::format("expected {}, got '{}'", expected, printable(text));
          },
          ""};
}

// errno of the read that failed: a folder, or no stdin at all.
void check_stdin() {
  if (std::ferror(stdin) != 0) throw Error("stdin", "", "readable input", std::strerror(errno));
}

}  // namespace

CLI::Validator is_integer() {
  return validator<int64_t>("a 64-bit integer", [](int64_t) { return true; });
}

CLI::Validator is_unsigned() {
  return validator<uint64_t>("an integer from 0 to 2^64 - 1", [](uint64_t) { return true; });
}

CLI::Validator is_number(double min, double max) {
  const bool bounded = min > -std::numeric_limits<double>::max();
  return validator<double>(bounded ? fmt::format("a number of at least {}", min) : "a number",
                           [=](double value) { return value >= min && value <= max; });  // false for NaN
}

void add_folder_option(CLI::App& app, std::string& folder, const std::string& help) {
  app.add_option("MODEL", folder, help)->required()->each(check_is_folder);
}

void ModelOptions::add_to(CLI::App& app) {
  add_folder_option(app, folder, "Checkpoint folder as Hugging Face publishes it");
  app.add_option("--device", device, "Where to run: cpu")
      ->each([](const std::string& name) {
        if (name != "cpu") throw Error("--device", "", "cpu, the only device of this build", printable(name));
      })
      ->capture_default_str();
  app.add_option("--threads", threads, "Threads; 0: one for each usable processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option(
         "--ignore-config-key", ignored_keys,
         "A key of config.json that Switchyard does not know and you declare harmless; may be repeated")
      ->allow_extra_args(false);
  app.add_option(
         "--rope-precision", rope_precision,
         "f32, or bf16 to compare with results of a model that was cast as a whole with .to(bfloat16)")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
}

LoadOptions ModelOptions::load_options() const {
  return {.ignored_keys = {ignored_keys.begin(), ignored_keys.end()},
          .rope_precision = rope_precision == "bf16" ? DType::kBF16 : DType::kF32};
}

LoadedModel::LoadedModel(const ModelOptions& options)
    : backend(std::make_unique<CpuBackend>(CpuOptions{.threads = options.threads, .isa = {}})),
      model(load_model(options.folder, *backend, options.load_options())) {
  print_notes(*model->checkpoint());
}

void print_notes(const Checkpoint& checkpoint) {
  for (const std::string& note : checkpoint.notes())
    print_error(fmt::format("note: {}\n", note));
}

void note_untrained_positions(const Model& model, int64_t positions) {
  const int64_t trained = model.shape().max_positions;
  if (positions <= trained) return;
  print_error(
      fmt::format("note: {} positions, but the model was trained for {}: beyond them its text gets worse\n",
                  positions, trained));
}

void check_utf8(const std::string& where, const std::string& text) {
  const size_t bad = first_invalid_utf8(text);
  if (bad == text.size()) return;
  throw Error(where, fmt::format("byte {}", bad), "valid UTF-8",
              fmt::format("'{}'", printable(std::string_view(text).substr(bad, 8))));
}

bool read_line(std::string& line) {
  if (std::getline(std::cin, line)) return true;
  check_stdin();
  return false;
}

std::string read_stdin() {
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  check_stdin();
  return text;
}

void print(const std::string& text) {
  for (std::string_view left = text; !left.empty();) {
    const ssize_t written = ::write(STDOUT_FILENO, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;  // Ctrl-C loses nothing
    if (written < 0) {
      throw Error("stdout", "", fmt::format("room for {} bytes", left.size()), std::strerror(errno));
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
}

void print_error(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

void print_json(const Json& document) {
  print(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), enabled_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (enabled_) std::fprintf(stderr, "\r\033[K");
}

void Progress::show(int64_t done) {
  if (!enabled_ || total_ == 0) return;
  std::fprintf(stderr, "\r%s: %3.0f %%", what_.c_str(),
               100.0 * static_cast<double>(done) / static_cast<double>(total_));
  std::fflush(stderr);
}

}  // namespace switchyard
