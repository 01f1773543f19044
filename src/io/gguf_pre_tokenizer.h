// How published byte-level tokenizers cut text into words, by the names that GGUF files give them.
#pragma once

#include <string>

#include "base/json.h"

namespace switchyard {

struct GgufPreTokenizer {
  Json normalizer;     // as in tokenizer.json
  Json pre_tokenizer;  // the same
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// Throws Error, with `where` and the names that are known, for another one.
GgufPreTokenizer gguf_pre_tokenizer(const std::string& name, const std::string& where);

}  // namespace switchyard
