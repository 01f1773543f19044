#include "io/quantization_config.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace switchyard {
namespace {

Json gptq() {
  return {{"quant_method", "gptq"}, {"bits", 4}};
}
Json awq() {
  return {{"quant_method", "awq"}, {"bits", 4}, {"zero_point", true}, {"version", "gemm"}};
}
Json fp8() {
  return {{"quant_method", "fp8"}, {"weight_block_size", {128, 64}}};
}
Json compressed() {
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 32}}}}}}}};
}

QuantizationConfig read(const Json& quantization, const std::set<std::string>& ignored_keys = {}) {
  const ConfigReader config({{"quantization_config", quantization}}, "config.json");
  const auto result = read_quantization_config(config, ignored_keys);
  config.finish();
  EXPECT_TRUE(result);
  return result.value_or(QuantizationConfig{});
}

// `quantization` with one key changed, or erased by null.
void expect_refused(Json quantization, const std::string& pointer, const Json& value,
                    const std::string& message) {
  quantization[Json::json_pointer(pointer)] = value;
  expect_error([&] { read(quantization); }, "config.json: quantization_config: " + message);
}

const std::string kWeights = "/config_groups/group_0/weights";
const std::string kWeightsPlace = "config_groups 'group_0': weights: ";

TEST(QuantizationConfig, IsOptional) {
  EXPECT_FALSE(read_quantization_config(ConfigReader(Json::object(), "config.json")));
  EXPECT_FALSE(read_quantization_config(ConfigReader({{"quantization_config", nullptr}}, "config.json")));
}

TEST(QuantizationConfig, OfAnUnknownMethodIsRefused) {
  for (const auto& [method, got] : {std::pair<Json, const char*>{"bitsandbytes", "bitsandbytes"},
                                    std::pair<Json, const char*>{"auto-round", "auto-round"}}) {
    expect_refused(
        gptq(), "/quant_method", method,
        std::string("quant_method: expected one of: gptq, awq, fp8, compressed-tensors, got ") + got);
  }
  expect_refused(gptq(), "/quant_method", 3, "quant_method: expected a string, got 3");
  expect_refused(gptq(), "", "gptq", "expected a JSON object");
  expect_error([&] { read({{"bits", 4}}); }, "quant_method: expected a string, got no such key");
}

TEST(QuantizationConfig, UnknownKeysAreRefusedUnlessDeclaredHarmless) {
  for (Json quantization : {gptq(), awq(), fp8(), compressed()}) {
    EXPECT_NO_THROW(read(quantization));
    quantization["surprise"] = 1;
    expect_error([&] { read(quantization); },
                 "config.json: quantization_config: expected only keys that are understood, got unknown "
                 "'surprise'");
    EXPECT_NO_THROW(read(quantization, {"quantization_config.surprise"}));
  }
}

TEST(QuantizationConfig, Gptq) {
  const QuantizationConfig defaults = read(gptq());
  ASSERT_EQ(defaults.schemes.size(), 1u);
  EXPECT_EQ(defaults.schemes[0].format, MatrixFormat::kInt4Groups);
  EXPECT_EQ(defaults.schemes[0].cols_per_group, 128);
  EXPECT_TRUE(defaults.schemes[0].symmetric);
  EXPECT_FALSE(defaults.schemes[0].any_order);
  EXPECT_TRUE(defaults.zeros_less_one);

  Json all = gptq();
  all.update({{"bits", 8},
              {"group_size", -1},
              {"sym", false},
              {"desc_act", true},
              {"format", "GPTQ_V2"},
              {"pack_dtype", "int32"},
              {"is_marlin_format", false},
              {"meta", {{"uri", "x"}}},
              {"damp_percent", 0.1},
              {"lm_head", true},
              {"dynamic", {{"-:.*gate", Json::object()}, {"+:.*experts", {{"bits", 4}}}}}});
  const QuantizationConfig config = read(all);
  ASSERT_EQ(config.schemes.size(), 2u) << "a rule that keeps modules plain is no scheme";
  EXPECT_EQ(config.schemes[0].format, MatrixFormat::kInt8Groups);
  EXPECT_EQ(config.schemes[0].cols_per_group, 0);
  EXPECT_EQ(config.schemes[1].format, MatrixFormat::kInt4Groups);
  EXPECT_FALSE(config.schemes[1].symmetric) << "inherited";
  EXPECT_TRUE(config.schemes[1].any_order) << "inherited";
  EXPECT_FALSE(config.zeros_less_one);
}

TEST(QuantizationConfig, GptqThatIsRefused) {
  expect_error(
      [&] {
        read({{"quant_method", "gptq"}});
      },
      "bits: expected an integer in [1, 32], got no such");
  expect_refused(gptq(), "/bits", 3, "bits: expected 4 or 8 bits, got 3");
  expect_refused(gptq(), "/group_size", 0, "group_size: expected -1 or at least 1, got 0");
  expect_refused(gptq(), "/group_size", -2, "group_size: expected an integer in [-1, ");
  expect_refused(gptq(), "/checkpoint_format", "marlin",
                 "checkpoint_format: expected gptq or gptq_v2, got marlin");
  expect_refused(gptq(), "/pack_dtype", "int16",
                 "pack_dtype: expected \"int32\" (nothing else is supported)");
  expect_refused(gptq(), "/is_marlin_format", true, "is_marlin_format: expected false");
  expect_refused(gptq(), "/dynamic", 1, "dynamic: expected an object of less than 4096 rules, got 1");
  expect_refused(gptq(), "/dynamic", {{"+:a", {{"bits", 2}}}},
                 "dynamic '+:a': bits: expected 4 or 8 bits, got 2");
  expect_refused(gptq(), "/dynamic", {{"+:a", {{"rotation", 2}}}},
                 "dynamic '+:a': expected only keys that are understood, got unknown 'rotation'");
  Json both = gptq();
  both["format"] = "gptq";
  expect_refused(both, "/checkpoint_format", "gptq_v2",
                 "format: expected 'gptq_v2', as checkpoint_format says");
}

TEST(QuantizationConfig, Awq) {
  Json json = awq();
  json.update({{"version", "GEMM"}, {"group_size", 64}, {"modules_to_not_convert", {"gate"}}});
  const QuantizationConfig config = read(json);
  ASSERT_EQ(config.schemes.size(), 1u);
  EXPECT_EQ(config.schemes[0].cols_per_group, 64);
  EXPECT_FALSE(config.schemes[0].symmetric);
  expect_refused(awq(), "/version", "gemv",
                 "version: expected gemm (no other layout is supported), got gemv");
  expect_refused(awq(), "/bits", 8, "bits: expected 4 bits, got 8");
  expect_refused(awq(), "/zero_point", false, "zero_point: expected true");
  expect_refused(awq(), "/backend", "llm-awq", "backend: expected a layout of version gemm, got llm-awq");
}

TEST(QuantizationConfig, Fp8) {
  Json json = fp8();
  json.update({{"fmt", "e4m3"},
               {"activation_scheme", "dynamic"},
               {"scale_fmt", "ue8m0"},
               {"modules_to_not_convert", {"lm_head"}}});
  const QuantizationConfig config = read(json);
  ASSERT_EQ(config.schemes.size(), 1u);
  EXPECT_EQ(config.schemes[0].rows_per_group, 128);
  EXPECT_EQ(config.schemes[0].cols_per_group, 64);
  expect_refused(fp8(), "/activation_scheme", "static",
                 "activation_scheme: expected dynamic (fixed scales clip activations), got static");
  expect_refused(fp8(), "/fmt", "e5m2", "fmt: expected \"e4m3\"");
  expect_refused(fp8(), "/expert_dtype", "fp4", "expert_dtype: expected \"fp8\"");
  expect_refused(fp8(), "/scale_fmt", "int", "scale_fmt: expected float or ue8m0, got int");
  expect_refused(fp8(), "/weight_block_size", nullptr,
                 "weight_block_size: expected rows and columns of a block, got none");
  expect_refused(fp8(), "/weight_block_size", {128},
                 "weight_block_size: expected rows and columns of a block");
  expect_refused(fp8(), "/weight_block_size", {0, 128}, "weight_block_size: expected an integer in [1,");
}

TEST(QuantizationConfig, CompressedTensors) {
  Json json = compressed();
  json["config_groups"]["group_1"] = {
      {"targets", {"re:.*experts.*"}},
      {"format", "float-quantized"},
      {"input_activations", {{"dynamic", true}, {"num_bits", 8}}},
      {"weights", {{"type", "float"}, {"strategy", "block"}, {"block_structure", {16, 8}}}}};
  json.update({{"kv_cache_scheme", nullptr},
               {"ignore", {"lm_head"}},
               {"quantization_status", "compressed"},
               {"sparsity_config", Json::object()},
               {"transform_config", Json::object()}});
  const QuantizationConfig config = read(json);
  ASSERT_EQ(config.schemes.size(), 2u);
  EXPECT_EQ(config.schemes[0].format, MatrixFormat::kInt4Groups);
  EXPECT_EQ(config.schemes[0].cols_per_group, 32);
  EXPECT_EQ(config.schemes[1].format, MatrixFormat::kF8E4M3Groups);
  EXPECT_EQ(config.schemes[1].rows_per_group, 16);
  EXPECT_EQ(config.schemes[1].cols_per_group, 8);
}

TEST(QuantizationConfig, CompressedTensorsThatIsRefused) {
  const std::string group = "config_groups 'group_0': ";
  for (const char* format : {"int-quantized", "marlin-24", "nvfp4-pack-quantized", "mxfp4-pack-quantized"}) {
    expect_refused(compressed(), "/format", format,
                   group + "format: expected pack-quantized or float-quantized, got " + format);
  }
  expect_refused(compressed(), "/kv_cache_scheme", {{"num_bits", 8}}, "kv_cache_scheme: expected null");
  expect_refused(compressed(), "/sparsity_config", {{"format", "dense"}}, "sparsity_config: expected {}");
  expect_refused(compressed(), "/transform_config", {{"R1", 1}}, "transform_config: expected {}");
  expect_refused(compressed(), "/config_groups", Json::object(), "config_groups: expected an object of 1 to");
  expect_refused(compressed(), "/config_groups", {{"W4A16", {"Linear"}}},
                 "config_groups 'W4A16': expected a JSON object");
  expect_refused(compressed(), "/config_groups/group_0/weights", nullptr, group + "weights: expected how");
  expect_refused(compressed(), "/config_groups/group_0/surprise", 1, group + "expected only keys that are");
  expect_refused(compressed(), "/config_groups/group_0/input_activations", {{"dynamic", false}},
                 group + "input_activations: expected null, or dynamic true (fixed scales clip activations)");
  expect_refused(compressed(), "/config_groups/group_0/output_activations", {{"dynamic", true}},
                 group + "output_activations: expected null");
  expect_refused(compressed(), kWeights + "/num_bits", 3, kWeightsPlace + "num_bits: expected 4 or 8 bits");
  expect_refused(compressed(), kWeights + "/type", "float", kWeightsPlace + "type: expected \"int\"");
  expect_refused(compressed(), kWeights + "/dynamic", true, kWeightsPlace + "dynamic: expected false");
  expect_refused(compressed(), kWeights + "/surprise", 1, kWeightsPlace + "expected only keys that are");
  expect_refused(compressed(), kWeights + "/group_size", nullptr,
                 kWeightsPlace + "group_size: expected a size with strategy group, got none");
  expect_refused(compressed(), kWeights + "/strategy", "channel",
                 kWeightsPlace + "group_size: expected none with strategy channel, got 32");
  expect_refused(compressed(), kWeights + "/strategy", "tensor_group",
                 kWeightsPlace + "group_size: expected");
  expect_refused(compressed(), kWeights + "/block_structure", {16, 8},
                 kWeightsPlace + "block_structure: expected none with strategy group");
  expect_refused(compressed(), kWeights + "/actorder", "sideways",
                 kWeightsPlace + "actorder: expected null, weight or group, got \"sideways\"");
}

TEST(QuantizationConfig, ActivationOrderIsGroupOrWeight) {
  for (const auto& [order, any_order] :
       {std::pair<Json, bool>{nullptr, false}, std::pair<Json, bool>{false, false},
        std::pair<Json, bool>{"weight", false}, std::pair<Json, bool>{"static", false},
        std::pair<Json, bool>{true, true}, std::pair<Json, bool>{"group", true}}) {
    Json json = compressed();
    json["config_groups"]["group_0"]["weights"]["actorder"] = order;
    EXPECT_EQ(read(json).schemes[0].any_order, any_order) << order;
  }
}

}  // namespace
}  // namespace switchyard
