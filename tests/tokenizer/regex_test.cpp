#include "io/tokenizer/regex.h"

#include <gtest/gtest.h>

#include "io/tokenizer/pattern.h"
#include "io/tokenizer/regex_syntax.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

const JsonPlace kPlace{"f.json", "pattern"};

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  std::vector<PatternSpan> spans;
  Pattern::regex(pattern, kPlace).find_all(text, spans);
  std::vector<std::string> out;
  for (const PatternSpan& span : spans) {
    if (span.matched) out.emplace_back(text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST(Regex, MatchesLikeOniguruma) {
  EXPECT_EQ(matches(R"(\s+)", "a \u3000b\u180e"), (Texts{" \u3000"}));  // U+180E is no white space
  EXPECT_EQ(matches(R"([^\s])", "a\u180e "), (Texts{"a", "\u180e"}));
  EXPECT_EQ(matches(R"(\w+)", "e\u0301_\u203f½ b"), (Texts{"e\u0301_\u203f½", "b"}));
  EXPECT_EQ(matches(R"([\w]+)", "x½"), (Texts{"x"}));
  EXPECT_EQ(matches(R"(\h+)", "fg 1"), (Texts{"f", "1"}));
  EXPECT_EQ(matches(R"(\v)", "\n\v"), (Texts{"\v"}));
  EXPECT_EQ(matches(R"(\p{Han}+)", "世界、"), (Texts{"世界"}));
  EXPECT_EQ(matches(R"((?i:'s|'ll))", "'S 'lL '\u017f"), (Texts{"'S", "'lL", "'\u017f"}));
  EXPECT_EQ(matches(R"(^b|a$)", "a\nb"), (Texts{"a", "b"}));
  EXPECT_EQ(matches(R"(\u4e16|\x{754c}|\x41)", "世界A"), (Texts{"世", "界", "A"}));
  EXPECT_EQ(matches(R"((a)(b)?)", "ab"), (Texts{"ab"}));
  EXPECT_EQ(matches(R"(.)", "\r\n"), (Texts{"\r"}));
}

TEST(Regex, EmptyMatches) {
  EXPECT_EQ(matches("x*", "axb"), (Texts{"", "x", ""}));
  EXPECT_EQ(matches("(?=b)", "ab"), (Texts{""}));
  EXPECT_EQ(matches("", "é"), (Texts{"", ""}));
  EXPECT_EQ(matches("a", ""), Texts{});
}

TEST(Regex, RefusesWhatTheEnginesReadDifferently) {
  for (const char* pattern :
       {R"(\bword)", R"(\R)",    R"(\X)",  R"(\K)",          R"(\G)",       R"((a)\1)", R"(\k<n>)", "(?<n>a)",
        "(?m:.)",    "a(?i)b|c", "[a[b]]", "[a&&b]",         "[[:alpha:]]", "[]a]",     R"([^\W])", R"(\pL)",
        R"(\p{L&})", "a{,3}",    "a{2}?",  "a{2,3}+",        "a{",          R"(\xff)",  R"(\012)",  R"(\Q)",
        "(?i:ss)",   "(?i:ffi)", "(?i:é)", R"((?i:\p{Lu}))", "a\\"}) {
    SCOPED_TRACE(pattern);
    expect_error([&] { Regex(pattern, kPlace); },
                 "f.json: pattern: expected a regular expression that PCRE2 and Oniguruma read alike, got ");
  }
}

TEST(Regex, RefusesMalformedPatterns) {
  for (const char* pattern : {"(", "a)", "[a", "*", R"(\p{Klingon})", "a{3,2}", "(?<=a*)b", R"(\ud800)"}) {
    SCOPED_TRACE(pattern);
    expect_error([&] { Regex(pattern, kPlace); }, "f.json: pattern: expected a regular expression");
  }
  expect_error([] { Regex(std::string(100'000, 'a'), kPlace); }, "a pattern of at most 65536 bytes");
}

TEST(Regex, CatastrophicBacktrackingIsAnError) {
  const Regex regex("(?:a|a)*[bc]", kPlace);
  expect_error([&] { regex.find(std::string(100, 'a'), 0); },
               "f.json: pattern: expected a pattern that matches within its limits, got ");
}

TEST(Regex, Translates) {
  EXPECT_EQ(pcre2_syntax(R"([^\s\p{L}\-])", kPlace), R"([^\p{White_Space}\p{L}\-])");
  EXPECT_EQ(pcre2_syntax(R"(\H(\S)\p{^Greek})", kPlace), R"([^0-9A-Fa-f](?:\P{White_Space})\p{^sc:Greek})");
  EXPECT_EQ(pcre2_syntax(R"(a++b*?c{1,3}?)", kPlace), R"(a++b*?c{1,3}?)");
}

}  // namespace
}  // namespace switchyard
