// The two forms of latent attention: the absorbed one, that inference takes, and the expanded one, that
// training takes, are one function. (The golden tests hold each to transformers.)
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/tape.h"
#include "support/golden.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

// Logits of one step of all sequences with a tape, so that heads are expanded.
std::vector<float> expanded_logits(Backend& backend, const Model& model,
                                   const std::vector<std::vector<int32_t>>& sequences) {
  Arena arena(backend.memory());
  Tape tape;
  Context c{.backend = backend, .arena = arena, .tape = &tape};
  PagedKvCache cache(backend, model.shape(), 1);
  StepBuilder step;
  for (const auto& tokens : sequences)
    step.add(tokens, 0, CachedSequence(cache), Logits::kAll);
  return to_host(backend, run_step(c, model, step, cache));
}

Tensor random_tensor(Backend& backend, Arena& arena, const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-0.3f, 0.3f);
  std::vector<float> host(static_cast<size_t>(shape.elements()));
  for (float& value : host)
    value = values(random);
  Tensor tensor = Tensor::empty(arena, DType::kF32, shape);
  backend.copy_from_host(tensor.mutable_data(), host.data(), tensor.bytes());
  return tensor;
}

class LatentAttentionForms : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, LatentAttentionForms,
                         testing::Values("deepseek_v2_lite", "deepseek_v2_groups", "deepseek_v3",
                                         "deepseek_v3_yarn"));

TEST_P(LatentAttentionForms, Agree) {
  const std::string folder = golden_root() + GetParam();
  const auto sequences = sequences_of(read_reference(folder + "/reference.safetensors").at("input_ids"));
  for (const BackendUnderTest& under_test : backends_under_test()) {
    const auto backend = under_test.make();
    const auto model = load_model(folder, *backend);
    const std::vector<float> absorbed = all_logits(*backend, *model, sequences);
    EXPECT_LE(largest_difference(absorbed, expanded_logits(*backend, *model, sequences)), 3e-5)
        << under_test.name;
  }
}

TEST_P(LatentAttentionForms, AgreeWithALoraOnEveryLayer) {
  const std::string folder = golden_root() + GetParam();
  const auto sequences = sequences_of(read_reference(folder + "/reference.safetensors").at("input_ids"));
  const auto backend = backends_under_test().back().make();
  const auto model = load_model(folder, *backend);
  const std::vector<float> without = all_logits(*backend, *model, sequences);
  Arena arena(backend->memory());
  uint32_t seed = 0;
  model->visit_linears([&](Linear& linear) {
    if (!linear.name.ends_with("kv_b_proj")) return;
    linear.lora = Lora{.a = random_tensor(*backend, arena, {3, linear.weight.cols()}, ++seed),
                       .b = random_tensor(*backend, arena, {linear.weight.rows(), 3}, ++seed),
                       .scale = 0.7f};
  });
  const std::vector<float> absorbed = all_logits(*backend, *model, sequences);
  EXPECT_LE(largest_difference(absorbed, expanded_logits(*backend, *model, sequences)), 3e-5);
  EXPECT_GE(largest_difference(absorbed, without), 1e-2) << "the adapters make no difference";
  model->visit_linears([](Linear& linear) { linear.lora.reset(); });
}

// What is cached is the latent and one rotary key, not the heads.
TEST(LatentAttention, CachesTheLatent) {
  const auto backend = backends_under_test().front().make();
  const auto model = load_model(golden_root() + "deepseek_v3", *backend);
  EXPECT_EQ(model->shape().kv_bytes_per_token(DType::kF32), 3 * (24 + 8) * 4);
}

}  // namespace
}  // namespace switchyard
