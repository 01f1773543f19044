#include "cli/common.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace switchyard {

void ModelOptions::add_to(CLI::App& app) {
  app.add_option("MODEL", folder, "Checkpoint folder as Hugging Face publishes it")->required();
  app.add_option("--device", device, "Where to run: cpu")->capture_default_str();
  app.add_option("--threads", threads, "Threads; 0: one for each usable processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option(
      "--ignore-config-key", ignored_keys,
      "A key of config.json that Switchyard does not know and you declare harmless; may be repeated");
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

std::unique_ptr<Backend> make_backend(const ModelOptions& options) {
  if (options.device != "cpu") {
    throw Error("--device", "", "cpu, the only device of this build", printable(options.device));
  }
  return std::make_unique<CpuBackend>(CpuOptions{.threads = options.threads, .isa = {}});
}

LoadedModel::LoadedModel(const ModelOptions& options)
    : backend(make_backend(options)), model(load_model(options.folder, *backend, options.load_options())) {}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("stdout", "", fmt::format("room for {} bytes", text.size()), std::strerror(errno));
  }
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
