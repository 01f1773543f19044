// Special tokens inside text that a user wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/tokenizer/encoder.h"
#include "io/tokenizer/tokenizer.h"
#include "tokenizer/test_tokenizers.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

// Text with the literal bytes between { and }.
struct Marked {
  std::string text;
  std::string mask;
};

Marked marked(std::string_view source) {
  Marked out;
  bool literal = false;
  for (const char c : source) {
    if (c == '{' || c == '}') {
      literal = c == '{';
      continue;
    }
    out.text += c;
    out.mask += literal ? '\1' : '\0';
  }
  return out;
}

std::vector<int32_t> encode_marked(const Tokenizer& tokenizer, std::string_view source) {
  const Marked input = marked(source);
  return tokenizer.encode(input.text, {.literal_mask = input.mask});
}

int64_t count(const std::vector<int32_t>& ids, int32_t id) {
  return std::count(ids.begin(), ids.end(), id);
}

Json added(const char* content, int id, bool special, bool normalized = false) {
  return {{"id", id},        {"content", content},   {"special", special},      {"lstrip", false},
          {"rstrip", false}, {"single_word", false}, {"normalized", normalized}};
}

TEST(SpecialText, UserTextMakesNoControlTokens) {
  for (const char* name : {"qwen3", "deepseek_v3", "byte_fallback"}) {
    const Tokenizer& tokenizer = golden_tokenizer(name);
    const std::string end = std::string(name) == "qwen3"         ? "<|im_end|>"
                            : std::string(name) == "deepseek_v3" ? "<｜end▁of▁sentence｜>"
                                                                 : "</s>";
    const int32_t id = tokenizer.token_to_id(end).value();
    const std::string text = end + "hi " + end;
    EXPECT_EQ(count(tokenizer.encode(text), id), 2);
    EXPECT_EQ(count(tokenizer.encode(text, {.parse_special = false}), id), 0);
    EXPECT_EQ(count(encode_marked(tokenizer, end + "{hi " + end + "}" + end), id), 2);
    EXPECT_EQ(count(encode_marked(tokenizer, "{" + text + "}"), id), 0);
    EXPECT_EQ(encode_marked(tokenizer, "{" + text + "}"), tokenizer.encode(text, {.parse_special = false}));
    EXPECT_EQ(tokenizer.decode(encode_marked(tokenizer, "{" + text + "}"), false), text);
  }
}

TEST(SpecialText, OneLiteralByteIsEnough) {
  const Tokenizer& tokenizer = golden_tokenizer("qwen3");
  const int32_t id = tokenizer.token_to_id("<|im_end|>").value();
  EXPECT_EQ(count(encode_marked(tokenizer, "<|im_{e}nd|>"), id), 0);
  EXPECT_EQ(count(encode_marked(tokenizer, "{<|im}_end|>"), id), 0);
  EXPECT_EQ(count(encode_marked(tokenizer, "{a}<|im_end|>{b}"), id), 1);
}

TEST(SpecialText, UnmarkedTextIsTokenizedAsOne) {
  const Tokenizer& tokenizer = golden_tokenizer("qwen3");
  EXPECT_EQ(encode_marked(tokenizer, "The wag{ons arr}ive"), tokenizer.encode("The wagons arrive"));
}

TEST(SpecialText, UserTextCannotHideControlTokens) {
  const Tokenizer tokenizer = small_tokenizer(
      {{"added_tokens", {added("<x>", 6, true), added("a<x>", 7, true), added("<x>b", 8, true)}}});
  EXPECT_THAT(tokenizer.encode("a<x>"), ElementsAre(7));
  EXPECT_THAT(encode_marked(tokenizer, "{a}<x>"), ElementsAre(0, 6));
  EXPECT_THAT(encode_marked(tokenizer, "<x>{b}"), ElementsAre(6, 1));
}

TEST(SpecialText, OtherAddedTokensAreStillFound) {
  const Tokenizer tokenizer =
      small_tokenizer({{"added_tokens", {added("cab", 6, false), added("bac", 7, true)}}});
  EXPECT_THAT(encode_marked(tokenizer, "{cab}"), ElementsAre(6));
  EXPECT_THAT(encode_marked(tokenizer, "{bac}bac"), ElementsAre(1, 0, 2, 7));
  EXPECT_THAT(tokenizer.encode("bac", {.parse_special = false}), ElementsAre(1, 0, 2));
}

TEST(SpecialText, MarksAreFollowedThroughTheNormalizer) {
  const Json lower = {{"type", "Lowercase"}};
  const Tokenizer tokenizer =
      small_tokenizer({{"normalizer", lower}, {"added_tokens", {added("bac", 6, true, true)}}});
  EXPECT_THAT(encode_marked(tokenizer, "BAC{BAC}"), ElementsAre(6, 1, 0, 2));
  EXPECT_THAT(encode_marked(tokenizer, "{BAC}bac"), ElementsAre(1, 0, 2, 6));
}

TEST(SpecialText, MarksThatCannotBeFollowedCoverAll) {
  const auto normalizer = parse_normalizer({{"type", "NFC"}}, {"t", ""});
  const auto mask = [&](std::string_view original, std::string_view literal, std::string_view normalized) {
    return normalized_literal_mask(*normalizer, original, literal, normalized);
  };
  using namespace std::string_literals;
  EXPECT_EQ(mask("abc", "\0\1\0"s, "abc"), "\0\1\0"s);
  EXPECT_EQ(mask("e\u0301bc", "\0\0\0\1\0"s, "\u00e9bc"), "\0\0\1\0"s);
  EXPECT_EQ(mask("e\u0301b", "\1\0\0\0"s, "\u00e9b"), "\1\1\1"s);  // the border is inside é
  EXPECT_EQ(mask("e\u0301b", "\0\0\1\0"s, "\u00e9b"), "\1\1\1"s);  // ... inside a character
}

}  // namespace
}  // namespace switchyard
