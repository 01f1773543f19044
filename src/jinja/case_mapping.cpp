#include "jinja/case_mapping.h"

#include "base/error.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
char to_upper(char c) {
  return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c;
}
char to_lower(char c) {
  return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}

// Whether the character behind `before` begins a word. str.title() begins one behind each character that is
// not a letter; the title filter behind white space, '-' and opening brackets.
bool begins_word(char before, CaseMapping mapping) {
  if (mapping == CaseMapping::kTitle) return !is_upper(before) && !is_lower(before);
  return std::string_view("-({[<").find(before) != std::string_view::npos ||
         utf8::is_space(static_cast<unsigned char>(before));
}

char map_one(char c, bool first, char before, CaseMapping mapping) {
  switch (mapping) {
    case CaseMapping::kUpper:
      return to_upper(c);
    case CaseMapping::kLower:
      return to_lower(c);
    case CaseMapping::kCapitalize:
      return first ? to_upper(c) : to_lower(c);
    case CaseMapping::kSwap:
      return is_upper(c) ? to_lower(c) : to_upper(c);
    case CaseMapping::kTitle:
    case CaseMapping::kTitleFilter:
      break;
  }
  return first || begins_word(before, mapping) ? to_upper(c) : to_lower(c);
}

}  // namespace

Text map_case(Runtime& runtime, const Text& text, CaseMapping mapping) {
  if (!utf8::is_ascii(text.bytes)) {
    runtime.fail(
        fmt::format("case mapping of non-ASCII text is not supported: '{}'", printable(text.bytes, 40)));
  }
  Text out = text;
  for (size_t i = 0; i < out.size(); ++i) {
    out.bytes[i] = map_one(text.bytes[i], i == 0, i == 0 ? '\0' : text.bytes[i - 1], mapping);
  }
  return out;
}

Value fold_case(Runtime& runtime, const Value& value) {
  return value.is_text() ? runtime.make_text(map_case(runtime, value.text(), CaseMapping::kLower)) : value;
}

}  // namespace switchyard::jinja
