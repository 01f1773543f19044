// The balance losses through the op layer: values, gradients back to the router logits, and what pooling
// hides.
#include <cmath>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "ops/device.h"
#include "ops/routing.h"
#include "ops/tape.h"

namespace switchyard {
namespace {

using Values = std::vector<float>;
constexpr int64_t T = 5, E = 4, K = 2;
const RoutingRule kRule{.top_k = K, .normalize = false};

class BalanceLossTest : public testing::Test {
 protected:
  Tensor tensor(const Values& values, const Shape& shape) {
    Tensor t = Tensor::empty(arena_, DType::kF32, shape);
    backend_.copy_from_host(t.mutable_data(), values.data(), t.bytes());
    return t;
  }
  double number(const Tensor& t) { return t.f32()[0]; }  // memory of the reference backend is the host's

  std::vector<Routing> route_all(Context& c, const std::vector<Tensor>& logits,
                                 const RoutingRule& rule = kRule) {
    std::vector<Routing> routings;
    for (const Tensor& l : logits)
      routings.push_back(route(c, l, rule, {}, static_cast<int>(routings.size())));
    return routings;
  }
  double loss_of(const std::vector<Values>& logits, BalanceLoss kind) {
    Context c{.backend = backend_, .arena = arena_};
    std::vector<Tensor> tensors;
    for (const Values& l : logits)
      tensors.push_back(tensor(l, {T, E}));
    return number(balance_loss(c, route_all(c, tensors), kind));
  }

  ReferenceBackend backend_;
  Arena arena_{backend_.memory()};
  const std::vector<Values> logits_{uniform(1, T* E, -2, 2), uniform(2, T* E, -2, 2),
                                    uniform(3, T* E, -2, 2)};
};

// E * sum_e f[e] * P[e] of the layers' tokens together, from the logits.
double by_definition(const std::vector<Values>& layers) {
  std::vector<double> hits(E, 0), probabilities(E, 0);
  double tokens = 0;
  for (const Values& logits : layers) {
    for (int64_t t = 0; t < T; ++t, ++tokens) {
      const float* z = &logits[static_cast<size_t>(t * E)];
      double sum = 0;
      for (size_t e = 0; e < E; ++e)
        sum += std::exp(static_cast<double>(z[e]));
      for (size_t e = 0; e < E; ++e) {
        probabilities[e] += std::exp(static_cast<double>(z[e])) / sum;
        int64_t better = 0;
        for (size_t other = 0; other < E; ++other)
          better += z[other] > z[e];
        hits[e] += better < K;
      }
    }
  }
  double loss = 0;
  for (size_t e = 0; e < E; ++e)
    loss += static_cast<double>(E) * (hits[e] / tokens) * (probabilities[e] / tokens);
  return loss;
}

TEST_F(BalanceLossTest, ValuesAreTheirDefinitions) {
  EXPECT_NEAR(loss_of(logits_, BalanceLoss::kPooled), by_definition(logits_), 1e-6);
  double mean = 0;
  for (const Values& layer : logits_)
    mean += by_definition({layer}) / static_cast<double>(logits_.size());
  EXPECT_NEAR(loss_of(logits_, BalanceLoss::kPerLayer), mean, 1e-6);
  EXPECT_GT(std::abs(mean - by_definition(logits_)), 1e-3) << "no difference to see";
}

TEST_F(BalanceLossTest, OfOneLayerIsTheSameEitherWay) {
  EXPECT_EQ(loss_of({logits_[0]}, BalanceLoss::kPooled), loss_of({logits_[0]}, BalanceLoss::kPerLayer));
}

TEST_F(BalanceLossTest, OfEvenRoutingIsTopK) {
  Values logits;  // token t prefers experts t and t + 1 (mod E), all tokens alike
  for (int64_t t = 0; t < E; ++t) {
    for (int64_t e = 0; e < E; ++e)
      logits.push_back(e == t || e == (t + 1) % E ? 1.0f : 0.0f);
  }
  Context c{.backend = backend_, .arena = arena_};
  const std::vector<Routing> routings = route_all(c, {tensor(logits, {E, E})});
  EXPECT_NEAR(number(balance_loss(c, routings, BalanceLoss::kPerLayer)), static_cast<double>(K), 1e-6);
}

// Each of four layers sends every token to one expert, each to another: together they look even.
TEST_F(BalanceLossTest, PoolingHidesCollapsedLayers) {
  std::vector<Tensor> logits;
  for (int64_t layer = 0; layer < E; ++layer) {
    Values rows(static_cast<size_t>(T * E), 0.0f);
    for (int64_t t = 0; t < T; ++t)
      rows[static_cast<size_t>(t * E + layer)] = 30;
    logits.push_back(tensor(rows, {T, E}));
  }
  Context c{.backend = backend_, .arena = arena_};
  const std::vector<Routing> routings = route_all(c, logits, {.top_k = 1, .normalize = false});
  EXPECT_NEAR(number(balance_loss(c, routings, BalanceLoss::kPooled)), 1, 1e-5);
  EXPECT_NEAR(number(balance_loss(c, routings, BalanceLoss::kPerLayer)), static_cast<double>(E), 1e-5);
}

TEST_F(BalanceLossTest, GradientsAreTheSlopesOfTheLoss) {
  constexpr float kStep = 0x1p-7f;
  for (const BalanceLoss kind : {BalanceLoss::kPooled, BalanceLoss::kPerLayer}) {
    std::vector<Tensor> tensors;
    for (const Values& l : logits_) {
      tensors.push_back(tensor(l, {T, E}));
      tensors.back().set_requires_grad(true);
    }
    Tape tape;
    Context c{.backend = backend_, .arena = arena_, .tape = &tape};
    tape.backward(c, balance_loss(c, route_all(c, tensors), kind));
    for (size_t layer = 0; layer < logits_.size(); ++layer) {
      for (size_t i = 0; i < logits_[layer].size(); ++i) {
        std::vector<Values> moved = logits_;
        moved[layer][i] = logits_[layer][i] + kStep;
        const double above = loss_of(moved, kind);
        moved[layer][i] = logits_[layer][i] - kStep;
        const double slope = (above - loss_of(moved, kind)) / (2 * static_cast<double>(kStep));
        EXPECT_NEAR(tensors[layer].grad().f32()[i], slope, 1e-4) << "layer " << layer << ", logit " << i;
      }
    }
    EXPECT_EQ(tape.size(), 0u);
  }
}

// Layers that are frozen get no gradient, the others the same one.
TEST_F(BalanceLossTest, OnlyLayersThatTrainGetGradients) {
  const Tensor frozen = tensor(logits_[0], {T, E});
  const Tensor trained = tensor(logits_[1], {T, E});
  trained.set_requires_grad(true);
  Tape tape;
  Context c{.backend = backend_, .arena = arena_, .tape = &tape};
  tape.backward(c, balance_loss(c, route_all(c, {frozen, trained}), BalanceLoss::kPooled));
  EXPECT_FALSE(frozen.grad());
  EXPECT_TRUE(trained.grad());
}

}  // namespace
}  // namespace switchyard
