// The configurations in the repository, read with the keys of transformers' Qwen2MoeConfig: every key is
// understood, in the dialect of transformers 4 and in that of transformers 5.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/config_reader.h"
#include "io/generation_config.h"
#include "io/rope_config.h"

namespace switchyard {
namespace {

constexpr int64_t kMax = 1 << 24;

struct Expected {
  const char* folder;
  int64_t layers;
  int64_t vocab_size;
  DType dtype;
  std::vector<int32_t> eos_token_ids;
};

class GoldenConfig : public testing::TestWithParam<Expected> {};

TEST_P(GoldenConfig, IsUnderstood) {
  const std::string folder = std::string(SWITCHYARD_SOURCE_DIR "/") + GetParam().folder;
  const ConfigReader config = ConfigReader::open(folder + "/config.json");
  EXPECT_EQ(config.model_type(), "qwen2_moe");
  EXPECT_EQ(config.architecture(), "Qwen2MoeForCausalLM");
  EXPECT_EQ(config.required_int("num_hidden_layers", 1, kMax), GetParam().layers);
  const int64_t vocab_size = config.required_int("vocab_size", 1, kMax);
  EXPECT_EQ(vocab_size, GetParam().vocab_size);
  for (const char* key :
       {"hidden_size", "intermediate_size", "max_position_embeddings", "moe_intermediate_size",
        "num_attention_heads", "num_experts", "num_experts_per_tok", "shared_expert_intermediate_size",
        "decoder_sparse_step", "max_window_layers"}) {
    EXPECT_GT(config.required_int(key, 1, kMax), 0) << key;
  }
  EXPECT_TRUE(config.optional_int("num_key_value_heads", 1, kMax).has_value());
  EXPECT_EQ(config.optional_int("sliding_window", 0, kMax), 0);
  EXPECT_EQ(config.number_or("rms_norm_eps", 0, 0, 1), 1e-6);
  EXPECT_EQ(config.required_string("hidden_act"), "silu");
  for (const char* key : {"norm_topk_prob", "qkv_bias", "tie_word_embeddings", "use_sliding_window"}) {
    EXPECT_TRUE(config.find(key) != nullptr && config.find(key)->is_boolean()) << key;
  }
  config.optional_int_list("mlp_only_layers", 0, kMax);
  config.optional_string_list("layer_types");
  EXPECT_EQ(config.dtype(), GetParam().dtype);
  const RopeConfig rope = read_rope_config(config, 10000);
  EXPECT_EQ(rope.type, "default");
  EXPECT_EQ(rope.theta, 1e6);
  EXPECT_NO_THROW(config.finish());

  const GenerationConfig generation = read_generation_config(folder, config, vocab_size);
  EXPECT_EQ(generation.eos_token_ids, GetParam().eos_token_ids);
  EXPECT_EQ(generation.pad_token_id, 0);
  EXPECT_THAT(generation.unsupported, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Folders, GoldenConfig,
    testing::Values(Expected{"tests/data/golden/qwen2_moe", 3, 160, DType::kF32, {2}},
                    Expected{"tests/data/golden/qwen2_moe_bf16_sharded", 3, 160, DType::kBF16, {2}},
                    Expected{"tests/data/golden/qwen2_moe_top2_norm_sparse_step", 5, 160, DType::kF32, {2}},
                    Expected{"models/tiny-qwen2-moe", 6, 4096, DType::kBF16, {2, 0}}));

}  // namespace
}  // namespace switchyard
