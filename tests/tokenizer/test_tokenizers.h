// The tokenizers that the tests share, with their golden results.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "io/tokenizer/tokenizer.h"

namespace switchyard {

struct GoldenTokenizer {
  std::string name;
  Tokenizer tokenizer;
  Json golden;  // [{text, ids, ids_special?, ids_plain?, decoded, decoded_skip?}]
};

// All of them: Qwen3, DeepSeek-V3, a trained one with byte fallback, the synthetic ones, and Llama 2 where it
// is found (its licence keeps it out of the repository): in the folder that SWITCHYARD_LLAMA2_TOKENIZER
// names, or in ../shared/tokenizers/llama2.
const std::vector<GoldenTokenizer>& golden_tokenizers();

const Tokenizer& golden_tokenizer(const std::string& name);  // aborts when there is none with this name
bool has_llama2();

// The value under `key`, or under `otherwise` when the entry leaves it out as equal.
const Json& value_or(const Json& entry, const char* key, const char* otherwise);

// A small tokenizer: the letters a, b, c, the space, the merges "a b" and "ab c", and `parts` on top.
Json small_document(const Json& parts = Json::object());
Tokenizer small_tokenizer(const Json& parts = Json::object());

}  // namespace switchyard
