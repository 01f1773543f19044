#include "io/tokenizer/stream_decoder.h"

#include <random>

#include <gtest/gtest.h>

#include "io/tokenizer/unicode.h"
#include "support/expect_error.h"
#include "tokenizer/test_tokenizers.h"

namespace switchyard {
namespace {

using Ids = std::vector<int32_t>;

// All pieces; each must be whole characters.
std::vector<std::string> stream(const Tokenizer& tokenizer, const Ids& ids, bool skip_special_tokens) {
  StreamDecoder decoder(tokenizer, skip_special_tokens);
  std::vector<std::string> pieces;
  for (const int32_t id : ids)
    pieces.push_back(decoder.push(id));
  pieces.push_back(decoder.finish());
  for (const std::string& piece : pieces)
    EXPECT_EQ(first_invalid_utf8(piece), piece.size());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces)
    text += piece;
  return text;
}

void expect_stream_equals_decode(const Tokenizer& tokenizer, const Ids& ids) {
  for (const bool skip : {false, true}) {
    EXPECT_EQ(joined(stream(tokenizer, ids, skip)), tokenizer.decode(ids, skip));
  }
}

TEST(StreamDecoder, PiecesMakeTheDecodedText) {
  for (const auto& [name, tokenizer, golden] : golden_tokenizers()) {
    for (const Json& entry : golden) {
      SCOPED_TRACE(name + ": " + entry.dump());
      expect_stream_equals_decode(tokenizer, value_or(entry, "ids_special", "ids").get<Ids>());
      EXPECT_EQ(joined(stream(tokenizer, entry.at("ids").get<Ids>(), false)),
                entry.at("decoded").get<std::string>());
    }
  }
}

// A model may sample anything: cut characters, lone continuation bytes, special tokens in between.
TEST(StreamDecoder, PiecesMakeTheDecodedTextOfRandomIds) {
  std::mt19937 random(7);
  for (const auto& [name, tokenizer, golden] : golden_tokenizers()) {
    SCOPED_TRACE(name);
    std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(tokenizer.vocab_size()) - 1);
    std::uniform_int_distribution<int32_t> low(0, std::min<int32_t>(300, any.max()));
    for (int round = 0; round < 20; ++round) {
      Ids ids;
      for (int i = 0; i < 60; ++i)
        ids.push_back(round % 2 == 0 ? any(random) : low(random));
      expect_stream_equals_decode(tokenizer, ids);
    }
  }
}

TEST(StreamDecoder, HoldsCutCharactersBack) {
  const Tokenizer& tokenizer = golden_tokenizer("byte_level_no_regex");
  const std::string smile = "\xF0\x9F\x99\x82";
  Ids ids;
  for (const char byte : smile)
    ids.push_back(static_cast<uint8_t>(byte));  // ids of the base are the bytes
  EXPECT_EQ(stream(tokenizer, ids, false), (std::vector<std::string>{"", "", "", smile, ""}));
  ids.pop_back();
  EXPECT_EQ(stream(tokenizer, ids, false), (std::vector<std::string>{"", "", "", "\uFFFD"}));
  ids.push_back('a');
  EXPECT_EQ(stream(tokenizer, ids, false), (std::vector<std::string>{"", "", "", "\uFFFDa", ""}));
}

TEST(StreamDecoder, StripsTheLeadingSpaceOnce) {
  const Tokenizer& tokenizer = golden_tokenizer("byte_fallback");
  const int32_t space = tokenizer.token_to_id("▁").value();
  const int32_t a = tokenizer.token_to_id("a").value();
  EXPECT_EQ(stream(tokenizer, {space, a, space, a}, false),
            (std::vector<std::string>{"", "a", " ", "a", ""}));
}

TEST(StreamDecoder, RunsOfByteTokensAreDecodedAsAWhole) {
  const Tokenizer& tokenizer = golden_tokenizer("byte_fallback");
  const auto byte = [&](const char* token) { return tokenizer.token_to_id(token).value(); };
  const Ids ids = {byte("<0x41>"), byte("<0xC3>"), byte("<0xA9>")};
  EXPECT_EQ(stream(tokenizer, ids, false), (std::vector<std::string>{"", "", "", "Aé"}));
  EXPECT_EQ(tokenizer.decode(Ids{ids[0], ids[1]}, false), "\uFFFD\uFFFD");
}

TEST(StreamDecoder, RefusesUnusedIds) {
  const Tokenizer tokenizer = small_tokenizer();
  StreamDecoder decoder(tokenizer, false);
  expect_error([&] { decoder.push(6); }, "t: token id 6: expected an id of a token (below 6)");
  expect_error([&] { decoder.push(-1); }, "token id -1");
  expect_error([&] { tokenizer.decode(Ids{0, 99}, true); }, "token id 99");
}

}  // namespace
}  // namespace switchyard
