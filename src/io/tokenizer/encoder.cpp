#include "io/tokenizer/encoder.h"

namespace switchyard {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string normalized_literal_mask(const Normalizer& normalizer, std::string_view original,
                                    std::string_view literal, std::string_view normalized) {
  if (normalized == original) return std::string(literal);
  std::string text;
  std::string mask;
  for (size_t begin = 0, end = 0; begin < original.size(); begin = end) {
    const bool marked = literal[begin] != 0;
    while (end < original.size() && (literal[end] != 0) == marked)
      ++end;
    const bool cut = end < original.size() && is_continuation(original[end]);
    if (cut) return std::string(normalized.size(), '\1');
    NormalizedText part{std::string(original.substr(begin, end - begin))};
    normalizer.apply(part, begin == 0);
    text += part.text;
    mask.append(part.text.size(), marked ? '\1' : '\0');
  }
  return text == normalized ? mask : std::string(normalized.size(), '\1');
}

std::vector<int32_t> TextEncoder::encode(std::string_view text, const SpecialRule& rule) {
  ids_.clear();
  std::vector<TokenSegment> segments;
  added_.in_original().split(text, rule, segments);
  for (const TokenSegment& segment : segments) {
    if (segment.token != nullptr) {
      ids_.push_back(segment.token->id);
      continue;
    }
    const size_t length = segment.end - segment.begin;
    SpecialRule part = rule;
    if (!rule.literal.empty()) part.literal = rule.literal.substr(segment.begin, length);
    encode_between(text.substr(segment.begin, length), segment.begin == 0, part);
  }
  return std::move(ids_);
}

void TextEncoder::encode_between(std::string_view text, bool at_origin, const SpecialRule& rule) {
  NormalizedText normalized{std::string(text)};
  normalizer_.apply(normalized, true);
  std::string mask;
  if (!rule.literal.empty()) {
    mask = normalized_literal_mask(normalizer_, text, rule.literal, normalized.text);
  }
  std::vector<TokenSegment> segments;
  added_.in_normalized().split(normalized.text, {rule.parse_special, mask}, segments);
  for (const TokenSegment& segment : segments) {
    if (segment.token != nullptr) {
      ids_.push_back(segment.token->id);
    } else {
      encode_normalized(std::string_view(normalized.text).substr(segment.begin, segment.end - segment.begin),
                        at_origin && normalized.at_origin && segment.begin == 0);
    }
  }
}

void TextEncoder::encode_normalized(std::string_view text, bool at_origin) {
  SplitText split(std::string(text), at_origin);
  pre_tokenizer_.apply(split);
  for (const WordSpan& word : split.words) {
    cache_.append(split.view(word), ids_, [this](std::string_view bytes, std::vector<int32_t>& ids) {
      model_.encode(bytes, scratch_, ids);
    });
  }
}

}  // namespace switchyard
