// The way from a text to ids: added tokens, normalizer, added tokens again, pre-tokenizer, model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/added_tokens.h"
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/pre_tokenizer.h"
#include "io/tokenizer/word_cache.h"

namespace switchyard {

// Encodes one text; made anew for each.
class TextEncoder {
 public:
  TextEncoder(const AddedTokens& added, const Normalizer& normalizer, const PreTokenizer& pre_tokenizer,
              const Bpe& model)
      : added_(added), normalizer_(normalizer), pre_tokenizer_(pre_tokenizer), model_(model) {}

  // The text must be valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, const SpecialRule& rule);

 private:
  void encode_between(std::string_view text, bool at_origin, const SpecialRule& rule);
  void encode_normalized(std::string_view text, bool at_origin);

  const AddedTokens& added_;
  const Normalizer& normalizer_;
  const PreTokenizer& pre_tokenizer_;
  const Bpe& model_;
  WordCache cache_;
  Bpe::Scratch scratch_;
  std::vector<int32_t> ids_;
};

// The literal mask of a normalised text, given the one of the original: exact where normalising the stretches
// between the borders of the mask one by one gives the same text, all marked otherwise.
std::string normalized_literal_mask(const Normalizer& normalizer, std::string_view original,
                                    std::string_view literal, std::string_view normalized);

}  // namespace switchyard
