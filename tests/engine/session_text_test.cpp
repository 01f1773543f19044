// The text that a session streams: together the decoded tokens, and every piece whole characters.
#include <gtest/gtest.h>

#include "engine/session.h"
#include "support/tiny_engine.h"

namespace switchyard {
namespace {

// Whether `text` is a sequence of whole UTF-8 characters, by lead and continuation bytes.
bool is_whole_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80       ? 1
                          : lead >> 5 == 6  ? 2
                          : lead >> 4 == 14 ? 3
                          : lead >> 3 == 30 ? 4
                                            : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

class SessionText : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Prompts, SessionText,
                         testing::Values("软件包管理系统", "如果您要安装软件，请", "\"café\" is naïve —",
                                         "The package is"));

TEST_P(SessionText, StreamsWholeCharactersThatAddUpToTheDecodedTokens) {
  TinyEngine& engine = shared_tiny_engine();
  const std::vector<int32_t> prompt = engine.tokenizer.encode(GetParam());
  std::vector<Request> requests{{.prompt = prompt, .max_tokens = 60}};
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    requests.push_back(
        {.prompt = prompt, .max_tokens = 40, .sampling = {.temperature = 1.5, .top_k = 200, .seed = seed}});
  }
  size_t held_back = 0;  // tokens that complete no character
  for (const Answer& answer : run_all(engine, requests)) {
    EXPECT_EQ(answer.text, engine.tokenizer.decode(answer.tokens, true));
    for (const std::string& piece : answer.pieces) {
      EXPECT_TRUE(is_whole_utf8(piece)) << testing::PrintToString(piece);
      held_back += piece.empty();
    }
  }
  const bool chinese = static_cast<unsigned char>(GetParam()[0]) >= 0xE0;
  if (chinese) {
    EXPECT_GT(held_back, 0u) << "no character was spread over tokens: the test shows nothing";
  }
}

// A stop string of one Chinese character, whose bytes come in several tokens.
TEST(SessionText, AStopStringMayBeACharacterSpreadOverTokens) {
  TinyEngine& engine = shared_tiny_engine();
  const std::vector<int32_t> prompt = engine.tokenizer.encode("软件包管理系统");
  const Answer whole = run_one(engine, {.prompt = prompt, .max_tokens = 60});
  std::string stop;
  for (size_t i = 1; i < whole.pieces.size() && stop.empty(); ++i) {
    if (whole.pieces[i - 1].empty() && whole.pieces[i].size() == 3) stop = whole.pieces[i];
  }
  ASSERT_FALSE(stop.empty()) << whole.text;
  const Answer stopped = run_one(engine, {.prompt = prompt, .max_tokens = 60, .stop = {stop}});
  EXPECT_EQ(stopped.finish, FinishReason::kStopString);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
}

}  // namespace
}  // namespace switchyard
