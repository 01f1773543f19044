#include <cmath>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/trace.h"
#include "models/registry.h"
#include "support/golden.h"

namespace switchyard {
namespace {

std::vector<float> values(WeightSource& source, const std::string& name, const Shape& shape) {
  const Tensor tensor = source.weight(name, shape);
  std::vector<float> result(static_cast<size_t>(tensor.elements()));
  convert_to_f32(tensor.dtype(), tensor.data(), tensor.elements(), result.data());
  return result;
}

TEST(RandomWeights, DependOnSeedNameAndShapeAlone) {
  RandomWeights one(DType::kF32, 1);
  RandomWeights again(DType::kF32, 1);
  RandomWeights other(DType::kF32, 2);
  const std::vector<float> a = values(one, "a", {8, 16});
  const std::vector<float> b = values(one, "b", {8, 16});
  EXPECT_NE(a, b);
  EXPECT_EQ(values(again, "b", {8, 16}), b);  // in another order
  EXPECT_EQ(values(again, "a", {8, 16}), a);
  EXPECT_NE(values(other, "a", {8, 16}), a);
}

TEST(RandomWeights, HaveTheVarianceThatKeepsActivations) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    RandomWeights source(dtype, 3);
    double sum = 0;
    double squares = 0;
    const std::vector<float> matrix = values(source, "m", {200, 100});
    for (const float w : matrix) {
      sum += w;
      squares += static_cast<double>(w) * w;
    }
    const auto count = static_cast<double>(matrix.size());
    EXPECT_NEAR(sum / count, 0, 0.005);
    EXPECT_NEAR(squares / count * 100, 1, 0.05);
    for (const float w : values(source, "v", {100}))
      EXPECT_NEAR(w, 1, 0.11);
  }
}

TEST(RandomWeights, ActivationsKeepTheirSizeOver24Layers) {
  Json config = parse_json(read_file(golden_root() + "qwen2_moe/config.json", 1 << 20), "config.json");
  config["num_hidden_layers"] = 24;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CpuBackend backend({.threads = 1, .isa = {}});
    RandomWeights weights(dtype, 7);
    const auto model = make_model(ConfigReader(config, "config.json"), weights, backend);
    const auto traced = trace(backend, *model, {{1, 2, 3, 4, 5, 6, 7, 8}}, {.hidden_states = true});
    for (const auto& [name, tensor] : traced) {
      for (const float value : tensor.values)
        ASSERT_TRUE(std::isfinite(value)) << name;
    }
    double squares = 0;
    const std::vector<float>& last = traced.at("hidden_states.23").values;  // before the final norm
    for (const float value : last)
      squares += static_cast<double>(value) * value;
    const double size = std::sqrt(squares / static_cast<double>(last.size()));
    EXPECT_GT(size, 0.1);
    EXPECT_LT(size, 30);
  }
}

}  // namespace
}  // namespace switchyard
