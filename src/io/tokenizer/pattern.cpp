#include "io/tokenizer/pattern.h"

#include "io/tokenizer/unicode.h"

namespace switchyard {

Pattern Pattern::parse(const JsonObject& owner, std::string_view key) {
  const JsonObject object(owner.at(key), owner.place(key));
  object.allow_only({"String", "Regex"});
  if (object.find("Regex") != nullptr && object.find("String") == nullptr) {
    return Pattern(Regex(object.string("Regex"), object.place("Regex")));
  }
  object.allow_only({"String"});
  const std::string& text = object.string("String");
  if (text.empty()) object.place("String").refuse("a non-empty string", "an empty one");
  return Pattern(text);
}

Pattern Pattern::regex(std::string_view pattern, const JsonPlace& place) {
  return Pattern(Regex(pattern, place));
}

std::optional<RegexMatch> Pattern::find(std::string_view text, size_t from) const {
  if (const auto* regex = std::get_if<Regex>(&matcher_)) return regex->find(text, from);
  const auto& needle = std::get<std::string>(matcher_);
  const size_t at = text.find(needle, from);
  if (at == std::string_view::npos) return std::nullopt;
  return RegexMatch{at, at + needle.size()};
}

void Pattern::find_all(std::string_view text, std::vector<PatternSpan>& spans) const {
  spans.clear();
  size_t covered = 0;  // end of the last span
  size_t from = 0;
  bool matched_before = false;
  while (from <= text.size() && !text.empty()) {
    const auto match = find(text, from);
    if (!match) break;
    if (match->begin == match->end && matched_before && match->end == covered) {
      if (from == text.size()) break;
      next_char(text, from);
      continue;
    }
    if (covered < match->begin) spans.push_back({covered, match->begin, false});
    spans.push_back({match->begin, match->end, true});
    covered = from = match->end;
    matched_before = true;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
}

void find_all_chars(std::string_view text, const std::function<bool(char32_t)>& is_match,
                    std::vector<PatternSpan>& spans) {
  spans.clear();
  size_t covered = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    if (!is_match(next_char(text, i))) continue;
    if (covered < begin) spans.push_back({covered, begin, false});
    spans.push_back({begin, i, true});
    covered = i;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
}

}  // namespace switchyard
