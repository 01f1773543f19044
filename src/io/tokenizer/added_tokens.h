// The "added_tokens" of tokenizer.json: strings that are found in the text before the model sees it, control
// tokens such as <|im_end|> among them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/tokenizer/json_place.h"
#include "io/tokenizer/normalizer.h"
#include "io/tokenizer/vocabulary.h"

namespace switchyard {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string normalized_content;  // what is searched for, and decoded, when `normalized` is set
  bool single_word = false;        // only where no word character touches it
  bool lstrip = false;             // takes the white space before it along
  bool rstrip = false;             // takes the white space behind it along
  bool normalized = false;         // is found in the normalised text instead of the original
  bool special = false;            // a control token: skipped when decoding if asked

  const std::string& pattern() const { return normalized ? normalized_content : content; }
};

// A stretch of a text: an added token with the white space it takes along, or text in between.
struct TokenSegment {
  size_t begin = 0;
  size_t end = 0;
  const AddedToken* token = nullptr;  // nullptr: text
};

// Which special tokens count in a text.
struct SpecialRule {
  bool parse_special = true;      // false: none
  std::string_view literal = {};  // as long as the text when not empty: none across bytes marked nonzero
};

// Finds the longest of several strings at each place of a text.
class TokenMatcher {
 public:
  void add(const AddedToken& token);

  // The segments of `text`, which cover it unless a token's stripping reaches into a later match; in that
  // case they overlap just as the library's do.
  void split(std::string_view text, const SpecialRule& rule, std::vector<TokenSegment>& segments) const;

 private:
  struct Node {
    std::unordered_map<char, uint32_t> next;
    const AddedToken* token = nullptr;
  };
  const AddedToken* longest_at(std::string_view text, size_t begin, const SpecialRule& rule) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_{};
};

class AddedTokens {
 public:
  // Throws Error for malformed entries and for ids that contradict the vocabulary or the library's numbering
  // (a token outside the vocabulary gets the next free id in the order of the list).
  AddedTokens(const Json& array, const JsonPlace& place, const Vocabulary& vocabulary,
              const Normalizer& normalizer);

  // The matchers point into this object.
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  const TokenMatcher& in_original() const { return in_original_; }
  const TokenMatcher& in_normalized() const { return in_normalized_; }
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  bool is_special_content(std::string_view content) const;
  int64_t end_id() const { return end_id_; }  // largest id + 1

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, const AddedToken*> by_id_;
  std::unordered_map<std::string_view, const AddedToken*> by_content_;
  TokenMatcher in_original_;
  TokenMatcher in_normalized_;
  int64_t end_id_ = 0;
};

}  // namespace switchyard
