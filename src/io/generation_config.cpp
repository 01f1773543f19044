#include "io/generation_config.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace switchyard {
namespace {

// Keys of transformers' GenerationConfig that do not change which tokens come out here: bookkeeping, what a
// Python call returns, caches and compilation, assisted decoding (lossless), and details of beam search,
// which is refused by num_beams.
constexpr std::string_view kNoEffect[] = {
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "decoder_start_token_id",
    "disable_compile",
    "diversity_penalty",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "is_assistant",
    "length_penalty",
    "max_cache_len",
    "max_matching_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prompt_lookup_num_tokens",
    "return_dict_in_generate",
    "speculation_type",
    "target_lookbehind",
    "transformers_version",
    "use_cache",
    "use_mtp",
};

// Keys that have an effect here only with another value than this one (or null).
struct NeutralValue {
  std::string_view key;
  std::string_view json;
};
constexpr NeutralValue kNeutral[] = {
    {"assistant_ensemble_weight", "null"},
    {"bad_words_ids", "null"},
    {"begin_suppress_tokens", "null"},
    {"epsilon_cutoff", "0"},
    {"eta_cutoff", "0"},
    {"exponential_decay_length_penalty", "null"},
    {"forced_bos_token_id", "null"},
    {"forced_eos_token_id", "null"},
    {"guidance_scale", "1"},
    {"max_time", "null"},
    {"min_length", "0"},
    {"min_new_tokens", "0"},
    {"no_repeat_ngram_size", "0"},
    {"num_beam_groups", "1"},
    {"num_beams", "1"},
    {"num_return_sequences", "1"},
    {"remove_invalid_values", "false"},
    {"renormalize_logits", "false"},
    {"sequence_bias", "null"},
    {"stop_strings", "null"},
    {"suppress_tokens", "null"},
    {"token_healing", "false"},
    {"top_h", "null"},
    {"typical_p", "1"},
    {"watermarking_config", "null"},
};

const NeutralValue* find_neutral(std::string_view key) {
  const auto* found = std::find_if(std::begin(kNeutral), std::end(kNeutral),
                                   [&](const NeutralValue& neutral) { return neutral.key == key; });
  return found != std::end(kNeutral) ? found : nullptr;
}

bool has_no_effect(const std::string& key, const Json& value) {
  if (value.is_null()) return true;
  if (std::find(std::begin(kNoEffect), std::end(kNoEffect), key) != std::end(kNoEffect)) return true;
  const NeutralValue* neutral = find_neutral(key);
  return neutral != nullptr && value == Json::parse(neutral->json);
}

std::optional<int32_t> one_token_id(const ConfigReader& reader, const std::string& key, int64_t vocab_size) {
  const auto id = reader.optional_int(key, 0, vocab_size - 1);
  if (!id) return std::nullopt;
  return static_cast<int32_t>(*id);
}

GenerationConfig read_known_keys(const ConfigReader& reader, int64_t vocab_size) {
  GenerationConfig config;
  config.eos_token_ids = reader.token_ids("eos_token_id", vocab_size);
  config.bos_token_id = one_token_id(reader, "bos_token_id", vocab_size);
  config.pad_token_id = one_token_id(reader, "pad_token_id", vocab_size);

  const auto number = [&](const char* key, double absent, double min, double max) {
    return reader.optional_number(key, min, max).value_or(absent);
  };
  config.do_sample = reader.optional_bool("do_sample").value_or(config.do_sample);
  config.temperature = number("temperature", config.temperature, 0, 1e6);
  config.top_k = reader.optional_int("top_k", 0, INT32_MAX).value_or(config.top_k);
  config.top_p = number("top_p", config.top_p, 0, 1);
  config.min_p = number("min_p", config.min_p, 0, 1);
  config.repetition_penalty = number("repetition_penalty", config.repetition_penalty, 0, 1e6);
  config.max_new_tokens = reader.optional_int("max_new_tokens", 1, INT32_MAX);
  config.max_length = reader.optional_int("max_length", 1, INT32_MAX);

  const auto above_zero = [&](const char* key, double value) {
    if (value <= 0) throw Error(reader.path(), key, "a number above 0", fmt::format("{}", value));
  };
  above_zero("repetition_penalty", config.repetition_penalty);
  if (config.do_sample) {  // greedy decoding ignores these, and files for it hold 0
    above_zero("temperature", config.temperature);
    above_zero("top_p", config.top_p);
  }
  return config;
}

std::string unsupported_line(const std::string& key, const Json& value) {
  return fmt::format("{}{} = {} has no effect here", find_neutral(key) != nullptr ? "" : "unknown key ",
                     printable(key), describe(value));
}

}  // namespace

GenerationConfig parse_generation_config(const Json& json, const std::string& where, int64_t vocab_size) {
  const ConfigReader reader(json, where);
  GenerationConfig config = read_known_keys(reader, vocab_size);
  for (const std::string& key : reader.unread_keys()) {
    const Json& value = reader.json()[key];
    if (!has_no_effect(key, value)) config.unsupported.push_back(unsupported_line(key, value));
  }
  return config;
}

GenerationConfig read_generation_config(const std::string& folder, const ConfigReader& config,
                                        int64_t vocab_size) {
  const std::string where = folder + "/generation_config.json";
  if (path_exists(where)) {
    GenerationConfig own =
        parse_generation_config(parse_json(read_file(where, kMaxConfigBytes), where), where, vocab_size);
    if (own.eos_token_ids.empty() && !config.token_ids("eos_token_id", vocab_size).empty()) {
      own.unsupported.push_back(
          "no eos_token_id although config.json has one: a text does not end by itself");
    }
    return own;
  }
  GenerationConfig result = read_known_keys(config, vocab_size);
  for (const NeutralValue& neutral : kNeutral) {
    const auto found = config.json().find(neutral.key);
    if (found == config.json().end() || has_no_effect(found.key(), *found)) continue;
    result.unsupported.push_back(unsupported_line(found.key(), *found));
  }
  return result;
}

}  // namespace switchyard
