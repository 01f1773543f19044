// The patterns of Split and Replace: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/tokenizer/json_place.h"
#include "io/tokenizer/regex.h"

namespace switchyard {

// A stretch of a text. The spans of one text are contiguous and cover it.
struct PatternSpan {
  size_t begin = 0;
  size_t end = 0;
  bool matched = false;
};

class Pattern {
 public:
  static Pattern parse(const JsonObject& owner, std::string_view key);
  static Pattern regex(std::string_view pattern, const JsonPlace& place);

  // All matches from left to right and the stretches between them. An empty match is kept unless it touches
  // the end of the match before it. An empty text gives no spans.
  void find_all(std::string_view text, std::vector<PatternSpan>& spans) const;

 private:
  using Matcher = std::variant<std::string, Regex>;
  explicit Pattern(Matcher matcher) : matcher_(std::move(matcher)) {}
  std::optional<RegexMatch> find(std::string_view text, size_t from) const;

  Matcher matcher_;
};

// The same for the characters that satisfy `is_match`, each a match of its own.
void find_all_chars(std::string_view text, const std::function<bool(char32_t)>& is_match,
                    std::vector<PatternSpan>& spans);

}  // namespace switchyard
