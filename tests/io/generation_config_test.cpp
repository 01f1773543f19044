#include "io/generation_config.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

constexpr int64_t kVocab = 100;

GenerationConfig parse(const std::string& text) {
  return parse_generation_config(parse_json(text, "g.json"), "g.json", kVocab);
}

ConfigReader model_config(const std::string& text) {
  return {parse_json(text, "config.json"), "config.json"};
}

void expect_refused(const std::string& text, const std::string& part) {
  SCOPED_TRACE(text);
  expect_error([&] { parse(text); }, "g.json: " + part);
}

TEST(GenerationConfig, ReadsSamplingDefaults) {
  const GenerationConfig config = parse(R"({"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0,
      "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1, "typical_p": 1.0,
      "repetition_penalty": 1.05, "max_new_tokens": 512, "transformers_version": "4.51.0"})");
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 3));
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_TRUE(config.do_sample);
  EXPECT_EQ(config.temperature, 0.6);
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.min_p, 0.1);
  EXPECT_EQ(config.repetition_penalty, 1.05);
  EXPECT_EQ(config.max_new_tokens, 512);
  EXPECT_EQ(config.max_length, std::nullopt);
  EXPECT_TRUE(config.unsupported.empty());
}

TEST(GenerationConfig, FillsInTheDefaultsOfTransformers) {
  for (const char* text : {"{}", R"({"eos_token_id": null, "temperature": null, "top_k": null})"}) {
    const GenerationConfig config = parse(text);
    EXPECT_TRUE(config.eos_token_ids.empty());
    EXPECT_FALSE(config.do_sample);
    EXPECT_EQ(config.temperature, 1.0);
    EXPECT_EQ(config.top_k, 50);
    EXPECT_EQ(config.top_p, 1.0);
    EXPECT_EQ(config.repetition_penalty, 1.0);
  }
}

TEST(GenerationConfig, RefusesBadValues) {
  expect_refused("[]", "expected a JSON object, got []");
  expect_refused(R"({"eos_token_id": 100})", "eos_token_id: expected an integer in [0, 99], got 100");
  expect_refused(R"({"eos_token_id": [2, -1]})", "eos_token_id: expected an integer in [0, 99], got -1");
  expect_refused(R"({"pad_token_id": -1})", "pad_token_id: expected an integer in [0, 99], got -1");
  expect_refused(R"({"bos_token_id": [1]})", "bos_token_id: expected an integer in [0, 99], got [1]");
  expect_refused(R"({"do_sample": 1})", "do_sample: expected true or false, got 1");
  expect_refused(R"({"temperature": -0.5})", "temperature: expected a number in [0, 1000000], got -0.5");
  expect_refused(R"({"do_sample": true, "temperature": 0})", "temperature: expected a number above 0, got 0");
  expect_refused(R"({"do_sample": true, "top_p": 0.0})", "top_p: expected a number above 0, got 0");
  expect_refused(R"({"top_p": 1.5})", "top_p: expected a number in [0, 1], got 1.5");
  expect_refused(R"({"top_k": -1})", "top_k: expected an integer in [0, 2147483647], got -1");
  expect_refused(R"({"min_p": 2})", "min_p: expected a number in [0, 1], got 2");
  expect_refused(R"({"repetition_penalty": 0})", "repetition_penalty: expected a number above 0, got 0");
  expect_refused(R"({"max_new_tokens": 0})", "max_new_tokens: expected an integer in [1, 2147483647], got 0");
}

TEST(GenerationConfig, GreedyFilesMayHoldATemperatureOfZero) {
  EXPECT_NO_THROW(parse(R"({"do_sample": false, "temperature": 0.0, "top_p": 0})"));
}

TEST(GenerationConfig, ReportsWhatItDoesNotSupport) {
  EXPECT_THAT(
      parse(R"({"num_beams": 4, "no_repeat_ngram_size": 3, "chat_format": "chatml", "typical_p": 0.9})")
          .unsupported,
      ElementsAre("unknown key chat_format = \"chatml\" has no effect here",
                  "no_repeat_ngram_size = 3 has no effect here", "num_beams = 4 has no effect here",
                  "typical_p = 0.9 has no effect here"));
  EXPECT_TRUE(
      parse(R"({"num_beams": 1, "no_repeat_ngram_size": 0, "epsilon_cutoff": 0.0, "guidance_scale": 1.0,
                        "chat_format": null, "use_cache": false})")
          .unsupported.empty());
}

TEST(GenerationConfig, TheFileWinsOverConfigJson) {
  const TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id": 7})");
  const auto config = read_generation_config(folder.path(), model_config(R"({"eos_token_id": 2})"), kVocab);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(7));
  EXPECT_TRUE(config.unsupported.empty());
}

TEST(GenerationConfig, SaysThatTheFileLacksTheEnd) {
  const TempFolder folder;
  folder.write("generation_config.json", "{}");
  const auto config = read_generation_config(folder.path(), model_config(R"({"eos_token_id": 2})"), kVocab);
  EXPECT_TRUE(config.eos_token_ids.empty());
  EXPECT_THAT(config.unsupported,
              ElementsAre(testing::HasSubstr("no eos_token_id although config.json has one")));
}

TEST(GenerationConfig, UsesConfigJsonWhereTheFileIsAbsent) {
  const TempFolder folder;
  const auto config = read_generation_config(
      folder.path(),
      model_config(R"({"eos_token_id": [2, 3], "bos_token_id": 1, "num_beams": 2, "hidden_size": 64})"),
      kVocab);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 3));
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_THAT(config.unsupported, ElementsAre("num_beams = 2 has no effect here"));
  expect_error(
      [&] { read_generation_config(folder.path(), model_config(R"({"eos_token_id": 100})"), kVocab); },
      "config.json: eos_token_id: expected an integer in [0, 99], got 100");
}

TEST(GenerationConfig, NamesABrokenFile) {
  const TempFolder folder;
  folder.write("generation_config.json", "{");
  expect_error([&] { read_generation_config(folder.path(), model_config("{}"), kVocab); },
               folder.path("generation_config.json") + ": byte 2: expected valid JSON");
}

}  // namespace
}  // namespace switchyard
