#include "jinja/case_mapping.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/edits.h>
#include <unicode/uchar.h>

#include "base/error.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

// ICU counts in 32 bits; a mapped text is at most three times as long.
constexpr size_t kMaxBytes = size_t{1} << 29;

constexpr const char* kRootLocale = "";

void to_lower(const Text& text, icu::ByteSink& sink, icu::Edits& edits, UErrorCode& status) {
  icu::CaseMap::utf8ToLower(kRootLocale, 0, text.bytes, sink, &edits, status);
}

void to_upper(const Text& text, icu::ByteSink& sink, icu::Edits& edits, UErrorCode& status) {
  icu::CaseMap::utf8ToUpper(kRootLocale, 0, text.bytes, sink, &edits, status);
}

// For a text of one character: ICU takes other ends of words than Python.
void to_title(const Text& text, icu::ByteSink& sink, icu::Edits& edits, UErrorCode& status) {
  constexpr uint32_t kAsOneWord = U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT;
  icu::CaseMap::utf8ToTitle(kRootLocale, kAsOneWord, nullptr, text.bytes, sink, &edits, status);
}

// A text under one of the functions above, and which part of it came from which part of the original.
class Mapped {
 public:
  using Function = decltype(to_lower);

  Mapped(const Text& text, Function* function) {
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&text_.bytes);
    function(text, sink, edits_, status);
    auto edit = edits_.getFineIterator();
    while (edit.next(status)) {
      const auto from = static_cast<size_t>(edit.sourceIndex());
      if (edit.hasChange()) {  // of one character, whose bytes have one origin
        text_.from_input.append(static_cast<size_t>(edit.newLength()), text.from_input[from]);
      } else {
        text_.from_input.append(text.from_input, from, static_cast<size_t>(edit.oldLength()));
      }
    }
    SY_CHECK(U_SUCCESS(status), "ICU case mapping: {}", u_errorName(status));
    edit_ = edits_.getFineIterator();
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  const Text& text() const { return text_; }

  // What characters [begin, end) of the original became; fast when asked for one behind the other.
  Text image(size_t begin, size_t end) { return text_.slice(mapped_offset(begin), mapped_offset(end)); }

 private:
  size_t mapped_offset(size_t offset) {
    UErrorCode status = U_ZERO_ERROR;
    const int32_t mapped = edit_.destinationIndexFromSourceIndex(static_cast<int32_t>(offset), status);
    SY_CHECK(U_SUCCESS(status), "ICU edits: {}", u_errorName(status));
    return static_cast<size_t>(mapped);
  }

  Text text_;
  icu::Edits edits_;
  icu::Edits::Iterator edit_;
};

Text map_whole(const Text& text, Mapped::Function* function) {
  return Mapped(text, function).text();
}

// str.title() and str.capitalize(): title case where a word begins, lower case elsewhere. The text is lowered
// as a whole because a sigma depends on the letters around it.
Text begin_words(const Text& text, bool only_first) {
  Mapped lower(text, to_lower);
  Text out;
  bool in_word = false;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    const char32_t c = utf8::decode(text.bytes, end);
    out.append(in_word ? lower.image(begin, end) : map_whole(text.slice(begin, end), to_title));
    in_word = only_first || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED);
  }
  return out;
}

Text swap_case(const Text& text) {
  Mapped lower(text, to_lower);
  Mapped upper(text, to_upper);
  Text out;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    const auto c = static_cast<UChar32>(utf8::decode(text.bytes, end));
    if (u_hasBinaryProperty(c, UCHAR_UPPERCASE)) {
      out.append(lower.image(begin, end));
    } else if (u_hasBinaryProperty(c, UCHAR_LOWERCASE)) {
      out.append(upper.image(begin, end));
    } else {
      out.append(text, begin, end);
    }
  }
  return out;
}

bool separates_words(char32_t c) {
  return utf8::is_space(c) ||
         (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
}

// End of the run of characters from `begin` that all separate words, or all do not.
size_t run_end(const Text& text, size_t begin, bool separators) {
  size_t end = begin;
  for (size_t next = end; end < text.size(); end = next) {
    if (separates_words(utf8::decode(text.bytes, next)) != separators) break;
  }
  return end;
}

// Jinja2 cuts the words out, and maps the first character and the rest of each by themselves.
Text title_filter(const Text& text) {
  Text out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = run_end(text, at, true);
    out.append(text, at, begin);
    if (begin == text.size()) break;
    const size_t end = run_end(text, begin, false);
    size_t second = begin;
    utf8::decode(text.bytes, second);
    out.append(map_whole(text.slice(begin, second), to_upper));
    out.append(map_whole(text.slice(second, end), to_lower));
    at = end;
  }
  return out;
}

}  // namespace

Text map_case(Runtime& runtime, const Text& text, CaseMapping mapping) {
  if (text.size() > kMaxBytes) runtime.fail(fmt::format("case mapping of more than {} bytes", kMaxBytes));
  switch (mapping) {
    case CaseMapping::kUpper:
      return map_whole(text, to_upper);
    case CaseMapping::kLower:
      return map_whole(text, to_lower);
    case CaseMapping::kCapitalize:
      return begin_words(text, true);
    case CaseMapping::kTitle:
      return begin_words(text, false);
    case CaseMapping::kTitleFilter:
      return title_filter(text);
    case CaseMapping::kSwap:
      break;
  }
  return swap_case(text);
}

Value fold_case(Runtime& runtime, const Value& value) {
  return value.is_text() ? runtime.make_text(map_case(runtime, value.text(), CaseMapping::kLower)) : value;
}

}  // namespace switchyard::jinja
