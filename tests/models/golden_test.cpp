// Every family against transformers (float32 arithmetic), on every backend: hidden states, routing, logits,
// losses, gradients, greedy continuations, and the equality of all ways to cut a batch.
#include "support/golden.h"

#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/trace.h"
#include "ops/tape.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

constexpr double kLogitTolerance = 1e-4;     // absolute
constexpr double kWeightTolerance = 1e-5;    // absolute, of routing weights
constexpr double kLossTolerance = 1e-5;      // relative
constexpr double kGradientTolerance = 1e-3;  // norm of the difference over the norm

// The reference of this folder was computed after casting the whole model with .to(torch.bfloat16), which
// rounds the rotary frequencies too; from_pretrained keeps them in float32, as qwen2_moe_bf16 shows.
LoadOptions options_of(const std::string& golden_case) {
  LoadOptions options;
  if (golden_case == "qwen2_moe_bf16_sharded") options.rope_precision = DType::kBF16;
  return options;
}

// Each token's experts in ascending id: transformers returns some families' choices in no order.
struct Choices {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

class Golden : public testing::TestWithParam<std::tuple<std::string, size_t>> {
 protected:
  Golden()
      : folder_(golden_root() + std::get<0>(GetParam()) + "/"),
        backend_(backends_under_test()[std::get<1>(GetParam())].make()),
        model_(load_model(folder_, *backend_, options_of(std::get<0>(GetParam())))),
        reference_(read_reference(folder_ + "reference.safetensors")),
        meta_(parse_json(read_file(folder_ + "reference.json", 1 << 20), "reference.json")),
        sequences_(sequences_of(reference_.at("input_ids"))) {}

  Choices sorted_choices(const std::vector<int32_t>& ids, const std::vector<float>& weights) const;

  std::string folder_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::map<std::string, ReferenceTensor> reference_;
  Json meta_;
  std::vector<std::vector<int32_t>> sequences_;
};

std::vector<size_t> backend_indexes() {
  std::vector<size_t> indexes;
  for (size_t i = 0; i < backends_under_test().size(); ++i)
    indexes.push_back(i);
  return indexes;
}

INSTANTIATE_TEST_SUITE_P(
    All, Golden, testing::Combine(testing::ValuesIn(golden_cases()), testing::ValuesIn(backend_indexes())),
    [](const auto& instance) {
      return std::get<0>(instance.param) + "_" + backends_under_test()[std::get<1>(instance.param)].name;
    });

// Cases that also hold the logits of each step of the greedy continuation.
class GoldenDecode : public Golden {};
constexpr const char* kDecode = "reference_decode.safetensors";

std::vector<std::string> decode_cases() {
  std::vector<std::string> cases = golden_cases();
  std::erase_if(cases, [](const std::string& name) {
    return !std::filesystem::exists(golden_root() + name + "/" + kDecode);
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenDecode,
                         testing::Combine(testing::ValuesIn(decode_cases()),
                                          testing::ValuesIn(backend_indexes())),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" +
                                  backends_under_test()[std::get<1>(instance.param)].name;
                         });

TEST(GoldenData, EveryFamilyHasSome) {
  std::set<std::string> covered;
  for (const std::string& name : golden_cases()) {
    covered.insert(ConfigReader::open(golden_root() + name + "/config.json").model_type());
  }
  for (const Family& family : families()) {
    EXPECT_TRUE(covered.contains(std::string(family.model_type)))
        << "no golden data for " << family.model_type;
  }
}

Choices Golden::sorted_choices(const std::vector<int32_t>& ids, const std::vector<float>& weights) const {
  const auto top_k = static_cast<size_t>(model_->shape().top_k);
  Choices choices;
  for (size_t t = 0; t < ids.size(); t += top_k) {
    std::map<int32_t, float> weight_of;
    for (size_t k = t; k < t + top_k; ++k)
      weight_of[ids[k]] = weights[k];
    for (const auto& [id, weight] : weight_of) {
      choices.ids.push_back(id);
      choices.weights.push_back(weight);
    }
  }
  return choices;
}

// Mixtral's tensors under the names of transformers' modules, and of the other families.
std::string transformers_name(std::string name) {
  const std::pair<const char*, const char*> renamed[] = {{".block_sparse_moe.", ".mlp."},
                                                         {".w1.weight", ".gate_proj.weight"},
                                                         {".w2.weight", ".down_proj.weight"},
                                                         {".w3.weight", ".up_proj.weight"}};
  for (const auto& [from, to] : renamed) {
    if (const auto at = name.find(from); at != std::string::npos) name.replace(at, std::strlen(from), to);
  }
  return name;
}

TEST_P(Golden, HiddenStatesRoutingAndLogits) {
  const auto traced = trace(*backend_, *model_, sequences_, {.hidden_states = true, .routing = true});
  const auto expect_close = [&](const std::string& got, const std::string& want, double tolerance) {
    EXPECT_LE(largest_difference(traced.at(got).values, reference_.at(want).values), tolerance) << got;
  };
  expect_close("logits", "logits", kLogitTolerance);
  const int64_t L = model_->shape().layer_count();
  for (int64_t i = 0; i <= L; ++i) {
    const std::string hidden = fmt::format("hidden_states.{}", i);
    expect_close(hidden, hidden, kLogitTolerance);
  }
  for (int64_t i = 0; i < L; ++i) {
    const std::string got = fmt::format("router.{}.", i);
    const std::string want = fmt::format("router.model.layers.{}.mlp.gate.", i);
    const bool sparse = model_->shape().layers[static_cast<size_t>(i)].experts > 0;
    ASSERT_EQ(reference_.contains(want + "logits"), sparse);
    if (!sparse) continue;
    expect_close(got + "logits", want + "logits", kLogitTolerance);
    if (!reference_.contains(want + "out1")) continue;  // a router that returns nothing else
    const Choices choices = sorted_choices(traced.at(got + "experts").ids, traced.at(got + "weights").values);
    const Choices wanted =
        sorted_choices(reference_.at(want + "out1").ids(), reference_.at(want + "out0").values);
    EXPECT_EQ(choices.ids, wanted.ids) << "layer " << i;
    EXPECT_LE(largest_difference(choices.weights, wanted.weights), kWeightTolerance) << "layer " << i;
  }
}

TEST_P(Golden, GreedyContinuationIsIdentical) {
  const std::vector<int32_t> prompt = reference_.at("greedy_prompt").ids();
  const std::vector<int32_t> want = reference_.at("greedy_output").ids();
  EXPECT_EQ(
      greedy_continuation(*backend_, *model_, prompt, static_cast<int64_t>(want.size() - prompt.size())),
      want);
}

// The logits of each step of the continuation, where rotary frequencies may change on the way: prompt in one
// step, then token by token, as the reference was made.
TEST_P(GoldenDecode, Logits) {
  const std::vector<float> want = read_reference(folder_ + kDecode).at("greedy_logits").values;
  const auto prompt_length = static_cast<int64_t>(reference_.at("greedy_prompt").values.size());
  std::vector<int32_t> tokens = reference_.at("greedy_output").ids();
  tokens.pop_back();  // nothing is predicted from it
  const std::vector<float> all = all_logits(*backend_, *model_, {tokens}, 1, 16, prompt_length);
  const int64_t skipped = (prompt_length - 1) * model_->shape().vocab;
  EXPECT_LE(largest_difference({all.begin() + skipped, all.end()}, want), kLogitTolerance);
  EXPECT_EQ(all_logits(*backend_, *model_, {tokens}, 5, 16, prompt_length), all) << "in chunks of 5";
}

// A token's result depends on its own sequence alone: bit for bit, however the work is cut.
TEST_P(Golden, EveryWayToCutTheWorkGivesTheSameBits) {
  const std::vector<float> together = all_logits(*backend_, *model_, sequences_);
  EXPECT_EQ(all_logits(*backend_, *model_, sequences_, 1), together) << "token by token, batched";
  EXPECT_EQ(all_logits(*backend_, *model_, sequences_, 5), together) << "in chunks of 5";
  EXPECT_EQ(all_logits(*backend_, *model_, sequences_, 7, 1), together) << "in blocks of 1";
  std::vector<float> one_by_one;
  for (const auto& sequence : sequences_) {
    const std::vector<float> alone = all_logits(*backend_, *model_, {sequence}, 1 << 30, 3);
    one_by_one.insert(one_by_one.end(), alone.begin(), alone.end());
  }
  EXPECT_EQ(one_by_one, together) << "each sequence alone";
}

// Gradients of cross-entropy + coefficient * pooled balance loss, as transformers trains.
TEST_P(Golden, LossesAndGradients) {
  for (const Parameter& parameter : model_->parameters())
    parameter.tensor.set_requires_grad(true);
  Arena arena(backend_->memory());
  {
    Tape tape;
    Context c{.backend = *backend_, .arena = arena, .tape = &tape};
    const Losses losses = training_losses(c, *model_, sequences_);
    const auto expect_close = [&](const Tensor& got, const char* key) {
      if (!meta_.contains(key)) return;  // transformers trains this family without a balance loss
      const double want = meta_.at(key);
      EXPECT_NEAR(to_host(*backend_, got)[0] / want, 1.0, kLossTolerance) << key;
    };
    expect_close(losses.cross_entropy, "cross_entropy");
    expect_close(losses.balance, "aux_loss");
    expect_close(losses.total, "loss_total");
    tape.backward(c, losses.total);
  }

  std::map<std::string, std::vector<float>> gradients;  // under transformers' names: expert matrices fused
  for (const Parameter& parameter : model_->parameters()) {
    ASSERT_TRUE(parameter.tensor.grad() || parameter.component == Component::kExperts ||
                parameter.name.ends_with("e_score_correction_bias"))  // only the choice depends on it
        << parameter.name;
    std::vector<float> values(static_cast<size_t>(parameter.tensor.elements()), 0.0f);
    if (parameter.tensor.grad()) values = to_host(*backend_, parameter.tensor.grad());
    gradients[transformers_name(parameter.name)] = values;
    parameter.tensor.drop_grad();
  }
  for (const auto& [name, want] : read_reference(folder_ + "reference_grads.safetensors")) {
    std::vector<float> got;
    if (const auto at = name.find(".experts."); at != std::string::npos && !name.ends_with(".weight")) {
      const std::string prefix = name.substr(0, at) + ".experts.";
      for (int64_t e = 0; e < model_->shape().experts; ++e) {
        const auto append = [&](const char* leaf) {
          const auto& values = gradients.at(fmt::format("{}{}.{}.weight", prefix, e, leaf));
          got.insert(got.end(), values.begin(), values.end());
        };
        if (name.ends_with("gate_up_proj")) {
          append("gate_proj");
          append("up_proj");
        } else {
          append("down_proj");
        }
      }
    } else {
      got = gradients.at(name);
    }
    EXPECT_LE(relative_norm(got, want.values), kGradientTolerance) << name;
  }
}

}  // namespace
}  // namespace switchyard
