#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "experts/experts.h"
#include "ops/device.h"

namespace switchyard {
namespace {

using Values = std::vector<float>;

class ResidentExpertsTest : public testing::Test {
 protected:
  Tensor tensor(const Values& values, const Shape& shape) {
    Tensor t = Tensor::empty(arena_, DType::kF32, shape);
    backend_.copy_from_host(t.mutable_data(), values.data(), t.bytes());
    return t;
  }

  CpuBackend backend_{CpuOptions{.threads = 2, .isa = {}}};
  Arena arena_{backend_.memory()};
};

// out = matrix [rows, cols] * x
std::vector<double> product(const Values& matrix, const std::vector<double>& x, size_t rows) {
  std::vector<double> out(rows, 0.0);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < x.size(); ++i)
      out[r] += static_cast<double>(matrix[r * x.size() + i]) * x[i];
  }
  return out;
}

// Whether a capacity leaves slots without an expert.
class ResidentExpertsForward : public ResidentExpertsTest, public testing::WithParamInterface<bool> {};

TEST_P(ResidentExpertsForward, IsAPlainLoopOverTokensAndTheirExperts) {
  constexpr int64_t T = 23, D = 12, F = 7, E = 5, K = 3;
  std::vector<Values> gate, up, down;
  std::vector<Weight> gate_tensors, up_tensors, down_tensors;
  for (int64_t e = 0; e < E; ++e) {
    const auto seed = static_cast<uint32_t>(10 * e);
    gate_tensors.push_back(tensor(gate.emplace_back(uniform(seed, F * D)), {F, D}));
    up_tensors.push_back(tensor(up.emplace_back(uniform(seed + 1, F * D)), {F, D}));
    down_tensors.push_back(tensor(down.emplace_back(uniform(seed + 2, D * F)), {D, F}));
  }
  const ResidentExperts experts(ExpertMatrices(backend_, arena_, gate_tensors),
                                ExpertMatrices(backend_, arena_, up_tensors),
                                ExpertMatrices(backend_, arena_, down_tensors));
  const Values h = uniform(90, T * D);
  Context c{.backend = backend_, .arena = arena_};
  const Tensor logits = tensor(uniform(91, T * E, -2, 2), {T, E});
  // Temporaries get memory that held NaN: what nobody writes must not be read.
  tensor(Values(static_cast<size_t>(8 * T * K * D), std::numeric_limits<float>::quiet_NaN()), {8 * T * K, D});
  Batch batch;
  if (GetParam()) batch.routing.capacity = Capacity{.fixed = K + 5};
  const Routing routing = route(c, logits, {.top_k = K, .normalize = false}, batch, 0);
  const Tensor out = experts.forward(c, tensor(h, {T, D}), routing);

  Values got(static_cast<size_t>(T * D));
  backend_.copy_to_host(got.data(), out.data(), out.bytes());
  std::vector<int32_t> ids(static_cast<size_t>(T * K));
  Values weights(ids.size());
  backend_.copy_to_host(ids.data(), routing.expert_ids.data(), routing.expert_ids.bytes());
  backend_.copy_to_host(weights.data(), routing.weights.data(), routing.weights.bytes());
  EXPECT_EQ(std::count(ids.begin(), ids.end(), -1) > 0, GetParam());
  for (int64_t t = 0; t < T; ++t) {
    const std::vector<double> x(h.begin() + t * D, h.begin() + (t + 1) * D);
    std::vector<double> want(D, 0.0);
    for (int64_t k = 0; k < K; ++k) {
      const auto slot = static_cast<size_t>(t * K + k);
      if (ids[slot] < 0) continue;
      const auto e = static_cast<size_t>(ids[slot]);
      std::vector<double> hidden = product(gate[e], x, F);
      const std::vector<double> scale = product(up[e], x, F);
      for (size_t f = 0; f < hidden.size(); ++f)
        hidden[f] *= scale[f] / (1 + std::exp(-hidden[f]));
      const std::vector<double> y = product(down[e], hidden, D);
      for (size_t d = 0; d < y.size(); ++d)
        want[d] += weights[slot] * y[d];
    }
    for (int64_t d = 0; d < D; ++d) {
      ASSERT_NEAR(got[static_cast<size_t>(t * D + d)], want[static_cast<size_t>(d)], 1e-5) << "token " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Capacity, ResidentExpertsForward, testing::Bool());

TEST_F(ResidentExpertsTest, NoTokensAreNoWork) {
  const auto matrix = [&] {
    return ExpertMatrices(backend_, arena_, {tensor(uniform(1, 16), {4, 4}), tensor(uniform(2, 16), {4, 4})});
  };
  const ResidentExperts experts(matrix(), matrix(), matrix());
  Context c{.backend = backend_, .arena = arena_};
  const Routing routing = route(c, tensor({}, {0, 2}), {.top_k = 1, .normalize = false}, {}, 0);
  EXPECT_EQ(experts.forward(c, tensor({}, {0, 4}), routing).shape(), (Shape{0, 4}));
}

}  // namespace
}  // namespace switchyard
