// Every backward op of the reference against central differences of its forward op.
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "ops/device.h"
#include "ops/packed_matrices.h"

namespace switchyard {
namespace {

using Values = std::vector<float>;

// An op as a function of its differentiable inputs.
struct GradientCase {
  std::string name;
  std::vector<Values> inputs;
  std::function<Values(Device&, const std::vector<Values>& inputs)> forward;
  // Adds to `gradients`, device buffers of the inputs' sizes, the gradients of sum_i d_out[i] * forward[i].
  std::function<void(Device&, const std::vector<Values>& inputs, const Values& d_out,
                     const std::vector<float*>& gradients)>
      backward;
};

// Large enough for float32 outputs (their rounding over the step is 2^-24 / 2^-7), small enough for the h^2
// error of central differences.
constexpr float kStep = 0x1p-7f;
constexpr double kTolerance = 2e-3;
// What the gradients hold before: backward ops add.
constexpr float kBefore = 0.5f;

double weighted_output(const GradientCase& c, const std::vector<Values>& inputs, const Values& d_out) {
  ReferenceBackend reference;
  Device device(reference);
  const Values out = c.forward(device, inputs);
  EXPECT_EQ(out.size(), d_out.size());
  return std::inner_product(out.begin(), out.end(), d_out.begin(), 0.0);
}

std::vector<Values> backward_gradients(const GradientCase& c, const Values& d_out) {
  ReferenceBackend reference;
  Device device(reference);
  std::vector<float*> buffers;
  for (const Values& input : c.inputs)
    buffers.push_back(device.floats(Values(input.size(), kBefore)));
  c.backward(device, c.inputs, d_out, buffers);
  device.check_sentinels();
  std::vector<Values> gradients;
  for (size_t i = 0; i < buffers.size(); ++i)
    gradients.push_back(device.read(buffers[i], static_cast<int64_t>(c.inputs[i].size())));
  return gradients;
}

class Gradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradient, IsTheSlopeOfTheForwardOp) {
  const GradientCase& c = GetParam();
  ReferenceBackend reference;
  Device device(reference);
  const auto outputs = static_cast<int64_t>(c.forward(device, c.inputs).size());
  const Values d_out = uniform(90, outputs);
  const std::vector<Values> gradients = backward_gradients(c, d_out);
  for (size_t input = 0; input < c.inputs.size(); ++input) {
    for (size_t i = 0; i < c.inputs[input].size(); ++i) {
      std::vector<Values> inputs = c.inputs;
      inputs[input][i] = c.inputs[input][i] + kStep;
      const double above = weighted_output(c, inputs, d_out);
      inputs[input][i] = c.inputs[input][i] - kStep;
      const double below = weighted_output(c, inputs, d_out);
      const double slope = (above - below) / (2 * static_cast<double>(kStep));
      ASSERT_NEAR(gradients[input][i] - kBefore, slope, kTolerance * std::max(1.0, std::abs(slope)))
          << "input " << input << ", element " << i;
    }
  }
}

// ---- rows and elements ----------------------------------------------------------------------------------

GradientCase embedding_gradient() {
  constexpr int64_t V = 5;
  constexpr int64_t D = 3;
  const std::vector<int32_t> ids{4, 0, 4, 2};
  return {"embedding",
          {uniform(1, V * D)},
          [=](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(4 * D);
            d.backend().embedding({d.matrix(in[0], V, D, DType::kF32), d.ints(ids), 4, out});
            return d.read(out, 4 * D);
          },
          [=](Device& d, const std::vector<Values>&, const Values& d_out, const std::vector<float*>& g) {
            d.backend().embedding_backward({d.ints(ids), d.floats(d_out), 4, D, g[0]});
          }};
}

GradientCase rms_norm_gradient() {
  constexpr int64_t T = 3;
  constexpr int64_t D = 7;
  const auto args = [](Device& d, const std::vector<Values>& in, float* out) {
    return RmsNormArgs{d.floats(in[0]), d.floats(in[1]), DType::kF32, T, D, 1e-2f, out};
  };
  return {"rms_norm",
          {uniform(2, T * D), uniform(3, D)},
          [=](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(T * D);
            d.backend().rms_norm(args(d, in, out));
            return d.read(out, T * D);
          },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            d.backend().rms_norm_backward({args(d, in, nullptr), d.floats(d_out), g[0], g[1]});
          }};
}

GradientCase swiglu_gradient() {
  constexpr int64_t kCount = 11;
  return {"swiglu",
          {uniform(4, kCount, -3, 3), uniform(5, kCount)},
          [](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(kCount);
            d.backend().swiglu({d.floats(in[0]), d.floats(in[1]), kCount, out});
            return d.read(out, kCount);
          },
          [](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            d.backend().swiglu_backward(
                {{d.floats(in[0]), d.floats(in[1]), kCount, nullptr}, d.floats(d_out), g[0], g[1]});
          }};
}

GradientCase gated_add_gradient() {
  constexpr int64_t T = 3;
  constexpr int64_t D = 5;
  const auto args = [](Device& d, const std::vector<Values>& in, float* out) {
    return GatedAddArgs{d.floats(in[0]), d.floats(in[1]), d.floats(in[2]), T, D, out};
  };
  return {"gated_add",
          {uniform(6, T * D), uniform(7, T * D), uniform(8, T, -2, 2)},
          [=](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(T * D);
            d.backend().gated_add(args(d, in, out));
            return d.read(out, T * D);
          },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            d.backend().gated_add_backward({args(d, in, nullptr), d.floats(d_out), g[0], g[1], g[2]});
          }};
}

GradientCase gather_rows_gradient() {
  constexpr int64_t D = 3;
  const std::vector<int32_t> index{2, 0, -1, 2, 1};
  return {"gather_rows",
          {uniform(9, 4 * D)},
          [=](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(5 * D);
            d.backend().gather_rows({d.floats(in[0]), d.ints(index), 5, D, out});
            return d.read(out, 5 * D);
          },
          [=](Device& d, const std::vector<Values>&, const Values& d_out, const std::vector<float*>& g) {
            d.backend().gather_rows_backward({d.floats(d_out), d.ints(index), 5, D, g[0]});
          }};
}

GradientCase cross_entropy_gradient() {
  constexpr int64_t T = 4;
  constexpr int64_t V = 6;
  const std::vector<int32_t> targets{5, -100, 0, 3};
  const auto args = [=](Device& d, const std::vector<Values>& in, float* loss) {
    return CrossEntropyArgs{d.floats(in[0]), d.ints(targets), T, V, d.float_output(T), loss};
  };
  return {"cross_entropy",
          {uniform(10, T * V, -2, 2)},
          [=](Device& d, const std::vector<Values>& in) {
            float* loss = d.float_output(1);
            d.backend().cross_entropy(args(d, in, loss));
            return d.read(loss, 1);
          },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            const CrossEntropyArgs forward = args(d, in, d.float_output(1));
            d.backend().cross_entropy(forward);
            d.backend().cross_entropy_backward({forward, d.floats(d_out), g[0]});
          }};
}

// ---- linear and experts ---------------------------------------------------------------------------------

GradientCase linear_gradient() {
  constexpr int64_t T = 3;
  constexpr int64_t N = 4;
  constexpr int64_t K = 5;
  return {"linear",
          {uniform(11, T * K), uniform(12, N * K), uniform(13, N)},
          [](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(T * N);
            d.backend().linear(
                {d.floats(in[0]), d.matrix(in[1], N, K, DType::kF32), d.floats(in[2]), DType::kF32, T, out});
            return d.read(out, T * N);
          },
          [](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            const float* d_y = d.floats(d_out);
            d.backend().linear_backward_input({d_y, d.matrix(in[1], N, K, DType::kF32), T, g[0]});
            d.backend().linear_backward_weight({d_y, d.floats(in[0]), T, N, K, g[1], g[2]});
          }};
}

// A packed weight gets no gradient, and passes that of its input on.
GradientCase packed_linear_gradient(const Packing& packing) {
  constexpr int64_t T = 2;
  constexpr int64_t N = 9;
  constexpr int64_t K = 11;
  return {"linear_" + packing.name,
          {uniform(11, T * K)},
          [=](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(T * N);
            const Matrix weight = packed_pair(d, packing, N, K, 12).packed;
            d.backend().linear({d.floats(in[0]), weight, nullptr, DType::kF32, T, out});
            return d.read(out, T * N);
          },
          [=](Device& d, const std::vector<Values>&, const Values& d_out, const std::vector<float*>& g) {
            const Matrix weight = packed_pair(d, packing, N, K, 12).packed;
            d.backend().linear_backward_input({d.floats(d_out), weight, T, g[0]});
          }};
}

GradientCase expert_linear_gradient() {
  constexpr int64_t E = 3;
  constexpr int64_t P = 5;
  constexpr int64_t N = 2;
  constexpr int64_t K = 3;
  const std::vector<int32_t> offsets{0, 2, 2, 5};  // the middle expert has no rows
  const auto weights = [](Device& d, const std::vector<Values>& in) {
    std::vector<Matrix> out;
    for (size_t e = 0; e < E; ++e)
      out.push_back(d.matrix(in[1 + e], N, K, DType::kF32));
    return out;
  };
  return {
      "expert_linear",
      {uniform(14, P * K), uniform(15, N * K), uniform(16, N * K), uniform(17, N * K)},
      [=](Device& d, const std::vector<Values>& in) {
        float* out = d.float_output(P * N);
        d.backend().expert_linear({d.floats(in[0]), weights(d, in).data(), d.ints(offsets), E, P, N, K, out});
        return d.read(out, P * N);
      },
      [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
        const float* d_y = d.floats(d_out);
        d.backend().expert_linear_backward_input(
            {d_y, weights(d, in).data(), d.ints(offsets), E, P, N, K, g[0]});
        d.backend().expert_linear_backward_weight(
            {d_y, d.floats(in[0]), d.ints(offsets), E, P, N, K, g.data() + 1});
      }};
}

GradientCase combine_gradient() {
  constexpr int64_t T = 3;
  constexpr int64_t K = 2;
  constexpr int64_t D = 4;
  const std::vector<int32_t> row_of_slot{3, 0, -1, 1, 2, 4};  // one slot without a row
  const auto args = [=](Device& d, const std::vector<Values>& in, float* out) {
    return CombineArgs{d.floats(in[0]), d.floats(in[1]), d.ints(row_of_slot), T, K, D, false, out};
  };
  return {"combine",
          {uniform(18, T * K * D), uniform(19, T * K)},
          [=](Device& d, const std::vector<Values>& in) {
            float* out = d.float_output(T * D);
            d.backend().combine(args(d, in, out));
            return d.read(out, T * D);
          },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            d.backend().combine_backward({args(d, in, nullptr), d.floats(d_out), g[0], g[1]});
          }};
}

// ---- routing --------------------------------------------------------------------------------------------

// Logits far enough apart that a step changes no choice.
Values spaced_logits(int64_t rows, int64_t experts) {
  Values out;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t e = 0; e < experts; ++e)
      out.push_back(0.3f * static_cast<float>((e * 5 + t * 2) % 7));
  }
  return out;
}

struct RouteGradient {
  std::string name;
  RouterScore score;
  bool normalize;
  bool grouped;  // with a selection bias
};

GradientCase route_gradient(const RouteGradient& r) {
  constexpr int64_t T = 2;
  constexpr int64_t E = 6;
  constexpr int64_t K = 3;
  const auto forward = [=](Device& d, const std::vector<Values>& in) {
    const RouteArgs args{.logits = d.floats(in[0]),
                         .rows = T,
                         .experts = E,
                         .top_k = K,
                         .slots = K,
                         .score = r.score,
                         .selection_bias = r.grouped ? d.floats({1, -2, 0, 1, -2, 0}) : nullptr,
                         .groups = r.grouped ? 3 : 1,
                         .kept_groups = r.grouped ? 2 : 1,
                         .group_score = GroupScore::kBestTwo,
                         .normalize = r.normalize,
                         .epsilon = r.normalize ? 0.1f : 0,
                         .scaling = 1.7f,
                         .layer = 0,
                         .probabilities = d.float_output(T * E),
                         .expert_ids = d.int_output(T * K),
                         .weights = d.float_output(T * K)};
    d.backend().route(args);
    return args;
  };
  return {r.name,
          {spaced_logits(T, E)},
          [=](Device& d, const std::vector<Values>& in) {
            const RouteArgs args = forward(d, in);
            Values out = d.read(args.weights, T * K);
            const Values probabilities = d.read(args.probabilities, T * E);
            out.insert(out.end(), probabilities.begin(), probabilities.end());
            return out;
          },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            const float* d_weights = d.floats({d_out.begin(), d_out.begin() + T * K});
            const float* d_probabilities = d.floats({d_out.begin() + T * K, d_out.end()});
            d.backend().route_backward({forward(d, in), d_weights, d_probabilities, g[0]});
          }};
}

GradientCase balance_loss_gradient() {
  constexpr int64_t T = 3;
  constexpr int64_t E = 4;
  constexpr int64_t K = 2;
  const std::vector<int32_t> ids{1, 3, 1, 0, 3, 1};
  const auto sums = [=](Device& d, const std::vector<Values>& in) {
    const RoutingSumsArgs args{d.floats(in[0]),        d.ints(ids),           T, E, K,
                               d.floats(Values(E, 0)), d.floats(Values(E, 0))};
    d.backend().routing_sums(args);
    return args;
  };
  return {"balance_loss",
          {uniform(20, T * E, 0, 1)},
          [=](Device& d, const std::vector<Values>& in) {
            const RoutingSumsArgs s = sums(d, in);
            float* loss = d.floats({0});
            d.backend().balance_loss({s.hits, s.probability_sums, E, T, 0.9f, loss});
            return d.read(loss, 1);
          },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            d.backend().balance_loss_backward({sums(d, in).hits, T, E, T, 0.9f, d.floats(d_out), g[0]});
          }};
}

// ---- attention ------------------------------------------------------------------------------------------

GradientCase rope_gradient(const std::string& name, bool interleaved, int32_t sets) {
  constexpr int64_t T = 3;
  constexpr int64_t H = 2;
  constexpr int64_t A = 4;
  const auto rope = [=](Device& d, const Values& x, float direction) {
    float* out = d.float_output(T * H * A);
    d.backend().rope({.x = d.floats(x),
                      .positions = d.ints({0, 1, 9}),
                      .inverse_frequencies = d.floats({1.0f, 0.1f, 0.7f, 0.2f}),
                      .set_of_row = sets > 1 ? d.ints({1, 0, 1}) : nullptr,
                      .attention_factor = 1.1f,
                      .direction = direction,
                      .interleaved = interleaved,
                      .rows = T,
                      .heads = H,
                      .head_dim = A,
                      .out = out});
    return d.read(out, T * H * A);
  };
  return {name,
          {uniform(21, T * H * A)},
          [=](Device& d, const std::vector<Values>& in) { return rope(d, in[0], 1); },
          [=](Device& d, const std::vector<Values>&, const Values& d_out, const std::vector<float*>& g) {
            const Values d_x = rope(d, d_out, -1);
            d.backend().add({g[0], d.floats(d_x), 1, T * H * A, g[0]});
          }};
}

struct AttentionSizes {
  int64_t rows, kv_heads, heads, head_dim, value_dim, window;
};

// Two sequences, each from position 0 on.
std::vector<int32_t> two_sequences(int64_t rows, bool want_positions) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t sequence = t < rows / 2 ? 0 : 1;
    out.push_back(static_cast<int32_t>(want_positions ? t - sequence * (rows / 2) : sequence));
  }
  return out;
}

struct AttentionOutput {
  float* out;
  float* log_sum_exp;
};

AttentionOutput attend(Device& d, const AttentionSizes& s, const std::vector<Values>& in) {
  constexpr int64_t kBlockSize = 2;
  const int64_t max_blocks = (s.rows + kBlockSize - 1) / kBlockSize;
  std::vector<int32_t> table(static_cast<size_t>(2 * max_blocks));
  std::iota(table.begin(), table.end(), 0);
  const int64_t cached = 2 * max_blocks * kBlockSize * s.kv_heads;
  const KvLayer kv{d.floats(Values(static_cast<size_t>(cached * s.head_dim))),
                   d.floats(Values(static_cast<size_t>(cached * s.value_dim))),
                   DType::kF32,
                   kBlockSize,
                   s.kv_heads,
                   s.head_dim,
                   s.value_dim};
  const StepRows step{d.ints(two_sequences(s.rows, true)), d.ints(two_sequences(s.rows, false)),
                      d.ints(table), s.rows, max_blocks};
  d.backend().kv_write({kv, step, d.floats(in[1]), d.floats(in[2])});
  const AttentionOutput output{d.float_output(s.rows * s.heads * s.value_dim),
                               d.float_output(s.rows * s.heads)};
  d.backend().attention({d.floats(in[0]), kv, step, s.heads, 0.6f, s.window, output.out, output.log_sum_exp});
  return output;
}

GradientCase attention_gradient(const std::string& name, AttentionSizes s) {
  const int64_t q_count = s.rows * s.heads * s.head_dim;
  const int64_t k_count = s.rows * s.kv_heads * s.head_dim;
  const int64_t v_count = s.rows * s.kv_heads * s.value_dim;
  const int64_t out_count = s.rows * s.heads * s.value_dim;
  return {name,
          {uniform(22, q_count), uniform(23, k_count), uniform(24, v_count)},
          [=](Device& d, const std::vector<Values>& in) { return d.read(attend(d, s, in).out, out_count); },
          [=](Device& d, const std::vector<Values>& in, const Values& d_out, const std::vector<float*>& g) {
            const AttentionOutput forward = attend(d, s, in);
            d.backend().attention_backward({.q = d.floats(in[0]),
                                            .k = d.floats(in[1]),
                                            .v = d.floats(in[2]),
                                            .out = forward.out,
                                            .log_sum_exp = forward.log_sum_exp,
                                            .positions = d.ints(two_sequences(s.rows, true)),
                                            .rows = s.rows,
                                            .heads = s.heads,
                                            .kv_heads = s.kv_heads,
                                            .head_dim = s.head_dim,
                                            .value_dim = s.value_dim,
                                            .scale = 0.6f,
                                            .window = s.window,
                                            .d_out = d.floats(d_out),
                                            .d_q = g[0],
                                            .d_k = g[1],
                                            .d_v = g[2]});
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Gradient,
    ::testing::Values(embedding_gradient(), rms_norm_gradient(), swiglu_gradient(), gated_add_gradient(),
                      gather_rows_gradient(), cross_entropy_gradient(), linear_gradient(),
                      expert_linear_gradient(), combine_gradient(),
                      route_gradient({"route", RouterScore::kSoftmax, false, false}),
                      route_gradient({"route_normalized", RouterScore::kSoftmax, true, false}),
                      route_gradient({"route_sigmoid", RouterScore::kSigmoid, false, true}),
                      route_gradient({"route_sigmoid_normalized", RouterScore::kSigmoid, true, true}),
                      balance_loss_gradient(), rope_gradient("rope", false, 1),
                      rope_gradient("rope_interleaved", true, 1), rope_gradient("rope_sets", true, 2),
                      attention_gradient("attention", {7, 1, 1, 3, 3, 0}),
                      attention_gradient("attention_groups", {6, 2, 6, 4, 4, 0}),
                      attention_gradient("attention_window", {9, 1, 2, 3, 3, 2}),
                      attention_gradient("attention_values", {6, 2, 4, 5, 3, 0})),
    [](const auto& test) { return test.param.name; });

std::vector<GradientCase> packed_linear_gradients() {
  std::vector<GradientCase> cases;
  for (const Packing& packing : packings())
    cases.push_back(packed_linear_gradient(packing));
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Packed, Gradient, ::testing::ValuesIn(packed_linear_gradients()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace switchyard
