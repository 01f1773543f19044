// LoRA on the linear layers of a model, against PEFT: logits, and gradients with everything else frozen.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "engine/trace.h"
#include "ops/tape.h"
#include "support/golden.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

// Attaches the adapter's matrices that PEFT names base_model.model.<layer>.lora_{A,B}.weight, trainable.
std::map<std::string, Lora> attach(Model& model, Backend& backend, Arena& arena, const std::string& folder) {
  const auto weights = read_reference(folder + "adapter_model.safetensors");
  const Json config = parse_json(read_file(folder + "adapter_config.json", 1 << 20), folder);
  const float scale = config.at("lora_alpha").get<float>() / config.at("r").get<float>();
  const auto upload_matrix = [&](const ReferenceTensor& from) {
    Tensor t = Tensor::empty(arena, DType::kF32, {from.shape[0], from.shape[1]});
    backend.copy_from_host(t.mutable_data(), from.values.data(), t.bytes());
    t.set_requires_grad(true);
    return t;
  };
  std::map<std::string, Lora> attached;
  model.visit_linears([&](Linear& linear) {
    const std::string& name = linear.name;
    const auto a = weights.find("base_model.model." + name + ".lora_A.weight");
    if (a == weights.end()) return;
    const auto& b = weights.at("base_model.model." + name + ".lora_B.weight");
    linear.lora = Lora{.a = upload_matrix(a->second), .b = upload_matrix(b), .scale = scale};
    attached[name] = *linear.lora;
  });
  EXPECT_EQ(attached.size() * 2, weights.size()) << "a matrix of the adapter found no layer";
  return attached;
}

class LoraTest : public testing::TestWithParam<size_t> {
 protected:
  const std::string folder_ = golden_root() + "qwen2_moe/";
  std::unique_ptr<Backend> backend_ = backends_under_test()[GetParam()].make();
  Arena arena_{backend_->memory()};
  std::unique_ptr<Model> model_ = load_model(folder_, *backend_);
  std::vector<std::vector<int32_t>> sequences_ =
      sequences_of(read_reference(folder_ + "reference.safetensors").at("input_ids"));
  std::map<std::string, ReferenceTensor> want_ = read_reference(folder_ + "lora/reference.safetensors");
};
INSTANTIATE_TEST_SUITE_P(Backends, LoraTest, testing::Range(size_t{0}, backends_under_test().size()),
                         [](const auto& instance) { return backends_under_test()[instance.param].name; });

TEST_P(LoraTest, LogitsAreThoseOfPeft) {
  const std::vector<float> without = all_logits(*backend_, *model_, sequences_);
  attach(*model_, *backend_, arena_, folder_ + "lora/");
  const std::vector<float> with = all_logits(*backend_, *model_, sequences_);
  EXPECT_LE(largest_difference(with, want_.at("logits").values), 1e-4);
  EXPECT_GE(largest_difference(without, with), 1e-2) << "the adapter changes nothing: the test shows nothing";
  model_->visit_linears([](Linear& linear) { linear.lora.reset(); });
  EXPECT_EQ(all_logits(*backend_, *model_, sequences_), without);
}

TEST_P(LoraTest, GradientsAreThoseOfPeftAndFrozenWeightsGetNone) {
  const std::map<std::string, Lora> attached = attach(*model_, *backend_, arena_, folder_ + "lora/");
  Tape tape;
  Context c{.backend = *backend_, .arena = arena_, .tape = &tape};
  tape.backward(c, training_losses(c, *model_, sequences_).total);
  size_t compared = 0;
  for (const auto& [layer, lora] : attached) {
    const auto expect_close = [&, &name = layer](const Tensor& matrix, const std::string& leaf) {
      ASSERT_TRUE(matrix.grad()) << name << leaf;
      const auto& want = want_.at("grad.base_model.model." + name + leaf + ".default.weight").values;
      EXPECT_LE(relative_norm(to_host(*backend_, matrix.grad()), want), 1e-3) << name << leaf;
      ++compared;
    };
    expect_close(lora.a, ".lora_A");
    expect_close(lora.b, ".lora_B");
    lora.a.drop_grad();
    lora.b.drop_grad();
  }
  EXPECT_EQ(compared + 1, want_.size()) << "gradients and logits";
  for (const Parameter& parameter : model_->parameters()) {
    EXPECT_FALSE(parameter.tensor.requires_grad()) << parameter.name;
    EXPECT_FALSE(parameter.tensor.grad()) << parameter.name;
  }
}

// The visitor reaches every matrix that is neither an embedding nor an expert's, under its own name.
TEST(VisitLinears, ReachesEveryLinearLayerOnce) {
  for (const std::string& golden_case : golden_cases()) {
    const auto backend = backends_under_test().front().make();
    const auto model = load_model(golden_root() + golden_case, *backend);
    std::map<std::string, const void*> want;
    for (const Parameter& parameter : model->parameters()) {
      if (parameter.component == Component::kExperts || parameter.tensor.shape().rank() != 2) continue;
      if (parameter.component == Component::kEmbedding && !model->shape().tied_embeddings) continue;
      const bool tied_output = parameter.component == Component::kEmbedding;
      want[tied_output ? "lm_head.weight" : parameter.name] = parameter.tensor.data();
    }
    std::map<std::string, const void*> visited;
    model->visit_linears([&](Linear& linear) {
      const std::string& name = linear.name;
      EXPECT_TRUE(visited.emplace(name + ".weight", linear.weight.plain.data()).second) << "twice: " << name;
    });
    EXPECT_EQ(visited, want) << golden_case;
  }
}

}  // namespace
}  // namespace switchyard
