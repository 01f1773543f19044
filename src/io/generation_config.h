// generation_config.json: when a text ends, and how tokens are sampled unless the user says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/config_reader.h"

namespace switchyard {

// The defaults are those that transformers applies to absent keys
// (GenerationConfig._get_default_generation_params).
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;  // any of them ends the text; may be empty
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;

  bool do_sample = false;    // false: always the most likely token; the rest of this block is then unused
  double temperature = 1.0;  // > 0
  int64_t top_k = 50;        // keep the k most likely tokens; 0 keeps all
  double top_p = 1.0;        // keep the smallest set of at least this probability, in (0, 1]
  double min_p = 0.0;        // drop tokens below min_p times the largest probability, in [0, 1]
  double repetition_penalty = 1.0;  // > 0; divides (multiplies) positive (negative) logits of seen tokens
  std::optional<int64_t> max_new_tokens;  // > 0
  std::optional<int64_t> max_length;      // > 0, prompt included; max_new_tokens wins where both are set

  // What the file asks for and nothing here stands for, one line per key: the caller must tell the user.
  std::vector<std::string> unsupported;
};

// Reads <folder>/generation_config.json. Where the file is absent, the same keys of config.json are used, as
// transformers does. Throws Error on malformed JSON, wrong types, values out of range, and token ids outside
// [0, vocab_size).
GenerationConfig read_generation_config(const std::string& folder, const ConfigReader& config,
                                        int64_t vocab_size);

// The same from parsed JSON. `where` names the source in errors.
GenerationConfig parse_generation_config(const Json& json, const std::string& where, int64_t vocab_size);

}  // namespace switchyard
