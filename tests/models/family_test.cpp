// What families accept beside the plain layout, and what they refuse of configs that only they have.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/editable_checkpoint.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

// Puts the experts' matrices of a layer into experts.gate_up_proj [E, 2F, D] and experts.down_proj [E, D, F],
// as transformers 5 keeps them in memory.
void fuse_experts(EditableCheckpoint& checkpoint, const std::string& mlp, int64_t experts) {
  EditableTensor gate_up, down;
  for (int64_t e = 0; e < experts; ++e) {
    const auto take = [&](const char* leaf, EditableTensor& into) {
      const auto found = checkpoint.tensors.extract(fmt::format("{}experts.{}.{}.weight", mlp, e, leaf));
      ASSERT_FALSE(found.empty()) << mlp << e << leaf;
      const EditableTensor& tensor = found.mapped();
      into.dtype = tensor.dtype;
      into.shape = {experts, tensor.shape[0], tensor.shape[1]};
      into.bytes.insert(into.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    };
    take("gate_proj", gate_up);
    take("up_proj", gate_up);
    take("down_proj", down);
  }
  gate_up.shape[1] *= 2;
  checkpoint.tensors[mlp + "experts.gate_up_proj"] = gate_up;
  checkpoint.tensors[mlp + "experts.down_proj"] = down;
}

class FusedExperts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, FusedExperts,
                         testing::Values("qwen2_moe_60_experts", "qwen3_moe", "olmoe", "deepseek_v3"));

TEST_P(FusedExperts, AreTheSameModel) {
  const std::string folder = golden_root() + GetParam();
  const auto sequences = sequences_of(read_reference(folder + "/reference.safetensors").at("input_ids"));
  CpuBackend backend;
  const auto split = load_model(folder, backend);
  EditableCheckpoint checkpoint(folder);
  for (int64_t i = 0; i < split->shape().layer_count(); ++i) {
    const int64_t experts = split->shape().layers[static_cast<size_t>(i)].experts;
    if (experts > 0) fuse_experts(checkpoint, fmt::format("model.layers.{}.mlp.", i), experts);
  }
  const auto fused = checkpoint.load(backend);
  EXPECT_EQ(all_logits(backend, *fused, sequences), all_logits(backend, *split, sequences));
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (!name.ends_with("gate_up_proj")) continue;
    tensor.shape[0] /= 2;
    tensor.shape[1] *= 2;
  }
  expect_error([&] { checkpoint.load(backend); }, "experts.gate_up_proj': expected shape [");
}

class MultiTokenPrediction : public testing::Test {
 protected:
  CpuBackend backend_;
  EditableCheckpoint checkpoint_{golden_root() + "deepseek_v3"};  // three layers
  EditableTensor any_ = checkpoint_.tensors.at("model.norm.weight");
};

TEST_F(MultiTokenPrediction, IsRecognisedAndReportedAsUnused) {
  checkpoint_.tensors["model.layers.3.eh_proj.weight"] = any_;
  checkpoint_.tensors["model.layers.3.shared_head.norm.weight"] = any_;
  std::vector<std::string> notes;
  checkpoint_.load(backend_, {.on_note = [&](const std::string& note) { notes.push_back(note); }});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("2 tensors model.layers.3.* "), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find("multi-token prediction, which is not used"), std::string::npos) << notes[0];
}

TEST_F(MultiTokenPrediction, HasAsManyLayersAsTheConfigSays) {
  checkpoint_.tensors["model.layers.4.eh_proj.weight"] = any_;
  expect_error([&] { checkpoint_.load(backend_); }, "tensor 'model.layers.4.eh_proj.weight': expected only");
  checkpoint_.config["num_nextn_predict_layers"] = 2;
  EXPECT_NE(checkpoint_.load(backend_), nullptr);
}

// The selection bias decides between near scores: a bfloat16 file gives it as float32 numbers.
TEST(SelectionBias, IsReadInAnyFloatType) {
  CpuBackend backend;
  EditableCheckpoint checkpoint(golden_root() + "deepseek_v3");
  const auto sequences =
      sequences_of(read_reference(golden_root() + "deepseek_v3/reference.safetensors").at("input_ids"));
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (!name.ends_with("e_score_correction_bias")) continue;
    for (size_t i = 0; i < tensor.bytes.size(); i += 4)
      tensor.bytes[i] = tensor.bytes[i + 1] = std::byte{0};  // cut to bfloat16
  }
  const std::vector<float> want = all_logits(backend, *checkpoint.load(backend), sequences);
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (!name.ends_with("e_score_correction_bias")) continue;
    std::vector<std::byte> halves;
    for (size_t i = 0; i < tensor.bytes.size(); i += 4)
      halves.insert(halves.end(), {tensor.bytes[i + 2], tensor.bytes[i + 3]});
    tensor.bytes = halves;
    tensor.dtype = DType::kBF16;
  }
  EXPECT_EQ(all_logits(backend, *checkpoint.load(backend), sequences), want);
}

struct BadFamilyConfig {
  const char* name;
  const char* golden_case;
  Json edit;
  const char* message;
};

std::vector<BadFamilyConfig> bad_family_configs() {
  return {
      {"TwoNumbersOfExperts", "mixtral", {{"num_experts", 4}}, "key 'num_experts': expected 8"},
      {"ClippedAttention", "olmoe", {{"clip_qkv", 8.0}}, "key 'clip_qkv': expected null"},
      {"ZeroWindow", "mistral", {{"sliding_window", 0}}, "sliding_window: expected an integer in [1, "},
      {"OtherMethod",
       "deepseek_v2_groups",
       {{"topk_method", "noaux_tc"}},
       "key 'topk_method': expected greedy or group_limited_greedy, got noaux_tc"},
      {"RenormalisedV2",
       "deepseek_v2_lite",
       {{"norm_topk_prob", true}},
       "key 'norm_topk_prob': expected false"},
      {"GroupsThatDoNotDivide",
       "deepseek_v2_groups",
       {{"n_group", 5}},
       "key 'n_group': expected a divisor of 12"},
      {"TooFewExpertsInTheGroups",
       "deepseek_v2_groups",
       {{"topk_group", 1}},
       "key 'topk_group': expected at most 4 groups, with at least 4 experts in them, got 1"},
      {"SoftmaxV3", "deepseek_v3", {{"scoring_func", "softmax"}}, "key 'scoring_func': expected \"sigmoid\""},
      {"SparseEverySecondLayer",
       "deepseek_moe_v1",
       {{"moe_layer_freq", 2}},
       "key 'moe_layer_freq': expected 1"},
      {"ManySharedExperts", "deepseek_v3", {{"n_shared_experts", 100000}}, "n_shared_experts: expected"},
      {"OddRotaryKey",
       "deepseek_v3",
       {{"qk_rope_head_dim", 7}, {"qk_head_dim", 19}},
       "key 'qk_rope_head_dim': expected an even number, got 7"},
      {"KeyOfAnotherWidth", "deepseek_v3", {{"qk_head_dim", 21}}, "key 'qk_head_dim': expected 20"},
      {"AnotherClass",
       "qwen3_dense",
       {{"architectures", {"Qwen2ForCausalLM"}}},
       "key 'architectures': expected Qwen3ForCausalLM"},
  };
}

class BadFamily : public testing::TestWithParam<BadFamilyConfig> {};
INSTANTIATE_TEST_SUITE_P(All, BadFamily, testing::ValuesIn(bad_family_configs()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(BadFamily, IsRefused) {
  Json json = ConfigReader::open(golden_root() + GetParam().golden_case + "/config.json").json();
  json.merge_patch(GetParam().edit);
  CpuBackend backend;
  DeclaredWeights weights(DType::kF32);
  expect_error([&] { make_model(ConfigReader(json, "config.json"), weights, backend); }, GetParam().message);
}

// Absent keys read as transformers' classes have them, which is not always what the key suggests.
TEST(FamilyDefaults, AreThoseOfTransformers) {
  const auto shape_without = [](const char* golden_case, std::initializer_list<const char*> keys) {
    Json json = ConfigReader::open(golden_root() + golden_case + "/config.json").json();
    for (const char* key : keys)
      json.erase(key);
    CpuBackend backend;
    DeclaredWeights weights(DType::kF32);
    return make_model(ConfigReader(json, "config.json"), weights, backend)->shape();
  };
  EXPECT_EQ(shape_without("mistral", {"sliding_window"}).layers[0].window, 4096);
  EXPECT_EQ(shape_without("mixtral", {"sliding_window"}).layers[0].window, 0);
  EXPECT_EQ(shape_without("qwen3_dense", {"head_dim"}).head_dim, 128);
  EXPECT_EQ(shape_without("qwen3_moe", {"head_dim"}).head_dim, 8);
  EXPECT_EQ(shape_without("llama_dense", {"num_key_value_heads"}).kv_heads, 4);
  EXPECT_FALSE(shape_without("llama_bias", {"tie_word_embeddings"}).tied_embeddings);
}

}  // namespace
}  // namespace switchyard
