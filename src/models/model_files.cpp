#include "models/model_files.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "io/gguf_config.h"
#include "io/gguf_tokenizer.h"
#include "models/gguf_weights.h"

namespace switchyard {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;  // published files have up to 40 MB

class FolderFiles final : public ModelFiles {
 public:
  explicit FolderFiles(std::string folder) : folder_(std::move(folder)) {}

  ConfigReader config() const override { return ConfigReader::open(folder_ + "/config.json"); }

  Weights weights(const ConfigReader& config, const std::set<std::string>& ignored_keys) const override {
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder_));
    auto quantization = read_quantization_config(config, ignored_keys);
    return {.source = std::make_unique<CheckpointWeights>(checkpoint, std::move(quantization)),
            .verify_unchanged = [checkpoint] { checkpoint->verify_unchanged(); },
            .files = checkpoint->files().size(),
            .tensors = checkpoint->names().size(),
            .bytes = checkpoint->total_bytes(),
            .notes = checkpoint->notes()};
  }

  bool has_tokenizer() const override { return path_exists(tokenizer_place()); }
  std::string tokenizer_json() const override { return read_file(tokenizer_place(), kMaxTokenizerBytes); }
  std::string tokenizer_place() const override { return folder_ + "/tokenizer.json"; }
  std::optional<ChatTemplate> chat_template() const override { return ChatTemplate::load(folder_); }

  GenerationConfig generation_config(int64_t vocab_size) const override {
    return read_generation_config(folder_, config(), vocab_size);
  }

 private:
  std::string folder_;
};

class GgufModelFiles final : public ModelFiles {
 public:
  explicit GgufModelFiles(const std::string& path) : file_(GgufFile::open(path)) {}

  ConfigReader config() const override { return {gguf_config(*file_), file_->path()}; }

  Weights weights(const ConfigReader&, const std::set<std::string>&) const override {
    int64_t bytes = 0;
    for (const GgufTensor& tensor : file_->tensors())
      bytes += tensor.size_bytes;
    return {.source = std::make_unique<GgufWeights>(file_),
            .verify_unchanged = [file = file_] { file->file().verify_unchanged(); },
            .files = 1,
            .tensors = file_->tensors().size(),
            .bytes = bytes,
            .notes = {}};
  }

  bool has_tokenizer() const override { return gguf_has_tokenizer(*file_); }
  std::string tokenizer_json() const override { return gguf_tokenizer(*file_).dump(); }
  std::string tokenizer_place() const override { return file_->path() + ": tokenizer"; }

  std::optional<ChatTemplate> chat_template() const override {
    return ChatTemplate::parse(gguf_tokenizer_config(*file_), file_->path());
  }

  GenerationConfig generation_config(int64_t vocab_size) const override {
    return parse_generation_config(gguf_generation_config(*file_), file_->path(), vocab_size);
  }

 private:
  std::shared_ptr<const GgufFile> file_;
};

// The GGUF file that stands for a folder, or nothing.
std::optional<std::string> gguf_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    if (name.extension() == ".safetensors" || name == "model.safetensors.index.json") return std::nullopt;
    if (name.extension() == ".gguf") found.push_back(name.string());
  }
  if (found.empty()) return std::nullopt;
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    throw Error(folder, "", "a folder with one .gguf file, or the name of one of them",
                printable(fmt::format("{}", fmt::join(found, ", ")), 400));
  }
  return folder + "/" + found.front();
}

}  // namespace

std::vector<std::string> ModelFiles::Weights::all_notes() const {
  std::vector<std::string> all = notes;
  const std::vector<std::string> of_source = source->notes();
  all.insert(all.end(), of_source.begin(), of_source.end());
  return all;
}

std::unique_ptr<const ModelFiles> ModelFiles::open(const std::string& path) {
  check_is_model(path);
  if (!fs::is_directory(path)) return std::make_unique<GgufModelFiles>(path);
  if (const auto file = gguf_in(path)) return std::make_unique<GgufModelFiles>(*file);
  return std::make_unique<FolderFiles>(path);
}

}  // namespace switchyard
