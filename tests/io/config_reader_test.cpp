#include "io/config_reader.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

ConfigReader reader(const std::string& text) {
  return {parse_json(text, "config.json"), "config.json"};
}

TEST(ConfigReader, ReadsValuesOfEveryType) {
  const auto config =
      reader(R"({"i": -3, "n": 2, "x": 1e-6, "b": true, "s": "silu", "l": [1, 2], "t": ["u"]})");
  EXPECT_EQ(config.required_int("i", -3, 0), -3);
  EXPECT_EQ(config.int_or("i", 9, -5, 5), -3);
  EXPECT_EQ(config.number_or("x", 0, 0, 1), 1e-6);
  EXPECT_EQ(config.number_or("n", 0, 0, 5), 2.0);
  EXPECT_TRUE(config.bool_or("b", false));
  EXPECT_EQ(config.string_or("s", ""), "silu");
  EXPECT_THAT(config.int_list_or("l", {}, 0, 9), ElementsAre(1, 2));
  EXPECT_THAT(config.optional_string_list("t").value(), ElementsAre("u"));
  EXPECT_NO_THROW(config.finish());
}

TEST(ConfigReader, GivesTheDefaultForAbsentKeys) {
  const auto config = reader(R"({"null": null})");
  EXPECT_EQ(config.int_or("i", 9, 0, 5), 9);
  EXPECT_EQ(config.number_or("x", 0.5, 0, 1), 0.5);
  EXPECT_FALSE(config.bool_or("b", false));
  EXPECT_EQ(config.string_or("s", "gelu"), "gelu");
  for (const char* key : {"none", "null"}) {
    EXPECT_EQ(config.optional_int(key, 0, 5), std::nullopt);
    EXPECT_EQ(config.optional_number(key, 0, 5), std::nullopt);
    EXPECT_EQ(config.optional_bool(key), std::nullopt);
    EXPECT_EQ(config.optional_string(key), std::nullopt);
    EXPECT_THAT(config.int_list_or(key, {7}, 0, 9), ElementsAre(7));
    EXPECT_EQ(config.optional_string_list(key), std::nullopt);
  }
}

TEST(ConfigReader, NamesFileKeyExpectedAndGot) {
  const auto config = reader(R"({"null": null, "f": 4096.0, "s": "4", "big": 18446744073709551615, "b": true,
                                 "i": 7, "l": [1, "x"]})");
  expect_error([&] { config.required_int("none", 1, 5); },
               "config.json: none: expected an integer in [1, 5], got no such key");
  expect_error([&] { config.required_int("i", 1, 5); },
               "config.json: i: expected an integer in [1, 5], got 7");
  for (const auto& [key, got] : {std::pair{"null", "null"}, std::pair{"f", "4096.0"}, std::pair{"s", "\"4\""},
                                 std::pair{"big", "18446744073709551615"}, std::pair{"b", "true"}}) {
    const std::string name = key;
    expect_error([&] { config.int_or(name, 1, 1, 1 << 30); },
                 fmt::format("config.json: {}: expected an integer in [1, 1073741824], got {}", key, got));
  }
  expect_error([&] { config.number_or("s", 1, 0, 5); }, "s: expected a number in [0, 5], got \"4\"");
  expect_error([&] { config.number_or("i", 1, 0, 5); }, "i: expected a number in [0, 5], got 7");
  expect_error([&] { config.bool_or("i", true); }, "i: expected true or false, got 7");
  expect_error([&] { config.string_or("i", ""); }, "i: expected a string, got 7");
  expect_error([&] { config.required_string("none"); }, "none: expected a string, got no such key");
  expect_error([&] { config.optional_int_list("i", 0, 9); }, "i: expected a list, got 7");
  expect_error([&] { config.optional_int_list("l", 0, 9); }, "l: expected an integer in [0, 9], got \"x\"");
  expect_error([&] { config.optional_string_list("l"); }, "l: expected a string, got 1");
}

TEST(ConfigReader, RefusesFilesThatAreNoObject) {
  const TempFolder folder;
  expect_error([] { reader("[1]"); }, "config.json: expected a JSON object, got [1]");
  expect_error([&] { ConfigReader::open(folder.path("config.json")); },
               "expected a readable file, got No such");
  const std::string large(static_cast<size_t>(kMaxConfigBytes) + 1, ' ');
  expect_error([&] { ConfigReader::open(folder.write("c", large)); }, "expected at most 16777216 bytes");
}

TEST(ConfigReader, RefusesKeysThatNobodyRead) {
  const auto config = reader(R"({"hidden_size": 1, "hidden_sizes": 2, "zzzzzzzz": 3})");
  config.required_int("hidden_size", 1, 5);
  expect_error(
      [&] { config.finish(); },
      "config.json: expected only keys that are understood, got unknown 'hidden_sizes' (did you mean "
      "'hidden_size'?), 'zzzzzzzz'");
  expect_error([&] { config.finish({"zzzzzzzz"}); },
               "got unknown 'hidden_sizes' (did you mean 'hidden_size'?)");
  EXPECT_NO_THROW(config.finish({"zzzzzzzz", "hidden_sizes"}));
}

TEST(ConfigReader, SuggestsTheNameOfAKeyThatIsAbsent) {
  const auto config = reader(R"({"num_expert": 8, "use_cachee": true})");
  config.int_or("num_experts", 60, 1, 100);
  expect_error([&] { config.finish(); },
               "'num_expert' (did you mean 'num_experts'?), 'use_cachee' (did you mean 'use_cache'?)");
}

TEST(ConfigReader, CountsUnknownKeysBeyondTheFirst) {
  expect_error([] { reader(R"({"k1": 1, "k2": 1, "k3": 1, "k4": 1, "k5": 1, "k6": 1, "k7": 1})").finish(); },
               "got unknown 'k1', 'k2', 'k3', 'k4', 'k5' and 2 more");
}

TEST(ConfigReader, AcceptsHarmlessKeysAndNulls) {
  EXPECT_NO_THROW(reader(R"({"transformers_version": "4.40.1", "use_cache": false, "unsloth_fixed": true,
                             "id2label": {"0": "A"}, "temperature": 0.7, "torch_dtype": "bfloat16",
                             "something_new": null, "is_encoder_decoder": false, "pruned_heads": {}})")
                      .finish());
  expect_error([] { reader(R"({"is_encoder_decoder": true})").finish(); },
               "config.json: is_encoder_decoder: expected false (nothing else is supported), got true");
}

TEST(ConfigReader, RefusesQuantisationByItsMethod) {
  const auto config = reader(R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})");
  const std::string message =
      "config.json: quantization_config: expected a checkpoint without quantisation, got \"gptq\" (not "
      "supported";
  expect_error([&] { config.finish(); }, message);
  expect_error([&] { config.finish({"quantization_config"}); }, message);
  expect_error([] { reader(R"({"quantization_config": 4})").finish(); }, "got without a quant_method");
  EXPECT_NO_THROW(reader(R"({"quantization_config": null})").finish());
}

TEST(ConfigReader, ReadsTokenIds) {
  const auto config =
      reader(R"({"one": 2, "two": [2, 0], "null": null, "high": 10, "low": [-1], "text": "2"})");
  EXPECT_THAT(config.token_ids("one", 10), ElementsAre(2));
  EXPECT_THAT(config.token_ids("two", 10), ElementsAre(2, 0));
  EXPECT_THAT(config.token_ids("null", 10), ElementsAre());
  EXPECT_THAT(config.token_ids("none", 10), ElementsAre());
  expect_error([&] { config.token_ids("high", 10); }, "high: expected an integer in [0, 9], got 10");
  expect_error([&] { config.token_ids("low", 10); }, "low: expected an integer in [0, 9], got -1");
  expect_error([&] { config.token_ids("text", 10); }, "text: expected an integer in [0, 9], got \"2\"");
}

TEST(ConfigReader, ReadsTheDtypeOfBothDialects) {
  EXPECT_EQ(reader(R"({"dtype": "bfloat16"})").dtype(), DType::kBF16);
  EXPECT_EQ(reader(R"({"torch_dtype": "float32"})").dtype(), DType::kF32);
  EXPECT_EQ(reader(R"({"dtype": "float16", "torch_dtype": "float16"})").dtype(), DType::kF16);
  EXPECT_EQ(reader(R"({"dtype": null})").dtype(), std::nullopt);
  expect_error([] { reader(R"({"dtype": "float16", "torch_dtype": "float32"})").dtype(); },
               "torch_dtype: expected 'float16', as dtype says, got 'float32'");
  expect_error([] { reader(R"({"torch_dtype": "int8"})").dtype(); },
               "torch_dtype: expected a floating-point type of torch, got 'int8'");
}

TEST(ConfigReader, WantsOneArchitecture) {
  EXPECT_EQ(reader(R"({"architectures": ["Qwen2MoeForCausalLM"]})").architecture(), "Qwen2MoeForCausalLM");
  EXPECT_EQ(reader("{}").architecture(), std::nullopt);
  expect_error([] { reader(R"({"architectures": []})").architecture(); },
               "architectures: expected exactly one class, got []");
  expect_error([] { reader(R"({"architectures": ["A", "B"]})").architecture(); }, R"(got ["A","B"])");
  EXPECT_EQ(reader(R"({"model_type": "qwen2_moe"})").model_type(), "qwen2_moe");
}

}  // namespace
}  // namespace switchyard
