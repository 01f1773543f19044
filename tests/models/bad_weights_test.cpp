// Weights that do not fit the config, and weights that are not numbers.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "engine/trace.h"
#include "support/editable_checkpoint.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

class BadWeights : public testing::Test {
 protected:
  void expect_refused(const std::string& where, const std::string& message) {
    expect_error([&] { checkpoint_.load(backend_); }, where + ": " + message);
  }

  ReferenceBackend backend_;
  EditableCheckpoint checkpoint_{golden_root() + "qwen2_moe_60_experts"};
};

const std::string kExpert = "model.layers.1.mlp.experts.";

TEST_F(BadWeights, MoreExpertsInTheConfigThanInTheFile) {
  checkpoint_.config["num_experts"] = 64;
  expect_refused(
      checkpoint_.weights_path(),
      "tensor 'model.layers.0.mlp.gate.weight': expected shape [64, 32] by the config, got [60, 32]");
}

TEST_F(BadWeights, MoreExpertsInTheFileThanInTheConfig) {
  for (int e = 60; e < 64; ++e) {
    for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
      checkpoint_.tensors[fmt::format("{}{}.{}.weight", kExpert, e, leaf)] =
          checkpoint_.tensors.at(fmt::format("{}0.{}.weight", kExpert, leaf));
    }
  }
  expect_refused(checkpoint_.weights_path(),
                 "tensor '" + kExpert +
                     "60.down_proj.weight': expected only tensors that the config implies, "
                     "got one that the model has no use for");
}

TEST_F(BadWeights, AMissingTensor) {
  checkpoint_.tensors.erase(kExpert + "59.up_proj.weight");
  expect_refused(checkpoint_.folder(), "tensor '" + kExpert +
                                           "59.up_proj.weight': expected shape [8, 32] by "
                                           "the config, got no such tensor in the checkpoint");
}

TEST_F(BadWeights, ALeftoverTensor) {
  checkpoint_.tensors["model.layers.2.input_layernorm.weight"] = checkpoint_.tensors.at("model.norm.weight");
  expect_refused(checkpoint_.weights_path(),
                 "tensor 'model.layers.2.input_layernorm.weight': expected only "
                 "tensors that the config implies");
}

TEST_F(BadWeights, AWrongShape) {
  auto& shape = checkpoint_.tensors.at(kExpert + "3.down_proj.weight").shape;
  std::swap(shape[0], shape[1]);
  expect_refused(
      checkpoint_.weights_path(),
      "tensor '" + kExpert + "3.down_proj.weight': expected shape [32, 8] by the config, got [8, 32]");
}

TEST_F(BadWeights, AnotherRank) {
  checkpoint_.tensors.at("model.norm.weight").shape = {32, 1};
  expect_refused(checkpoint_.weights_path(),
                 "tensor 'model.norm.weight': expected shape [32] by the config, got [32, 1]");
}

TEST_F(BadWeights, AnIntegerType) {
  EditableTensor& tensor = checkpoint_.tensors.at(kExpert + "3.down_proj.weight");
  ASSERT_EQ(size_bytes(tensor.dtype), 2);
  tensor.dtype = DType::kI16;
  expect_refused(checkpoint_.weights_path(),
                 "tensor '" + kExpert + "3.down_proj.weight': expected dtype F32, F16 or BF16, got I16");
}

TEST_F(BadWeights, BiasesThatTheConfigExcludes) {
  checkpoint_.config["qkv_bias"] = false;
  expect_refused(checkpoint_.weights_path(), "tensor 'model.layers.0.self_attn.k_proj.bias': expected only");
}

TEST_F(BadWeights, TiedEmbeddingsWithAnotherOutputMatrix) {
  checkpoint_.config["tie_word_embeddings"] = true;
  expect_refused(checkpoint_.weights_path(),
                 "tensor 'lm_head.weight': expected a copy of the tensor that the "
                 "config ties it to, got other values");
  checkpoint_.tensors["lm_head.weight"] = checkpoint_.tensors.at("model.embed_tokens.weight");
  EXPECT_TRUE(checkpoint_.load(backend_)->shape().tied_embeddings) << "an equal one is no contradiction";
  checkpoint_.tensors.erase("lm_head.weight");
  EXPECT_TRUE(checkpoint_.load(backend_)->shape().tied_embeddings);
  checkpoint_.config["tie_word_embeddings"] = false;
  expect_refused(checkpoint_.folder(), "tensor 'lm_head.weight'");
}

TEST_F(BadWeights, RotaryFrequenciesOfOlderFilesAreNoWeights) {
  checkpoint_.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
      DType::kF32, {4}, std::vector<std::byte>(16)};
  EXPECT_NE(checkpoint_.load(backend_), nullptr);
}

// ---- weights that are not numbers ------------------------------------------------------------------------

class BrokenRouting : public testing::TestWithParam<size_t> {
 protected:
  // The row of a float32 matrix becomes NaN.
  void break_row(const std::string& name, size_t row) {
    EditableTensor& tensor = checkpoint_.tensors.at(name);
    ASSERT_EQ(tensor.dtype, DType::kF32);
    const auto cols = static_cast<size_t>(tensor.shape[1]);
    for (size_t i = 0; i < cols; ++i) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(tensor.bytes.data() + (row * cols + i) * sizeof nan, &nan, sizeof nan);
    }
  }

  std::unique_ptr<Backend> backend_ = backends_under_test()[GetParam()].make();
  EditableCheckpoint checkpoint_{golden_root() + "qwen2_moe"};
};
INSTANTIATE_TEST_SUITE_P(Backends, BrokenRouting, testing::Range(size_t{0}, backends_under_test().size()),
                         [](const auto& instance) { return backends_under_test()[instance.param].name; });

TEST_P(BrokenRouting, OfALayerIsNamed) {
  break_row("model.layers.1.mlp.gate.weight", 3);
  const auto model = checkpoint_.load(*backend_);
  expect_error(
      [&] {
        trace(*backend_, *model, {{1, 2, 3}}, {});
      },
      "layer 1: token 0 of the step: expected router logits that are numbers, got NaN");
}

TEST_P(BrokenRouting, IsBlamedOnAFileThatChanged) {
  break_row("model.layers.1.mlp.gate.weight", 3);
  const auto model = checkpoint_.load(*backend_);
  const std::string path = checkpoint_.weights_path();
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(2));
  expect_error(
      [&] {
        trace(*backend_, *model, {{1, 2, 3}}, {});
      },
      path + ": expected the content it had when it was opened");
}

TEST_P(BrokenRouting, OfATokenIsNamedAndThenForgotten) {
  break_row("model.embed_tokens.weight", 7);
  const auto model = checkpoint_.load(*backend_);
  const auto want = trace(*backend_, *model, {{1, 2, 3}}, {}).at("logits").values;
  expect_error([&] { trace(*backend_, *model, {{1, 2, 7, 3}}, {}); }, "layer 0: token 2 of the step");
  EXPECT_EQ(trace(*backend_, *model, {{1, 2, 3}}, {}).at("logits").values, want);
}

}  // namespace
}  // namespace switchyard
