// The model by itself, its limits among them.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/tokenizer/tokenizer.h"
#include "support/expect_error.h"
#include "tokenizer/test_tokenizers.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

TEST(Bpe, MergesTheLowestRankFirst) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(5));
  EXPECT_THAT(tokenizer.encode("ab bc"), ElementsAre(4, 3, 1, 2));
  // With "b c" first, "ab" can no longer form inside abc.
  const Tokenizer other =
      small_tokenizer({{"model", {{"vocab", {{"bc", 6}}}, {"merges", {"b c", "a b", "ab c"}}}}});
  EXPECT_THAT(other.encode("abcab"), ElementsAre(0, 6, 4));
}

TEST(Bpe, MergesTheLeftmostFirst) {
  const Tokenizer tokenizer = small_tokenizer({{"model", {{"vocab", {{"aa", 6}}}, {"merges", {"a a"}}}}});
  EXPECT_THAT(tokenizer.encode("aaaaa"), ElementsAre(6, 6, 0));
}

TEST(Bpe, NeverDropsCharacters) {
  const Tokenizer tokenizer = small_tokenizer();
  expect_error([&] { tokenizer.encode("abz"); }, "t: model: expected a token for every character");
  expect_error([&] { tokenizer.encode("ab世"); }, "none for '世'");
}

// One word of up to a million characters: quadratic merging or regular expressions would take hours.
TEST(Bpe, LongWordsTakeNearlyLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : {"qwen3", "byte_fallback"}) {
    for (const std::string unit : {"a", " ", "\n", "世", "!", "e\u0323\u0301", " \t"}) {
      const size_t bytes = unit == "a" ? 1'000'000 : 200'000;
      std::string text;
      while (text.size() < bytes)
        text += unit;
      const auto ids = golden_tokenizer(name).encode(text);
      EXPECT_GT(ids.size(), text.size() / 200);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(5));
}

TEST(Tokenizer, RefusesInvalidUtf8ByOffset) {
  const Tokenizer tokenizer = small_tokenizer();
  expect_error([&] { tokenizer.encode("ab\xFF"); }, "text: byte 2: expected valid UTF-8, got \\xff");
  expect_error([&] { tokenizer.encode("\xE4\xB8"); }, "text: byte 0: expected valid UTF-8");
  expect_error([&] { tokenizer.encode("a\xED\xA0\x80"); }, "text: byte 1");
}

TEST(Tokenizer, RefusesHugeTexts) {
  expect_error([] { small_tokenizer().encode(std::string((size_t{64} << 20) + 1, 'a')); },
               "expected at most 67108864 bytes");
}

TEST(Tokenizer, MayBeUsedFromSeveralThreads) {
  const Tokenizer& tokenizer = golden_tokenizer("qwen3");
  const std::string text = "The wagons arrive; 12345 labels, it's naïve. 世界 <|im_end|>\n\n";
  const auto expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (size_t i = 0; i < equal.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const auto ids = tokenizer.encode(text);
        if (ids == expected && tokenizer.decode(ids, false) == text) ++equal[i];
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_THAT(equal, testing::Each(50));
}

}  // namespace
}  // namespace switchyard
