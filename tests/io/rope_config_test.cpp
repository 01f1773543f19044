#include "io/rope_config.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

constexpr double kDefaultTheta = 10000;

RopeConfig read(const std::string& text) {
  const ConfigReader config(parse_json(text, "config.json"), "config.json");
  return read_rope_config(config, kDefaultTheta);
}

void expect_refused(const std::string& text, const std::string& part) {
  SCOPED_TRACE(text);
  expect_error([&] { read(text); }, "config.json: " + part);
}

TEST(RopeConfig, ReadsBothDialectsAlike) {
  for (const char* text :
       {R"({"rope_parameters": {"rope_theta": 1e6, "rope_type": "linear", "factor": 2.0}})",
        R"({"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}})",
        R"({"rope_theta": 1e6, "rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2.0}})",
        R"({"rope_theta": 1000000, "rope_parameters": {"rope_theta": 1e6, "rope_type": "linear", "factor": 2},
            "rope_scaling": {"type": "linear", "factor": 2.0}})"}) {
    SCOPED_TRACE(text);
    const RopeConfig rope = read(text);
    EXPECT_EQ(rope.type, "linear");
    EXPECT_EQ(rope.theta, 1e6);
    EXPECT_EQ(rope.parameters, Json({{"factor", 2.0}}));
  }
}

TEST(RopeConfig, ReadsAbsentPartsAsTransformersDoes) {
  for (const char* text :
       {"{}", R"({"rope_scaling": null})", R"({"rope_parameters": {}, "rope_scaling": {}})"}) {
    SCOPED_TRACE(text);
    const RopeConfig rope = read(text);
    EXPECT_EQ(rope.type, "default");
    EXPECT_EQ(rope.theta, kDefaultTheta);
    EXPECT_TRUE(rope.parameters.empty());
  }
  EXPECT_EQ(read(R"({"rope_theta": 5e5})").theta, 5e5);
  EXPECT_EQ(read(R"({"rope_theta": 5e5, "rope_parameters": {"rope_type": "default"}})").theta, 5e5);
}

TEST(RopeConfig, ReadsTheParametersOfEveryType) {
  const RopeConfig yarn =
      read(R"({"max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", "factor": 40,
      "mscale": 1.0, "mscale_all_dim": 0.707, "beta_fast": 32, "beta_slow": 1, "attention_factor": null}})");
  EXPECT_EQ(yarn.type, "yarn");
  EXPECT_EQ(yarn.parameters["original_max_position_embeddings"], 4096);
  EXPECT_FALSE(yarn.parameters.contains("attention_factor"));

  const RopeConfig longrope =
      read(R"({"original_max_position_embeddings": 512, "max_position_embeddings": 4096,
      "rope_scaling": {"type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 3]}})");
  EXPECT_EQ(longrope.parameters["original_max_position_embeddings"], 512);

  const RopeConfig llama3 =
      read(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  EXPECT_EQ(llama3.parameters.size(), 4u);
  EXPECT_EQ(read(R"({"rope_scaling": {"type": "dynamic", "factor": 2, "partial_rotary_factor": 0.5}})").type,
            "dynamic");
}

TEST(RopeConfig, RefusesContradictions) {
  expect_refused(R"({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}})",
                 "rope_theta: expected 1000000, as rope_parameters.rope_theta says, got 10000");
  expect_refused(R"({"rope_scaling": {"type": "linear", "rope_type": "dynamic", "factor": 2}})",
                 R"(rope_scaling.rope_type: expected the same as 'type', "linear", got "dynamic")");
  expect_refused(
      R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
                     "rope_scaling": {"type": "linear", "factor": 2}})",
      "rope_scaling: expected what rope_parameters says, or only one of the two, got a contradiction");
  expect_refused(
      R"({"original_max_position_embeddings": 512, "rope_scaling": {"type": "yarn", "factor": 2,
                     "original_max_position_embeddings": 1024}})",
      "original_max_position_embeddings: expected 1024, as rope_scaling.original_max_position_embeddings");
}

TEST(RopeConfig, RefusesWhatItDoesNotUnderstand) {
  expect_refused(
      R"({"rope_scaling": {"type": "ntk", "factor": 2}})",
      "rope_scaling.rope_type: expected one of default, linear, dynamic, yarn, longrope, llama3, got 'ntk'");
  expect_refused(R"({"rope_scaling": {"type": 3}})", "rope_scaling.rope_type: expected a string, got 3");
  expect_refused(R"({"rope_scaling": 3})", "rope_scaling: expected an object or null, got 3");
  expect_refused(R"({"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2]}})",
                 "rope_parameters.mrope_section: expected only keys of rope type 'default', got [1,2]");
  expect_refused(
      R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}})",
      "rope_parameters.full_attention: expected one set of rope parameters for all layers, got an object");
}

TEST(RopeConfig, RefusesBadValues) {
  expect_refused(R"({"rope_theta": 0})", "rope_theta: expected a number in [1, 1000000000000000], got 0");
  expect_refused(R"({"rope_theta": null})", "rope_theta: expected a number in");
  expect_refused(R"({"rope_parameters": {"rope_theta": "x"}})",
                 "rope_parameters.rope_theta: expected a number in");
  expect_refused(R"({"rope_scaling": {"type": "linear"}})",
                 "rope_scaling.factor: expected a value, which rope type 'linear' needs, got none");
  expect_refused(R"({"rope_scaling": {"type": "linear", "factor": 0.5}})",
                 "rope_scaling.factor: expected a number of at least 1, got 0.5");
  expect_refused(R"({"rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": 1.5}})",
                 "rope_scaling.partial_rotary_factor: expected a number in (0, 1], got 1.5");
  const auto yarn = [](const char* key_value) {
    return fmt::format(
        R"({{"max_position_embeddings": 64, "rope_scaling": {{"type": "yarn", "factor": 2, {}}}}})",
        key_value);
  };
  expect_refused(yarn("\"beta_fast\": 0"), "rope_scaling.beta_fast: expected a number above 0, got 0");
  expect_refused(yarn("\"mscale\": true"), "rope_scaling.mscale: expected a number, got true");
  expect_refused(yarn("\"truncate\": 1"), "rope_scaling.truncate: expected true or false, got 1");
  expect_refused(yarn("\"original_max_position_embeddings\": 2.5"),
                 "rope_scaling.original_max_position_embeddings: expected an integer in [1, 2^31), got 2.5");
  expect_refused(R"({"rope_scaling": {"type": "yarn", "factor": 2}})",
                 "max_position_embeddings: expected an integer in [1, 2147483647], got no such key");
  expect_refused(R"({"max_position_embeddings": 64, "rope_scaling": {"type": "longrope", "short_factor": [],
                     "long_factor": [1]}})",
                 "rope_scaling.short_factor: expected a list of numbers above 0, got []");
}

}  // namespace
}  // namespace switchyard
