// The tape through the op layer: a whole small mixture-of-experts block with attention, LoRA and losses
// against central differences, and what a tape costs.
#include "ops/tape.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "experts/experts.h"
#include "ops/attention.h"
#include "ops/device.h"
#include "ops/ops.h"

namespace switchyard {
namespace {

using Values = std::vector<float>;
// Two sequences of 3 tokens in one step.
constexpr int64_t T = 6, D = 8, H = 2, G = 1, A = 4, E = 4, K = 2, F = 6, V = 7, R = 2;

// One layer with everything that a model has. Its memory is the host's: the reference backend's.
class Block {
 public:
  Block() {
    const auto add_parameter = [&](const std::string& name, const Shape& shape, float low, float high) {
      Tensor t = Tensor::empty(arena_, DType::kF32, shape);
      const Values values =
          uniform(static_cast<uint32_t>(parameters_.size()) + 1, shape.elements(), low, high);
      backend_.copy_from_host(t.mutable_data(), values.data(), t.bytes());
      parameters_[name] = t;
      return t;
    };
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols) {
      return add_parameter(name, {rows, cols}, -0.6f, 0.6f);
    };
    const auto vector = [&](const std::string& name, int64_t n) {
      return add_parameter(name, {n}, 0.5f, 1.5f);
    };
    embedding_ = matrix("embedding", V, D);
    attention_norm_ = vector("attention_norm", D);
    q_ = {.weight = matrix("q", H * A, D), .bias = vector("q_bias", H * A), .lora = {}};
    q_.lora = Lora{.a = matrix("lora_a", R, D), .b = matrix("lora_b", H * A, R), .scale = 1.5f};
    k_ = {.weight = matrix("k", G * A, D), .bias = {}, .lora = {}};
    v_ = {.weight = matrix("v", G * A, D), .bias = vector("v_bias", G * A), .lora = {}};
    o_ = {.weight = matrix("o", D, H * A), .bias = {}, .lora = {}};
    mlp_norm_ = vector("mlp_norm", D);
    router_ = {.weight = matrix("router", E, D), .bias = {}, .lora = {}};
    std::vector<Weight> gate, up, down;
    for (int64_t e = 0; e < E; ++e) {
      gate.push_back(matrix("expert_gate" + std::to_string(e), F, D));
      up.push_back(matrix("expert_up" + std::to_string(e), F, D));
      down.push_back(matrix("expert_down" + std::to_string(e), D, F));
    }
    experts_ = std::make_unique<ResidentExperts>(ExpertMatrices(backend_, arena_, gate),
                                                 ExpertMatrices(backend_, arena_, up),
                                                 ExpertMatrices(backend_, arena_, down));
    shared_gate_ = {.weight = matrix("shared_gate", F, D), .bias = {}, .lora = {}};
    shared_up_ = {.weight = matrix("shared_up", F, D), .bias = {}, .lora = {}};
    shared_down_ = {.weight = matrix("shared_down", D, F), .bias = {}, .lora = {}};
    shared_scale_ = {.weight = matrix("shared_scale", 1, D), .bias = {}, .lora = {}};
    head_ = {.weight = matrix("head", V, D), .bias = {}, .lora = {}};
    rope_.inverse_frequencies = Tensor::empty(arena_, DType::kF32, {1, A / 2});
    const Values frequencies{1.0f, 0.1f};
    backend_.copy_from_host(rope_.inverse_frequencies.mutable_data(), frequencies.data(), A / 2 * 4);
    for (Tensor& cache : cache_)
      cache = Tensor::empty(arena_, DType::kF32, {2, G, 4, A});  // a block for each sequence
    kv_ = {cache_[0].mutable_data(), cache_[1].mutable_data(), DType::kF32, 4, G, A};
  }

  ~Block() {
    for (const auto& [name, tensor] : parameters_)
      tensor.drop_grad();
  }

  struct Result {
    Tensor logits;  // [T, V]
    Tensor loss;    // cross-entropy + 0.1 * balance loss
  };
  Result forward(Tape* tape) {
    Context c{.backend = backend_, .arena = step_arena_, .tape = tape};
    const Batch batch{.tokens = upload(c, std::vector<int32_t>{0, 3, 6, 2, 3, 1}),
                      .positions = upload(c, std::vector<int32_t>{0, 1, 2, 0, 1, 2}),
                      .sequences = upload(c, std::vector<int32_t>{0, 0, 0, 1, 1, 1}),
                      .block_table = upload(c, std::vector<int32_t>{1, 0}).reshaped({2, 1}),
                      .logit_rows = upload(c, std::vector<int32_t>{0, 1, 2, 3, 4, 5}),
                      .kv_layers = {&kv_, 1}};
    Tensor x = embedding(c, batch.tokens, embedding_);
    Tensor h = rms_norm(c, x, attention_norm_, 1e-6f);
    const Tensor q = rope(c, linear(c, h, q_), batch.positions, rope_, H);
    const Tensor k = rope(c, linear(c, h, k_), batch.positions, rope_, G);
    const AttentionShape shape{
        .heads = H, .kv_heads = G, .head_dim = A, .value_dim = A, .scale = 0.5f, .window = 2};
    x = add(c, x, linear(c, attention(c, q, k, linear(c, h, v_), batch, 0, shape), o_));
    h = rms_norm(c, x, mlp_norm_, 1e-6f);
    const Routing routing = route(c, linear(c, h, router_), {.top_k = K, .normalize = true}, batch, 0);
    choice_.assign(routing.expert_ids.i32(), routing.expert_ids.i32() + T * K);
    const Tensor routed = experts_->forward(c, h, routing);
    const Tensor shared =
        linear(c, swiglu(c, linear(c, h, shared_gate_), linear(c, h, shared_up_)), shared_down_);
    x = add(c, x, gated_add(c, routed, shared, linear(c, h, shared_scale_)));
    Result result;
    result.logits = linear(c, gather_rows(c, x, batch.logit_rows), head_);
    const Tensor targets = upload(c, std::vector<int32_t>{3, 6, -1, 3, 1, -1});
    result.loss = add(c, cross_entropy(c, result.logits, targets),
                      balance_loss(c, std::vector{routing}, BalanceLoss::kPerLayer), 0.1f);
    return result;
  }

  void train(const std::function<bool(const std::string&)>& wanted) {
    for (const auto& [name, tensor] : parameters_)
      tensor.set_requires_grad(wanted(name));
  }
  void backward() {
    Tape tape;
    const Result result = forward(&tape);
    Context c{.backend = backend_, .arena = step_arena_, .tape = &tape};
    tape.backward(c, result.loss);
  }
  std::map<std::string, Values> gradients() const {
    std::map<std::string, Values> all;
    for (const auto& [name, tensor] : parameters_) {
      if (const Tensor grad = tensor.grad()) all[name].assign(grad.f32(), grad.f32() + grad.elements());
    }
    return all;
  }
  void drop_gradients() {
    for (const auto& [name, tensor] : parameters_)
      tensor.drop_grad();
  }

  const std::map<std::string, Tensor>& parameters() const { return parameters_; }
  const std::vector<int32_t>& choice() const { return choice_; }  // of the last forward pass
  const Arena& step_arena() const { return step_arena_; }

 private:
  ReferenceBackend backend_;
  Arena arena_{backend_.memory()};
  Arena step_arena_{backend_.memory()};  // temporaries and gradients
  std::map<std::string, Tensor> parameters_;
  Tensor embedding_, attention_norm_, mlp_norm_;
  Linear q_, k_, v_, o_, router_, shared_gate_, shared_up_, shared_down_, shared_scale_, head_;
  std::unique_ptr<Experts> experts_;
  Rope rope_;
  std::array<Tensor, 2> cache_;
  KvLayer kv_;
  std::vector<int32_t> choice_;
};

const auto kAll = [](const std::string&) { return true; };

Values values_of(const Tensor& t) {
  return {t.f32(), t.f32() + t.elements()};
}

TEST(Tape, GradientsOfAWholeBlockAreTheSlopesOfItsLoss) {
  constexpr float kStep = 0x1p-8f;
  Block block;
  block.train(kAll);
  block.backward();
  const std::vector<int32_t> choice = block.choice();
  const std::map<std::string, Values> gradients = block.gradients();
  ASSERT_EQ(gradients.size(), block.parameters().size()) << "an expert without tokens";
  double largest = 0;
  for (const auto& [name, tensor] : block.parameters()) {
    float* values = tensor.f32();
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const float before = values[i];
      const auto loss_at = [&, t = values + i](float value) {
        *t = value;
        const double loss = block.forward(nullptr).loss.f32()[0];
        EXPECT_EQ(block.choice(), choice) << "a step across a change of experts has no slope";
        return loss;
      };
      const double difference = loss_at(before + kStep) - loss_at(before - kStep);
      values[i] = before;
      const double slope = difference / (2 * static_cast<double>(kStep));
      const double got = gradients.at(name)[static_cast<size_t>(i)];
      EXPECT_NEAR(got, slope, 3e-4 * std::max(1.0, std::abs(slope))) << name << " " << i;
      largest = std::max(largest, std::abs(got));
    }
  }
  EXPECT_GT(largest, 0.05);
}

TEST(Tape, ChangesNoBitOfTheForwardPass) {
  Block block;
  const Block::Result without = block.forward(nullptr);
  block.train(kAll);
  Tape tape;
  const Block::Result with = block.forward(&tape);
  EXPECT_GT(tape.size(), 0u);
  EXPECT_EQ(values_of(with.logits), values_of(without.logits));
  EXPECT_EQ(values_of(with.loss), values_of(without.loss));
}

TEST(Tape, RecordsNothingWhereNothingTrains) {
  Block block;
  Tape tape;
  const Block::Result result = block.forward(&tape);
  EXPECT_EQ(tape.size(), 0u);
  EXPECT_FALSE(result.loss.requires_grad());
}

// Frozen tensors get no gradient, and the others get the same bits as when all train.
TEST(Tape, ComputesNoGradientOfFrozenTensors) {
  Block block;
  block.train(kAll);
  block.backward();
  const std::map<std::string, Values> all = block.gradients();
  block.drop_gradients();
  for (const std::string wanted : {"lora_", "expert_up2", "router", "embedding", "v_bias", "head"}) {
    block.train([&](const std::string& name) { return name.starts_with(wanted); });
    block.backward();
    const std::map<std::string, Values> some = block.gradients();
    block.drop_gradients();
    EXPECT_EQ(some.size(), wanted == "lora_" ? 2u : 1u) << wanted;
    for (const auto& [name, gradient] : some) {
      EXPECT_TRUE(name.starts_with(wanted)) << name;
      EXPECT_EQ(gradient, all.at(name)) << name;
    }
  }
}

TEST(Tape, GradientsAddUpOverSteps) {
  Block block;
  block.train(kAll);
  block.backward();
  const std::map<std::string, Values> once = block.gradients();
  block.backward();
  for (const auto& [name, twice] : block.gradients()) {
    for (size_t i = 0; i < twice.size(); ++i)
      ASSERT_NEAR(twice[i], 2 * once.at(name)[i], 1e-5) << name;
  }
}

TEST(StepMemory, ReturnsToTheArena) {
  Block block;
  block.forward(nullptr);
  EXPECT_EQ(block.step_arena().in_use_bytes(), 0);
  const int64_t reserved = block.step_arena().reserved_bytes();
  for (int step = 0; step < 3; ++step)
    block.forward(nullptr);
  EXPECT_EQ(block.step_arena().reserved_bytes(), reserved) << "a later step takes new memory";

  block.train(kAll);
  block.backward();
  block.drop_gradients();
  EXPECT_EQ(block.step_arena().in_use_bytes(), 0);
  const int64_t reserved_in_training = block.step_arena().reserved_bytes();
  EXPECT_GT(reserved_in_training, reserved) << "without a tape temporaries return at once";
  for (int step = 0; step < 3; ++step) {
    block.backward();
    block.drop_gradients();
  }
  EXPECT_EQ(block.step_arena().in_use_bytes(), 0);
  EXPECT_EQ(block.step_arena().reserved_bytes(), reserved_in_training);
}

}  // namespace
}  // namespace switchyard
