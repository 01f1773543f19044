// Unicode as the tokenizers need it: a thin layer over ICU. All text is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace switchyard {

// Byte offset of the first ill-formed UTF-8 sequence, or text.size() when the text is valid.
size_t first_invalid_utf8(std::string_view text);

// Length of the longest prefix of `bytes` that does not end in the beginning of a character, i.e. without a
// tail that more bytes could still complete. Ill-formed sequences inside count as complete.
size_t complete_utf8_length(std::string_view bytes);

// Appends `bytes` to `out`; every maximal ill-formed subpart becomes one U+FFFD (the practice of the Unicode
// standard, chapter 3.9, which Rust's from_utf8_lossy follows too).
void append_utf8_lossy(std::string_view bytes, std::string& out);

// The code point at text[i], which then moves behind it. The text must be valid UTF-8 and i < text.size().
char32_t next_char(std::string_view text, size_t& i);

// The code point that ends at text[i], which then moves to its beginning. Valid UTF-8, i > 0.
char32_t previous_char(std::string_view text, size_t& i);

void append_char(char32_t c, std::string& out);

bool is_whitespace(char32_t c);      // property White_Space
bool is_numeric(char32_t c);         // general category N
bool is_mark(char32_t c);            // general category M
bool is_punctuation(char32_t c);     // general category P, or one of the ASCII symbols
bool is_word_character(char32_t c);  // \w of UTS #18: Alphabetic, M, Nd, Pc, Join_Control

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };
std::string normalize_unicode(NormalizationForm form, std::string_view text);

// Character by character, without context: a final sigma stays a medial one, as in Rust's char::to_lowercase.
std::string lowercase(std::string_view text);

}  // namespace switchyard
