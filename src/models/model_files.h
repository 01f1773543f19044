// What a user names as MODEL, whatever it is made of: the one place that knows a folder from a GGUF file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/chat_template.h"
#include "io/config_reader.h"
#include "io/generation_config.h"
#include "models/weights.h"

namespace switchyard {

class ModelFiles {
 public:
  // `path`: a folder as Hugging Face publishes it, a .gguf file, or a folder without safetensors weights that
  // holds exactly one. Throws Error for anything else. A folder's files are opened when they are asked for.
  static std::unique_ptr<const ModelFiles> open(const std::string& path);

  virtual ~ModelFiles() = default;

  struct Weights {
    std::unique_ptr<WeightSource> source;
    std::function<void()> verify_unchanged;  // throws Error when a file was changed since it was opened
    size_t files;
    size_t tensors;
    int64_t bytes;                   // of all elements
    std::vector<std::string> notes;  // what a user should know of the files, one line each

    std::vector<std::string> all_notes() const;  // with those of `source`
  };

  // Each throws Error for what is missing or malformed.
  virtual ConfigReader config() const = 0;
  // `config`: of these files; a quantization_config in it is read.
  virtual Weights weights(const ConfigReader& config, const std::set<std::string>& ignored_keys) const = 0;
  virtual bool has_tokenizer() const = 0;
  virtual std::string tokenizer_json() const = 0;   // the text of a tokenizer.json
  virtual std::string tokenizer_place() const = 0;  // names it in errors
  virtual std::optional<ChatTemplate> chat_template() const = 0;
  virtual GenerationConfig generation_config(int64_t vocab_size) const = 0;
};

}  // namespace switchyard
