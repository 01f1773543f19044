// The "pre_tokenizer" of tokenizer.json: splits a normalised text into words; the model never merges across
// their borders.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/json_place.h"

namespace switchyard {

struct WordSpan {
  size_t begin = 0;  // byte offsets in SplitText::text
  size_t end = 0;
  bool at_origin = false;  // whether it begins with the first character of the whole input
};

// A text and its words, in order and never empty. Stretches of the text outside all words are dropped.
struct SplitText {
  std::string text;
  std::vector<WordSpan> words;

  SplitText(std::string whole, bool at_origin);
  std::string_view view(const WordSpan& word) const {
    return std::string_view(text).substr(word.begin, word.end - word.begin);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& split) const = 0;
};

// Throws Error for a type or key that is not known. `value` null gives a pre-tokenizer that does nothing.
std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const Json& value, const JsonPlace& place);

}  // namespace switchyard
