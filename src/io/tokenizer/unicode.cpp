#include "io/tokenizer/unicode.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include "base/error.h"

namespace switchyard {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

const icu::Normalizer2& normalizer(NormalizationForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalizationForm::kNfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalizationForm::kNfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalizationForm::kNfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalizationForm::kNfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  SY_CHECK(U_SUCCESS(status) && found != nullptr, "ICU normalisation data: {}", u_errorName(status));
  return *found;
}

// Runs of marks beyond this length are sorted before ICU sees them.
constexpr size_t kLongRun = 64;

bool is_compatibility(NormalizationForm form) {
  return form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd;
}

// Whether the decomposition of c begins with a combining mark, which moves past others by its class.
bool begins_with_mark(char32_t c, NormalizationForm form) {
  if (c < 0x300) return false;
  // The half-width sound marks are the only ones that become combining by compatibility alone.
  if (c == U'\uFF9E' || c == U'\uFF9F') return is_compatibility(form);
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0;
}

// Appends the marks decomposed and in canonical order.
void append_ordered(std::string_view marks, NormalizationForm form, std::string& out) {
  const icu::Normalizer2& decomposer =
      normalizer(is_compatibility(form) ? NormalizationForm::kNfkd : NormalizationForm::kNfd);
  std::vector<std::pair<uint8_t, UChar32>> ordered;  // combining class and character
  for (size_t i = 0; i < marks.size();) {
    const auto c = static_cast<UChar32>(next_char(marks, i));
    icu::UnicodeString parts(c);
    decomposer.getDecomposition(c, parts);
    for (int32_t k = 0; k < parts.length(); k = parts.moveIndex32(k, 1)) {
      ordered.emplace_back(u_getCombiningClass(parts.char32At(k)), parts.char32At(k));
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& mark : ordered)
    append_char(static_cast<char32_t>(mark.second), out);
}

// A canonically equivalent text in which long runs of marks are in order already. ICU moves every mark to its
// place by insertion, which would take hours for a megabyte of alternating marks.
std::string with_long_runs_ordered(std::string_view text, NormalizationForm form) {
  std::string out;
  size_t copied = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    size_t end = i;
    size_t count = 0;
    while (end < text.size()) {
      i = end;
      if (!begins_with_mark(next_char(text, i), form)) break;
      end = i;
      ++count;
    }
    if (count <= kLongRun) continue;
    out += text.substr(copied, begin - copied);
    append_ordered(text.substr(begin, end - begin), form, out);
    copied = end;
  }
  out += text.substr(copied);
  return out;
}

}  // namespace

size_t first_invalid_utf8(std::string_view text) {
  const auto length = static_cast<int64_t>(text.size());
  int64_t i = 0;
  while (i < length) {
    const int64_t start = i;
    UChar32 c = 0;
    U8_NEXT(text.data(), i, length, c);
    if (c < 0) return static_cast<size_t>(start);
  }
  return text.size();
}

size_t complete_utf8_length(std::string_view bytes) {
  size_t start = bytes.size();  // of the last sequence
  while (start > 0 && bytes.size() - start < 3 && U8_IS_TRAIL(bytes[start - 1]))
    --start;
  if (start == 0) return bytes.size();
  --start;
  const auto lead = static_cast<uint8_t>(bytes[start]);
  const size_t present = bytes.size() - start;
  const size_t needed = 1 + static_cast<size_t>(U8_COUNT_TRAIL_BYTES(lead));
  if (present >= needed) return bytes.size();
  // The second byte of some leads has a narrower range (no surrogates, nothing beyond U+10FFFF).
  if (present >= 2) {
    const auto second = static_cast<uint8_t>(bytes[start + 1]);
    if (needed == 3 && !U8_IS_VALID_LEAD3_AND_T1(lead, second)) return bytes.size();
    if (needed == 4 && !U8_IS_VALID_LEAD4_AND_T1(lead, second)) return bytes.size();
  }
  return start;
}

void append_utf8_lossy(std::string_view bytes, std::string& out) {
  const auto length = static_cast<int64_t>(bytes.size());
  int64_t i = 0;
  while (i < length) {
    const int64_t start = i;
    UChar32 c = 0;
    U8_NEXT(bytes.data(), i, length, c);
    if (c < 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out.append(bytes, static_cast<size_t>(start), static_cast<size_t>(i - start));
    }
  }
}

char32_t next_char(std::string_view text, size_t& i) {
  UChar32 c = 0;
  U8_NEXT_UNSAFE(text.data(), i, c);
  return static_cast<char32_t>(c);
}

char32_t previous_char(std::string_view text, size_t& i) {
  UChar32 c = 0;
  U8_PREV_UNSAFE(text.data(), i, c);
  return static_cast<char32_t>(c);
}

void append_char(char32_t c, std::string& out) {
  char bytes[U8_MAX_LENGTH];
  int32_t n = 0;
  U8_APPEND_UNSAFE(bytes, n, static_cast<UChar32>(c));
  out.append(bytes, static_cast<size_t>(n));
}

bool is_whitespace(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE);
}

bool is_numeric(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0;
}

bool is_mark(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) != 0;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80 && (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_S_MASK) != 0) return true;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}

bool is_word_character(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  return u_hasBinaryProperty(code, UCHAR_ALPHABETIC) || u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(code) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

std::string normalize_unicode(NormalizationForm form, std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  const std::string in = with_long_runs_ordered(text, form);
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(in.size()));
  UErrorCode status = U_ZERO_ERROR;
  normalizer(form).normalizeUTF8(0, icu::StringPiece(in.data(), static_cast<int32_t>(in.size())), sink,
                                 nullptr, status);
  SY_CHECK(U_SUCCESS(status), "ICU normalisation: {}", u_errorName(status));
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_char(text, i);
    // The one character whose lower case, without context, is two characters (SpecialCasing.txt).
    if (c == U'\u0130') {
      out += "i\u0307";
    } else {
      append_char(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
    }
  }
  return out;
}

}  // namespace switchyard
