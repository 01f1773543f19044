#include "engine/stop_matcher.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace switchyard {
namespace {

using Texts = std::vector<std::string>;

struct Shown {
  std::string text;
  bool stopped = false;
};

Shown stream(const Texts& stops, const Texts& pieces) {
  StopMatcher matcher(stops);
  Shown shown;
  for (const std::string& piece : pieces)
    shown.text += matcher.push(piece);
  shown.stopped = matcher.stopped();
  shown.text += matcher.finish();
  return shown;
}

void expect_shown(const Texts& stops, const Texts& pieces, const std::string& text, bool stopped) {
  const Shown shown = stream(stops, pieces);
  EXPECT_EQ(shown.text, text);
  EXPECT_EQ(shown.stopped, stopped);
}

TEST(StopMatcher, PassesEverythingWithoutStops) {
  expect_shown({}, {"a", "", "bc"}, "abc", false);
}

TEST(StopMatcher, FindsAStopThatSpansManyPieces) {
  expect_shown({"<end>"}, {"text", "<", "e", "n", "d", ">", "more"}, "text", true);
  expect_shown({"<end>"}, {"text<e", "nd", " not"}, "text<end not", false);
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"abc"});
  EXPECT_EQ(matcher.push("xa"), "x");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_EQ(matcher.push("a"), "ab");
  EXPECT_EQ(matcher.push("x"), "ax");
  EXPECT_EQ(matcher.push("ab"), "");
  EXPECT_EQ(matcher.finish(), "ab");
}

TEST(StopMatcher, OverlappingBeginnings) {
  expect_shown({"aab"}, {"a", "a", "a", "b"}, "a", true);
  expect_shown({"abab"}, {"aba", "abab"}, "aba", true);
}

TEST(StopMatcher, DropsWhatFollows) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.push("one. two"), "one");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push(" three"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, TheStopThatIsCompleteFirstWinsHoweverTheTextIsCut) {
  for (const Texts& pieces : {Texts{"xabcd"}, {"xab", "cd"}, {"x", "a", "b", "c", "d"}}) {
    expect_shown({"abcd", "bc"}, pieces, "xa", true);
    expect_shown({"bc", "abcd"}, pieces, "xa", true);
    expect_shown({"bc", "abc"}, pieces, "x", true);  // complete together: the longest
  }
}

TEST(StopMatcher, MultibyteStops) {
  expect_shown({"。\n"}, {"好", "。", "你", "。", "\n"}, "好。你", true);
}

// What the header promises, by looking at every end.
Shown naive(const Texts& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

bool starts_inside_a_character(const std::string& text) {
  return !text.empty() && (static_cast<unsigned char>(text[0]) & 0xC0) == 0x80;
}

TEST(StopMatcher, AgreesWithANaiveSearchOnRandomTexts) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  const Texts alphabet{"a", "b", "é", "è", "字"};  // é and è share their first byte
  const auto random_text = [&](size_t characters) {
    std::string text;
    for (size_t i = 0; i < characters; ++i)
      text += alphabet[below(alphabet.size())];
    return text;
  };
  int stopped = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    Texts stops;
    for (size_t i = 1 + below(3); i > 0; --i)
      stops.push_back(random_text(1 + below(4)));
    std::string text;
    std::string shown;
    StopMatcher matcher(stops);
    for (size_t i = below(12); i > 0; --i) {
      const std::string piece = random_text(below(4));
      text += piece;
      const std::string part = matcher.push(piece);
      EXPECT_FALSE(starts_inside_a_character(part));
      shown += part;
      if (matcher.stopped()) continue;
      const auto longest = std::ranges::max(stops, {}, &std::string::size).size();
      EXPECT_GE(shown.size() + longest - 1, text.size()) << "held back without need";
    }
    shown += matcher.finish();
    const Shown want = naive(stops, text);
    ASSERT_EQ(shown, want.text) << text;
    ASSERT_EQ(matcher.stopped(), want.stopped) << text;
    stopped += want.stopped;
  }
  EXPECT_GT(stopped, kRounds / 5);
  EXPECT_LT(stopped, kRounds * 4 / 5);
}

}  // namespace
}  // namespace switchyard
