#include "io/tokenizer/unicode.h"

#include <gtest/gtest.h>

namespace switchyard {
namespace {

TEST(Unicode, FindsInvalidUtf8) {
  EXPECT_EQ(first_invalid_utf8("aé世🙂"), 10u);  // none
  EXPECT_EQ(first_invalid_utf8("a\x80"), 1u);
  EXPECT_EQ(first_invalid_utf8("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(first_invalid_utf8("ab\xED\xA0\x80"), 2u);    // surrogate
  EXPECT_EQ(first_invalid_utf8("\xF4\x90\x80\x80"), 0u);  // beyond U+10FFFF
  EXPECT_EQ(first_invalid_utf8("a\xE4\xB8"), 1u);         // cut
}

TEST(Unicode, HoldsOnlyTailsBackThatMayBecomeCharacters) {
  EXPECT_EQ(complete_utf8_length(""), 0u);
  EXPECT_EQ(complete_utf8_length("abc"), 3u);
  EXPECT_EQ(complete_utf8_length("a\xF0\x9F\x99"), 1u);
  EXPECT_EQ(complete_utf8_length("a\xF0\x9F\x99\x82"), 5u);
  EXPECT_EQ(complete_utf8_length("a\xC3"), 1u);
  EXPECT_EQ(complete_utf8_length("a\xC0"), 2u);         // never valid
  EXPECT_EQ(complete_utf8_length("a\xED\xA0"), 3u);     // would be a surrogate
  EXPECT_EQ(complete_utf8_length("a\xE0\x80"), 3u);     // would be overlong
  EXPECT_EQ(complete_utf8_length("\x80\x80\x80"), 3u);  // no lead
  EXPECT_EQ(complete_utf8_length("\xE4\xB8\xAD\x80"), 4u);
}

TEST(Unicode, ReplacesMaximalIllFormedParts) {
  const auto lossy = [](std::string_view bytes) {
    std::string out;
    append_utf8_lossy(bytes, out);
    return out;
  };
  EXPECT_EQ(lossy("aé"), "aé");
  EXPECT_EQ(lossy("\xF0\x9F\x99x"), "\uFFFDx");
  EXPECT_EQ(lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossy("\xFF\xFE"), "\uFFFD\uFFFD");
}

TEST(Unicode, Normalizes) {
  EXPECT_EQ(normalize_unicode(NormalizationForm::kNfc, "e\u0301"), "\u00e9");
  EXPECT_EQ(normalize_unicode(NormalizationForm::kNfd, "\u00e9"), "e\u0301");
  EXPECT_EQ(normalize_unicode(NormalizationForm::kNfkc, "\ufb01\u2460"), "fi1");
  EXPECT_EQ(normalize_unicode(NormalizationForm::kNfkd, "\u1e9b\u0323"), "s\u0323\u0307");
}

// The fast path for long runs of marks gives what ICU gives for short ones.
TEST(Unicode, LongRunsOfMarksAreOrdered) {
  for (const size_t repeats : {3u, 31u, 33u, 500u}) {
    std::string mixed = "e";
    std::string acutes;
    std::string dots;
    for (size_t i = 0; i < repeats; ++i) {
      mixed += "\u0301\u0323";
      acutes += "\u0301";
      dots += "\u0323";
    }
    EXPECT_EQ(normalize_unicode(NormalizationForm::kNfd, mixed), "e" + dots + acutes);
    EXPECT_EQ(normalize_unicode(NormalizationForm::kNfd, mixed + "x" + mixed),
              "e" + dots + acutes + "x" + "e" + dots + acutes);
    EXPECT_EQ(normalize_unicode(NormalizationForm::kNfc, mixed), "\u1eb9" + dots.substr(2) + acutes);
  }
  std::string sound_marks = "\u304b";
  std::string ordered = "\u304b";
  for (int i = 0; i < 100; ++i)
    sound_marks += "\uff9e\u0301";
  for (int i = 0; i < 100; ++i)
    ordered += "\u3099";
  for (int i = 0; i < 100; ++i)
    ordered += "\u0301";
  EXPECT_EQ(normalize_unicode(NormalizationForm::kNfkd, sound_marks), ordered);
  EXPECT_EQ(normalize_unicode(NormalizationForm::kNfd, sound_marks), sound_marks);
}

TEST(Unicode, LowercasesWithoutContext) {
  EXPECT_EQ(lowercase("ΣΑΣ É"), "σασ é");
  EXPECT_EQ(lowercase("\u0130"), "i\u0307");
}

TEST(Unicode, StepsThroughCharacters) {
  const std::string text = "a世";
  size_t i = 0;
  EXPECT_EQ(next_char(text, i), U'a');
  EXPECT_EQ(next_char(text, i), U'世');
  EXPECT_EQ(i, text.size());
  EXPECT_EQ(previous_char(text, i), U'世');
  EXPECT_EQ(i, 1u);
}

TEST(Unicode, Classifies) {
  EXPECT_TRUE(is_whitespace(U'\u3000'));
  EXPECT_FALSE(is_whitespace(U'\u180e'));
  EXPECT_FALSE(is_whitespace(U'\u200b'));
  EXPECT_TRUE(is_numeric(U'½'));
  EXPECT_TRUE(is_numeric(U'Ⅷ'));
  EXPECT_TRUE(is_punctuation(U'+'));
  EXPECT_FALSE(is_punctuation(U'÷'));
  EXPECT_TRUE(is_word_character(U'_'));
  EXPECT_TRUE(is_word_character(U'世'));
  EXPECT_FALSE(is_word_character(U'½'));
}

}  // namespace
}  // namespace switchyard
