#include "io/gguf_config.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "io/gguf_names.h"
#include "support/expect_error.h"
#include "support/gguf_bytes.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

std::string number(uint32_t value) {
  return gguf_number<uint32_t>(4) + gguf_number(value);
}
std::string real(float value) {
  return gguf_number<uint32_t>(6) + gguf_number(value);
}
std::string text(const std::string& value) {
  return gguf_number<uint32_t>(8) + gguf_string(value);
}

// Metadata by key, each value with its type; "." at the front of a key stands for the architecture.
using Pairs = std::map<std::string, std::string>;

struct File {
  std::string architecture = "llama";
  Pairs pairs = {};
  std::vector<float> factors = {};  // of rope_freqs.weight

  // The smallest metadata that config.json can be made of, and the pairs over it.
  Json config() const {
    Pairs all = {{"general.architecture", text(architecture)},
                 {".block_count", number(2)},
                 {".context_length", number(64)},
                 {".embedding_length", number(32)},
                 {".feed_forward_length", number(48)},
                 {".attention.head_count", number(4)}};
    for (const auto& [key, value] : pairs)
      all[key] = value;
    std::vector<std::string> bytes;
    for (const auto& [key, value] : all) {
      if (value.empty()) continue;
      bytes.push_back(gguf_string(key.front() == '.' ? architecture + key : key) + value);
    }
    std::vector<std::string> tensors = {gguf_tensor("token_embd.weight", {1, 8}, 0, 0)};
    if (!factors.empty()) tensors.push_back(gguf_tensor("rope_freqs.weight", {factors.size()}, 0, 32));
    std::string file = gguf_bytes(bytes, tensors, 32);
    for (const float factor : factors)
      file += gguf_number(factor);
    const TempFolder folder;
    return gguf_config(*GgufFile::open(folder.write("m.gguf", file)));
  }

  void expect_refused(const std::string& part) const {
    expect_error([&] { config(); }, "m.gguf: " + part);
  }
};

TEST(GgufConfig, StatesShapesInTheOtherDialect) {
  EXPECT_EQ(File{}.config(),
            Json::parse(R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": null,
      "vocab_size": 8, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false})"));
}

TEST(GgufConfig, RefusesWhatItDoesNotKnow) {
  File{.architecture = "mamba"}.expect_refused(
      "key 'general.architecture': expected one of: llama, qwen2, qwen2moe");
  File{.pairs = {{"general.architecture", number(1)}}}.expect_refused(
      "key 'general.architecture': expected a string");
  File{.pairs = {{"general.type", text("adapter")}}}.expect_refused("key 'general.type': expected a model");
  File{.pairs = {{"split.count", number(3)}}}.expect_refused(
      "key 'split.count': expected a model in one file");
  File{.pairs = {{".attention.clamp_kqv", real(8)}}}.expect_refused(
      "llama: key 'attention.clamp_kqv': expected a known key, since others may change results");
  File{.pairs = {{".block_count", ""}}}.expect_refused(
      "llama: block_count: expected an integer in [1, 2147483648], got no such key");
  File{.pairs = {{".block_count", number(70000)}}}.expect_refused(
      "llama: key 'block_count': expected at most 65536");
  File{.pairs = {{".vocab_size", number(9)}}}.expect_refused(
      "llama: key 'vocab_size': expected 8, the rows of token_embd.weight, got 9");
  File{.pairs = {{".rope.dimension_count", number(4)}}}.expect_refused(
      "llama: key 'rope.dimension_count': expected 8, the width of a head, got 4");
  File{.pairs = {{".attention.value_length", number(4)}}}.expect_refused(
      "llama: key 'attention.value_length'");
  File{.pairs = {{".attention.causal", gguf_number<uint32_t>(7) + std::string(1, '\0')}}}.expect_refused(
      "llama: key 'attention.causal': expected true, got false");
  File{.pairs = {{".expert_count", number(8)},
                 {".expert_used_count", number(2)},
                 {".expert_gating_func", number(2)}}}
      .expect_refused("llama: key 'expert_gating_func': expected 1, softmax, got 2");
}

TEST(GgufConfig, StatesRopeScaling) {
  const auto scaling = [](const Pairs& pairs) { return File{.pairs = pairs}.config()["rope_scaling"]; };
  EXPECT_EQ(scaling({{".rope.scaling.type", text("none")}}), Json());
  EXPECT_EQ(scaling({{".rope.scale_linear", real(4)}}),
            Json::parse(R"({"rope_type": "linear", "factor": 4.0})"));
  EXPECT_EQ(scaling({{".rope.scaling.type", text("linear")}, {".rope.scaling.factor", real(2)}}),
            Json::parse(R"({"rope_type": "linear", "factor": 2.0})"));
  EXPECT_EQ(scaling({{".rope.scaling.type", text("yarn")},
                     {".rope.scaling.factor", real(4)},
                     {".rope.scaling.original_context_length", number(16)},
                     {".rope.scaling.finetuned", gguf_number<uint32_t>(7) + "\1"}}),
            Json::parse(R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})"));
  File{.pairs = {{".rope.scaling.type", text("longrope")}}}.expect_refused(
      "llama: key 'rope.scaling.type': expected none, linear or yarn, got longrope");
  File{.pairs = {{".rope.scaling.attn_factor", real(2)}}}.expect_refused(
      "llama: key 'rope.scaling.attn_factor'");
}

// The file keeps one factor for each frequency, config.json the rule.
TEST(GgufConfig, RecognisesTheFactorsOfLlama3) {
  const Pairs theta = {{".rope.freq_base", real(500000)}};
  std::vector<float> factors;
  for (int i = 0; i < 4; ++i) {
    const double turns = 8192 * std::pow(500000.0, -i / 4.0) / (2 * M_PI);
    const double smooth = std::min(1.0, std::max(0.0, (turns - 1) / 3));
    factors.push_back(static_cast<float>(1 / ((1 - smooth) / 8 + smooth)));
  }
  EXPECT_EQ(
      (File{.pairs = theta, .factors = factors}.config()["rope_scaling"]),
      Json::parse(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 8192})"));
  EXPECT_EQ((File{.factors = {1, 1, 1, 1}}.config()["rope_scaling"]), Json());
  factors[1] = 2;
  File{.pairs = theta, .factors = factors}.expect_refused(
      "tensor 'rope_freqs.weight': expected factors of rope type llama3, got 2 for frequency 1 instead of 1");
  File{.pairs = {{".rope.scaling.type", text("yarn")}}, .factors = factors}.expect_refused(
      "tensor 'rope_freqs.weight': expected none with scaling type yarn");
}

Pairs deepseek2(const Pairs& more) {
  Pairs pairs = {{".expert_count", number(8)},
                 {".expert_used_count", number(2)},
                 {".expert_shared_count", number(1)},
                 {".expert_feed_forward_length", number(16)},
                 {".attention.kv_lora_rank", number(24)},
                 {".rope.dimension_count", number(8)},
                 {".attention.key_length", number(20)},
                 {".attention.value_length", number(10)}};
  for (const auto& [key, value] : more)
    pairs[key] = value;
  return pairs;
}

TEST(GgufConfig, TellsDeepseekVersionsApart) {
  const auto config = [](const Pairs& more) {
    return File{.architecture = "deepseek2", .pairs = deepseek2(more)}.config();
  };
  const Json v2 = config({});
  EXPECT_EQ(v2["model_type"], "deepseek_v2");
  EXPECT_EQ(v2["topk_method"], "greedy");
  EXPECT_EQ(v2["qk_nope_head_dim"], 12);
  EXPECT_EQ(v2["q_lora_rank"], Json());
  const Json v3 = config({{".expert_gating_func", number(2)}, {".expert_group_count", number(4)}});
  EXPECT_EQ(v3["model_type"], "deepseek_v3");
  EXPECT_EQ(v3["n_group"], 4);
  const auto expect_refused = [](const Pairs& more, const std::string& part) {
    File{.architecture = "deepseek2", .pairs = deepseek2(more)}.expect_refused("deepseek2: key " + part);
  };
  expect_refused({{".expert_count", number(160)}},
                 "'expert_group_count': expected the number of groups of 160");
  expect_refused({{".expert_gating_func", number(3)}},
                 "'expert_gating_func': expected 1 (softmax) or 2 (sigmoid)");
  expect_refused({{".rope.scaling.type", text("yarn")}},
                 "'rope.scaling.yarn_log_multiplier': expected a number");
  expect_refused({{".attention.key_length_mla", number(20)}, {".attention.key_length", number(31)}},
                 "'attention.key_length': expected 32, the width of latent and position, got 31");
}

TEST(GgufNames, FollowTheNamesOfCheckpoints) {
  const auto tensor = [](const char* name) {
    return gguf_name(name).value_or(GgufName{"none", -1, ""}).tensor;
  };
  EXPECT_EQ(tensor("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(tensor("lm_head.weight"), "output.weight");
  EXPECT_EQ(tensor("model.layers.12.self_attn.q_proj.bias"), "blk.12.attn_q.bias");
  EXPECT_EQ(tensor("model.layers.3.mlp.gate.e_score_correction_bias"), "blk.3.exp_probs_b.bias");
  const auto expert = gguf_name("model.layers.3.mlp.experts.5.gate_proj.weight");
  ASSERT_TRUE(expert);
  EXPECT_EQ(expert->tensor, "blk.3.ffn_gate_exps.weight");
  EXPECT_EQ(expert->expert, 5);
  EXPECT_EQ(expert->own_tensor, "blk.3.ffn_gate.5.weight");
  EXPECT_EQ(tensor("model.layers.0.block_sparse_moe.experts.1.w3.weight"), "blk.0.ffn_up_exps.weight");
  for (const char* name :
       {"", "model", "model.layers.x.mlp.gate.weight", "model.layers.1.mlp.experts.gate_up_proj",
        "model.layers.1.mlp.experts.2.bias", "model.layers.-1.mlp.gate.weight"}) {
    EXPECT_EQ(tensor(name), "none") << name;
  }
}

}  // namespace
}  // namespace switchyard
