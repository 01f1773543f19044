#include "io/tokenizer/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

constexpr size_t kMaxTokenBytes = 4096;  // bounds the work per position of a text

bool word_character_before(std::string_view text, size_t at) {
  return at > 0 && is_word_character(previous_char(text, at));
}

bool word_character_at(std::string_view text, size_t at) {
  return at < text.size() && is_word_character(next_char(text, at));
}

size_t whitespace_begin(std::string_view text, size_t end) {
  while (end > 0) {
    size_t before = end;
    if (!is_whitespace(previous_char(text, before))) break;
    end = before;
  }
  return end;
}

size_t whitespace_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t behind = begin;
    if (!is_whitespace(next_char(text, behind))) break;
    begin = behind;
  }
  return begin;
}

bool touches_literal(std::string_view literal, size_t begin, size_t end) {
  if (literal.empty()) return false;
  const std::string_view marks = literal.substr(begin, end - begin);
  return std::any_of(marks.begin(), marks.end(), [](char mark) { return mark != 0; });
}

AddedToken parse_token(const JsonObject& object, const Normalizer& normalizer) {
  object.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.id = static_cast<int32_t>(object.integer("id", 0, kMaxTokenId));
  token.content = object.string("content");
  token.single_word = object.boolean("single_word");
  token.lstrip = object.boolean("lstrip");
  token.rstrip = object.boolean("rstrip");
  token.normalized = object.boolean("normalized");
  token.special = object.boolean("special");
  NormalizedText normalized{token.content};
  if (token.normalized) normalizer.apply(normalized, true);
  token.normalized_content = std::move(normalized.text);
  if (token.pattern().empty() || token.pattern().size() > kMaxTokenBytes) {
    object.place("content").refuse(fmt::format("1 to {} bytes", kMaxTokenBytes),
                                   fmt::format("{} bytes", token.pattern().size()));
  }
  return token;
}

}  // namespace

void TokenMatcher::add(const AddedToken& token) {
  uint32_t node = 0;
  for (const char byte : token.pattern()) {
    const auto added = nodes_[node].next.try_emplace(byte, static_cast<uint32_t>(nodes_.size()));
    node = added.first->second;
    if (added.second) nodes_.emplace_back();
  }
  nodes_[node].token = &token;
  starts_[static_cast<unsigned char>(token.pattern()[0])] = true;
}

// With literal bytes a special token that touches them does not count, and a shorter one may: text of a user
// must not hide the control tokens around it.
const AddedToken* TokenMatcher::longest_at(std::string_view text, size_t begin,
                                           const SpecialRule& rule) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto next = nodes_[node].next.find(text[i]);
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    const AddedToken* token = nodes_[node].token;
    if (token == nullptr) continue;
    if (!token->special || !touches_literal(rule.literal, begin, i + 1)) longest = token;
  }
  return longest;
}

void TokenMatcher::split(std::string_view text, const SpecialRule& rule,
                         std::vector<TokenSegment>& segments) const {
  segments.clear();
  size_t covered = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token =
        starts_[static_cast<unsigned char>(text[at])] ? longest_at(text, at, rule) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->pattern().size();
    at = end;  // a match that does not count is passed over as a whole, as in the library
    if (token->special && !rule.parse_special) continue;
    if (token->single_word && (word_character_before(text, begin) || word_character_at(text, end))) continue;
    if (token->lstrip) begin = std::max(whitespace_begin(text, begin), std::min(covered, begin));
    if (token->rstrip) end = whitespace_end(text, end);
    if (covered < begin) segments.push_back({covered, begin, nullptr});
    segments.push_back({begin, end, token});
    covered = end;
  }
  if (covered != text.size()) segments.push_back({covered, text.size(), nullptr});
}

AddedTokens::AddedTokens(const Json& array, const JsonPlace& place, const Vocabulary& vocabulary,
                         const Normalizer& normalizer) {
  if (array.is_null()) return;
  if (!array.is_array()) place.refuse("an array", describe(array));
  tokens_.reserve(array.size());  // pointers to the elements must stay
  int64_t next_id = vocabulary.count();
  std::unordered_set<std::string_view> patterns[2];
  for (size_t i = 0; i < array.size(); ++i) {
    const JsonObject object(array[i], place.index(i));
    const AddedToken& token = tokens_.emplace_back(parse_token(object, normalizer));
    if (!by_content_.emplace(token.content, &token).second ||
        !patterns[token.normalized].insert(token.pattern()).second) {
      object.place("content").refuse("a token that is not in the list yet", printable(token.content));
    }
    const auto known = vocabulary.find(token.content);
    const int64_t id = known ? *known : next_id++;
    if (token.id != id) {
      object.place("id").refuse(
          fmt::format("{} ({})", id, known ? "as in the vocabulary" : "the next free id"),
          fmt::format("{} for '{}'", token.id, printable(token.content)));
    }
    if (!known && vocabulary.token(token.id)) {
      object.place("id").refuse("an id of its own",
                                fmt::format("{}, which the vocabulary has too", token.id));
    }
    by_id_.emplace(token.id, &token);
    (token.normalized ? in_normalized_ : in_original_).add(token);
    end_id_ = std::max<int64_t>(end_id_, token.id + 1);
  }
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(content);
  return it == by_content_.end() ? nullptr : it->second;
}

bool AddedTokens::is_special_content(std::string_view content) const {
  const AddedToken* token = find(content);
  return token != nullptr && token->special;
}

}  // namespace switchyard
