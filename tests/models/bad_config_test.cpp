// What a config.json must not say: every refusal names the file, the key, what was expected and what came.
#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "support/editable_checkpoint.h"
#include "support/expect_error.h"
#include "support/golden.h"

namespace switchyard {
namespace {

// An edit of the config of the golden case qwen2_moe (3 layers, 4 heads of 8, 8 experts, 4 per token) and
// the message that it must give after the file's path.
struct BadConfig {
  std::string name;
  Json edit;  // merged into the config; null removes a key
  std::string message;
};

void PrintTo(const BadConfig& c, std::ostream* out) {
  *out << c.edit.dump();
}

std::vector<BadConfig> bad_configs() {
  return {
      {"ArchitectureOfAnotherClass",
       {{"architectures", {"MixtralForCausalLM"}}},
       "key 'architectures': expected Qwen2MoeForCausalLM for model_type qwen2_moe, got MixtralForCausalLM"},
      {"UnknownModelType",
       {{"model_type", "qwen9_moe"}},
       "key 'model_type': expected one of: qwen2_moe, qwen3_moe, mixtral, olmoe, deepseek, deepseek_v2, "
       "deepseek_v3, qwen2, qwen3, llama, mistral, got qwen9_moe"},
      {"NoModelType", {{"model_type", nullptr}}, "model_type"},
      {"NoHiddenSize", {{"hidden_size", nullptr}}, "hidden_size"},
      {"NoExperts", {{"num_experts", nullptr}}, "num_experts"},
      {"UnknownKey",
       {{"attention_sink", 4}},
       "expected only keys that are understood, got unknown 'attention_sink'"},
      {"MisspeltKey",
       {{"norm_topk_probs", true}},
       "unknown 'norm_topk_probs' (did you mean 'norm_topk_prob'?)"},
      {"Gelu", {{"hidden_act", "gelu"}}, "key 'hidden_act': expected silu, got gelu"},
      {"PartialRotation",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}, {"partial_rotary_factor", 0.5}}}},
       "rope_scaling.partial_rotary_factor: expected 1: this family rotates whole heads, got 0.5"},
      {"LongropeOfOtherHeads",
       {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {1, 2}}}}},
       "rope_scaling.short_factor: expected 4 numbers, one for each pair, got 2"},
      {"TooFewLayerTypes",
       {{"layer_types", {"full_attention", "full_attention"}}},
       "key 'layer_types': expected one type for each of 3 layers, got 2"},
      {"UnknownLayerType",
       {{"layer_types", {"full_attention", "linear_attention", "full_attention"}}},
       "key 'layer_types', layer 1: expected full_attention or sliding_attention, got linear_attention"},
      {"SlidingWithoutWindow",
       {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
        {"use_sliding_window", true},
        {"sliding_window", 0}},
       "key 'sliding_window': expected a window for layer 1, which is a sliding_attention layer, got none"},
      {"SlidingButNotUsed",
       {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}, {"sliding_window", 8}},
       "key 'sliding_window': expected a window for layer 1, which is a sliding_attention layer, got none, "
       "or "
       "use_sliding_window false"},
      {"HugeHeads",
       {{"head_dim", 1 << 17}},
       "key 'head_dim': expected at most 65536 for 4 heads, got 131072"},
      {"KeyHeadsDoNotDivideHeads",
       {{"num_key_value_heads", 3}},
       "key 'num_key_value_heads': expected a divisor of 4 heads, got 3"},
      {"HeadsDoNotDivideHidden",
       {{"num_attention_heads", 6}, {"num_key_value_heads", 6}},
       "key 'num_attention_heads': expected a divisor of hidden_size 32, got 6"},
      {"OddHeadDimension",
       {{"head_dim", 7}},
       "head dimension: expected an even number, for rotary positions, got 7"},
      {"MoreExpertsPerTokenThanExperts", {{"num_experts_per_tok", 9}}, "num_experts_per_tok"},
      {"NoExpertPerToken", {{"num_experts_per_tok", 0}}, "num_experts_per_tok"},
      {"TooManyExperts", {{"num_experts", 1025}}, "num_experts"},
      {"MlpOnlyLayerOutOfRange", {{"mlp_only_layers", {0, 3}}}, "mlp_only_layers"},
      {"NegativeMlpOnlyLayer", {{"mlp_only_layers", {-1}}}, "mlp_only_layers"},
      {"FractionalLayers", {{"num_hidden_layers", 2.5}}, "num_hidden_layers"},
      {"NoLayers", {{"num_hidden_layers", 0}}, "num_hidden_layers"},
      {"HugeVocabulary", {{"vocab_size", int64_t{1} << 40}}, "vocab_size"},
      {"NegativeEpsilon", {{"rms_norm_eps", -1e-6}}, "rms_norm_eps"},
  };
}

class BadConfigTest : public testing::TestWithParam<BadConfig> {};
INSTANTIATE_TEST_SUITE_P(All, BadConfigTest, testing::ValuesIn(bad_configs()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(BadConfigTest, IsRefused) {
  EditableCheckpoint checkpoint(golden_root() + "qwen2_moe");
  checkpoint.config.merge_patch(GetParam().edit);
  ReferenceBackend backend;
  expect_error([&] { checkpoint.load(backend); }, checkpoint.config_path() + ": ");
  expect_error([&] { checkpoint.load(backend); }, GetParam().message);
}

TEST(ConfigKeys, OneThatTheUserDeclaresHarmlessIsIgnored) {
  EditableCheckpoint checkpoint(golden_root() + "qwen2_moe");
  checkpoint.config["attention_sink"] = 4;
  ReferenceBackend backend;
  EXPECT_NE(checkpoint.load(backend, {.ignored_keys = {"attention_sink"}}), nullptr);
  checkpoint.config["another"] = 5;
  expect_error([&] { checkpoint.load(backend, {.ignored_keys = {"attention_sink"}}); }, "unknown 'another'");
}

TEST(ConfigKeys, WhatTransformersDefaultsMayBeAbsent) {
  EditableCheckpoint checkpoint(golden_root() + "qwen2_moe");
  for (const char* key : {"decoder_sparse_step", "mlp_only_layers", "norm_topk_prob", "qkv_bias",
                          "rms_norm_eps", "tie_word_embeddings", "use_sliding_window", "max_window_layers"}) {
    checkpoint.config.erase(key);
  }
  ReferenceBackend backend;
  const std::unique_ptr<Model> model = checkpoint.load(backend);
  for (const LayerShape& layer : model->shape().layers) {
    EXPECT_EQ(layer.window, 0);
    EXPECT_EQ(layer.experts, 8);
  }
}

}  // namespace
}  // namespace switchyard
