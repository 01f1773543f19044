// Every tokenizer against the results of the Hugging Face library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/tokenizer/tokenizer.h"
#include "tokenizer/test_tokenizers.h"

namespace switchyard {
namespace {

using Ids = std::vector<int32_t>;

TEST(Golden, Encodes) {
  for (const auto& [name, tokenizer, golden] : golden_tokenizers()) {
    for (const Json& entry : golden) {
      if (!entry.contains("text")) continue;  // for the decoder alone
      const std::string text = entry.at("text");
      SCOPED_TRACE(name + ": " + entry.at("text").dump());
      EXPECT_EQ(tokenizer.encode(text), entry.at("ids").get<Ids>());
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = true}),
                value_or(entry, "ids_special", "ids").get<Ids>());
    }
  }
}

TEST(Golden, EncodesSpecialTokensAsText) {
  int64_t checked = 0;
  for (const auto& [name, tokenizer, golden] : golden_tokenizers()) {
    for (const Json& entry : golden) {
      if (!entry.contains("ids_plain")) continue;
      SCOPED_TRACE(name + ": " + entry.at("text").dump());
      EXPECT_EQ(tokenizer.encode(entry.at("text").get<std::string>(), {.parse_special = false}),
                entry.at("ids_plain").get<Ids>());
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST(Golden, Decodes) {
  for (const auto& [name, tokenizer, golden] : golden_tokenizers()) {
    for (const Json& entry : golden) {
      SCOPED_TRACE(name + ": " + entry.dump());
      const Ids ids = entry.at("ids").get<Ids>();
      EXPECT_EQ(tokenizer.decode(ids, false), entry.at("decoded").get<std::string>());
      EXPECT_EQ(tokenizer.decode(ids, true), value_or(entry, "decoded_skip", "decoded").get<std::string>());
    }
  }
}

TEST(Golden, Llama2) {
  if (!has_llama2()) GTEST_SKIP() << "set SWITCHYARD_LLAMA2_TOKENIZER to a folder with Llama 2's tokenizer";
  const Tokenizer& tokenizer = golden_tokenizer("llama2");  // its golden texts are among those above
  EXPECT_EQ(tokenizer.vocab_size(), 32000);
  EXPECT_EQ(tokenizer.token_to_id("<s>"), 1);
  EXPECT_TRUE(tokenizer.is_special(1));
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer& tokenizer = golden_tokenizer("qwen3");
  EXPECT_EQ(tokenizer.vocab_size(), 151669);
  const int32_t end = tokenizer.token_to_id("<|im_end|>").value();
  EXPECT_EQ(tokenizer.id_to_token(end), "<|im_end|>");
  EXPECT_TRUE(tokenizer.is_special(end));
  EXPECT_FALSE(tokenizer.is_special(0));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_EQ(tokenizer.id_to_token(0), "!");
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
}

TEST(Tokenizer, SplitsDigitsAsTheModelWants) {
  EXPECT_EQ(golden_tokenizer("qwen3").encode("12345").size(), 5u);        // one by one
  EXPECT_EQ(golden_tokenizer("deepseek_v3").encode("12345").size(), 2u);  // up to three
}

TEST(Tokenizer, ComposesCharacters) {
  const Tokenizer& tokenizer = golden_tokenizer("qwen3");
  EXPECT_EQ(tokenizer.encode("cafe\u0301"), tokenizer.encode("caf\u00e9"));
}

TEST(Tokenizer, EmbeddedModelRoundTrips) {
  const Tokenizer tokenizer = Tokenizer::load(SWITCHYARD_SOURCE_DIR "/models/tiny-qwen2-moe");
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  for (const std::string text : {"", "Hello, world!", "  two  spaces\n\n\ttab 12345",
                                 "naïve 世界 🙂 \u0000x", "<|im_start|>user\nhi<|im_end|>\n"}) {
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids, false), text);
    for (const int32_t id : ids)
      EXPECT_LT(id, tokenizer.vocab_size());
  }
  EXPECT_THAT(tokenizer.encode("<|im_start|>a<|im_end|>"),
              testing::ElementsAre(1, tokenizer.token_to_id("a").value(), 2));
}

}  // namespace
}  // namespace switchyard
