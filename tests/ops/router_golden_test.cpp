// The routing rules of all families against what the routers of transformers give
// (scripts/make_routing_data.py).
#include <algorithm>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/json.h"
#include "ops/routing.h"
#include "ops/tape.h"

namespace switchyard {
namespace {

using Values = std::vector<float>;

Values flat(const Json& rows) {
  Values values;
  for (const Json& row : rows)
    for (const Json& value : row)
      values.push_back(value.get<float>());
  return values;
}

class RouterGolden : public testing::TestWithParam<std::string> {
 protected:
  Tensor tensor(const Values& values, const Shape& shape) {
    Tensor t = Tensor::empty(arena_, DType::kF32, shape);
    backend_.copy_from_host(t.mutable_data(), values.data(), t.bytes());
    return t;
  }

  RoutingRule rule_of(const Json& json) {
    RoutingRule rule{.top_k = json.at("top_k").get<int64_t>(), .normalize = json.value("normalize", false)};
    rule.scaling = json.value("scaling", 1.0f);
    rule.epsilon = json.value("epsilon", 0.0f);
    rule.n_group = json.value("n_group", int64_t{1});
    rule.topk_group = json.value("topk_group", int64_t{1});
    if (json.value("score", "softmax") == "sigmoid") rule.score = RouterScore::kSigmoid;
    if (json.value("group_score", "best") == "best_two") rule.group_score = GroupScore::kBestTwo;
    if (json.contains("selection_bias")) {
      const auto bias = json.at("selection_bias").get<Values>();
      rule.selection_bias = tensor(bias, {static_cast<int64_t>(bias.size())});
    }
    return rule;
  }

  CpuBackend backend_{CpuOptions{.threads = 1, .isa = {}}};
  Arena arena_{backend_.memory()};
};

const Json& cases() {
  const std::string path = SWITCHYARD_SOURCE_DIR "/tests/data/routing.json";
  static const Json document = parse_json(read_file(path, 1 << 20), path);
  return document;
}

TEST_P(RouterGolden, ChoiceWeightsAndGradients) {
  const Json& golden = cases().at(GetParam());
  // Memory of the CPU backend is the host's.
  const Values logit_values = flat(golden.at("logits"));
  const Values want_weights = flat(golden.at("weights"));  // [T, E], 0 where not chosen
  const Values want_gradient = flat(golden.at("gradient"));
  const auto coefficients = golden.at("coefficients").get<Values>();
  const auto E = static_cast<int64_t>(coefficients.size());
  const auto T = static_cast<int64_t>(logit_values.size()) / E;
  const Tensor logits = tensor(logit_values, {T, E});
  logits.set_requires_grad(true);
  Tape tape;
  Context c{.backend = backend_, .arena = arena_, .tape = &tape};
  const RoutingRule rule = rule_of(golden.at("rule"));
  const Routing routing = route(c, logits, rule, {}, 0);
  const int64_t K = routing.expert_ids.dim(1);
  Values weights(want_weights.size(), 0.0f);
  Values d_weights;
  for (int64_t slot = 0; slot < T * K; ++slot) {
    const int32_t e = routing.expert_ids.i32()[slot];
    weights[static_cast<size_t>(slot / K * E + e)] = routing.weights.f32()[slot];
    d_weights.push_back(coefficients[static_cast<size_t>(e)]);
  }
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_NEAR(weights[i], want_weights[i], 1e-6f * rule.scaling) << "row " << i / coefficients.size();

  tape.record(
      [&](Context& b) { std::copy(d_weights.begin(), d_weights.end(), gradient(b, routing.weights)); });
  const Tensor loss = tensor({0}, {1});
  loss.set_requires_grad(true);
  tape.backward(c, loss);
  for (size_t i = 0; i < want_gradient.size(); ++i) {
    EXPECT_NEAR(logits.grad().f32()[i], want_gradient[i], 1e-6f * rule.scaling)
        << "row " << i / coefficients.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RouterGolden, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, golden] : cases().items())
                             names.push_back(name);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace switchyard
