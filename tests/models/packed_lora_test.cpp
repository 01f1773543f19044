// LoRA on quantised weights: gradients pass through packed matrices, which get none themselves.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "engine/trace.h"
#include "ops/tape.h"
#include "support/golden.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

constexpr int64_t kRank = 3;

class PackedLora : public testing::TestWithParam<std::tuple<std::string, size_t>> {
 protected:
  // Both matrices of a new adapter, with numbers that depend on `seed`.
  Lora make_lora(const Linear& linear, uint64_t seed) {
    const auto filled = [&](int64_t rows, int64_t cols) {
      const Tensor t = Tensor::empty(arena_, DType::kF32, {rows, cols});
      std::vector<float> values;
      for (int64_t i = 0; i < t.elements(); ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values.push_back(0.2f * static_cast<float>(static_cast<int32_t>(seed >> 32)) * 0x1p-31f);
      }
      backend_->copy_from_host(t.mutable_data(), values.data(), t.bytes());
      t.set_requires_grad(true);
      return t;
    };
    return {
        .a = filled(kRank, linear.weight.cols()), .b = filled(linear.weight.rows(), kRank), .scale = 1.5f};
  }

  void attach() {
    uint64_t seed = 1;
    model_->visit_linears([&](Linear& linear) {
      if (linear.weight.packed == nullptr) return;
      linear.lora = make_lora(linear, ++seed);
      attached_.emplace(linear.name, *linear.lora);
    });
  }

  double loss() {
    Context c{.backend = *backend_, .arena = arena_};
    return to_host(*backend_, training_losses(c, *model_, sequences_).cross_entropy)[0];
  }

  // Moves a matrix by `step` along `direction`.
  void move(const Tensor& matrix, const std::vector<float>& direction, double step) {
    std::vector<float> values = to_host(*backend_, matrix);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] += static_cast<float>(step * direction[i]);
    backend_->copy_from_host(matrix.mutable_data(), values.data(), matrix.bytes());
  }

  const std::string folder_ = SWITCHYARD_SOURCE_DIR "/tests/data/golden_packed/" + std::get<0>(GetParam());
  std::unique_ptr<Backend> backend_ = backends_under_test()[std::get<1>(GetParam())].make();
  Arena arena_{backend_->memory()};
  std::unique_ptr<Model> model_ = load_model(folder_, *backend_);
  std::vector<std::vector<int32_t>> sequences_ =
      sequences_of(read_reference(folder_ + "/reference.safetensors").at("input_ids"));
  std::map<std::string, Lora> attached_;
};
INSTANTIATE_TEST_SUITE_P(Backends, PackedLora,
                         testing::Combine(testing::Values("gptq4_desc_act", "awq4_odd", "compressed_float8"),
                                          testing::Range(size_t{0}, backends_under_test().size())),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" +
                                  backends_under_test()[std::get<1>(instance.param)].name;
                         });

// Along the gradient itself, the slope of the loss is the gradient's length.
TEST_P(PackedLora, GradientsAreSlopesOfTheLoss) {
  attach();
  ASSERT_GE(attached_.size(), 3u);
  {
    Tape tape;
    Context c{.backend = *backend_, .arena = arena_, .tape = &tape};
    tape.backward(c, training_losses(c, *model_, sequences_).cross_entropy);
  }
  for (const auto& [name, lora] : attached_) {
    for (const Tensor* matrix : {&lora.a, &lora.b}) {
      ASSERT_TRUE(matrix->grad()) << name;
      std::vector<float> direction = to_host(*backend_, matrix->grad());
      double squares = 0;
      for (const float g : direction)
        squares += static_cast<double>(g) * g;
      const double length = std::sqrt(squares);
      ASSERT_GT(length, 1e-3) << name;
      for (float& g : direction)
        g = static_cast<float>(g / length);
      constexpr double kStep = 0.02;
      move(*matrix, direction, kStep);
      const double above = loss();
      move(*matrix, direction, -2 * kStep);
      const double below = loss();
      move(*matrix, direction, kStep);
      EXPECT_NEAR((above - below) / (2 * kStep) / length, 1, 0.02) << name;
    }
  }
}

}  // namespace
}  // namespace switchyard
