// Rotary positions against what transformers computes (scripts/make_rope_data.py).
#include "models/rope.h"

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "support/expect_error.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

// Two powers, a quotient and a few products, each rounded; another one's pow differs in the last bit.
constexpr double kRelative = 1e-6;

const Json& cases() {
  static const std::string kPath = SWITCHYARD_SOURCE_DIR "/tests/data/models/rope.json";
  static const Json kCases = parse_json(read_file(kPath, 1 << 20), kPath);
  return kCases;
}

RopeConfig config_of(const Json& config) {
  const ConfigReader reader(config, "config.json");
  return read_rope_config(reader, 10000);
}

RopeConfig config_of(const char* text) {
  return config_of(parse_json(text, "config.json"));
}

int64_t max_positions(const Json& a_case) {
  return a_case.at("config").at("max_position_embeddings");
}

TEST(RopeFrequencies, AreThoseOfTransformers) {
  ASSERT_FALSE(cases().empty());
  for (const Json& c : cases()) {
    const RopeConfig rope = config_of(c.at("config"));
    for (const Json& at : c.at("lengths")) {
      SCOPED_TRACE(fmt::format("{}, {} tokens", std::string(c.at("name")), int64_t(at.at("length"))));
      const RopeFrequencies got =
          rope_frequencies(rope, c.at("rotary_dim"), max_positions(c), at.at("length"));
      const auto want = at.at("inverse_frequencies").get<std::vector<double>>();
      ASSERT_EQ(got.inverse.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got.inverse[i], want[i], kRelative * want[i]) << "pair " << i;
      EXPECT_NEAR(got.attention_factor, double(at.at("attention_factor")), kRelative);
    }
  }
}

TEST(RopeFrequencies, ScaleDeepSeeksScoresAsTransformersDoes) {
  std::set<double> scales;
  for (const Json& c : cases()) {
    const double want = c.at("deepseek_scale");
    EXPECT_NEAR(deepseek_attention_scale(config_of(c.at("config")), 1 / std::sqrt(192.0)), want, 1e-15 * want)
        << c.at("name");
    scales.insert(want);
  }
  EXPECT_GE(scales.size(), 4u) << "every case is alike";
}

// Up to the constant length frequencies are one set, and behind it they differ.
TEST(RopeFrequencies, AreConstantUpToTheConstantLength) {
  const auto inverse = [](const RopeConfig& rope, int64_t length) {
    return rope_frequencies(rope, 6, 64, length).inverse;
  };
  const RopeConfig dynamic = config_of(R"({"rope_scaling": {"type": "dynamic", "factor": 3}})");
  const RopeConfig longrope = config_of(
      R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1.5, 2], "long_factor": [2, 5, 9],
          "original_max_position_embeddings": 16}})");
  EXPECT_EQ(constant_rope_length(dynamic, 64), 64);
  EXPECT_EQ(constant_rope_length(longrope, 64), 16);
  EXPECT_EQ(inverse(dynamic, 64), inverse(dynamic, 1));
  EXPECT_NE(inverse(dynamic, 65), inverse(dynamic, 1));
  EXPECT_NE(inverse(dynamic, 66), inverse(dynamic, 65));
  EXPECT_EQ(inverse(longrope, 16), inverse(longrope, 1));
  EXPECT_NE(inverse(longrope, 17), inverse(longrope, 1));
  EXPECT_EQ(inverse(longrope, 99), inverse(longrope, 17));
  for (const Json& c : cases()) {
    const RopeConfig rope = config_of(c.at("config"));
    if (rope.type != "dynamic" && rope.type != "longrope") {
      EXPECT_EQ(constant_rope_length(rope, max_positions(c)), INT64_MAX) << rope.type;
    }
  }
}

TEST(RopeFrequencies, RefuseWhatDoesNotFit) {
  const auto expect_refused = [](const std::string& rope, int64_t rotary_dim, const std::string& message) {
    const RopeConfig config = config_of(("{\"rope_scaling\": " + rope + "}").c_str());
    expect_error([&] { rope_frequencies(config, rotary_dim, 64, 1); }, "config.json: rope_scaling" + message);
  };
  const auto longrope = [](const char* short_factor, const char* long_factor, int original) {
    return fmt::format(R"({{"type": "longrope", "short_factor": {}, "long_factor": {},
                            "original_max_position_embeddings": {}}})",
                       short_factor, long_factor, original);
  };
  expect_refused(longrope("[1]", "[1, 2]", 16), 4,
                 ".short_factor: expected 2 numbers, one for each pair, got 1");
  expect_refused(longrope("[1, 2]", "[1, 2, 3]", 16), 4,
                 ".long_factor: expected 2 numbers, one for each pair, got 3");
  expect_refused(longrope("[1, 2]", "[1, 2]", 1), 4,
                 ": expected parameters of type longrope that give a finite attention factor, got inf");
  expect_refused(longrope("[1e-45, 2]", "[1, 2]", 16), 4,
                 ": expected parameters of type longrope that give a finite frequency, got inf");
  expect_refused(R"({"type": "dynamic", "factor": 2})", 2,
                 ".rope_type: expected another one than dynamic for heads that rotate 2 values, got dynamic");
  expect_refused(R"({"type": "yarn", "factor": 2, "original_max_position_embeddings": 16, "rope_theta": 1})",
                 4, ".rope_theta: expected a number above 1 for type yarn, got 1");
}

TEST(RopeFrequencies, RotateWholeHeadsOnly) {
  check_full_rotation(
      config_of(R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.0}})"));
  expect_error(
      [] {
        check_full_rotation(
            config_of(R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})"));
      },
      "config.json: rope_parameters.partial_rotary_factor: expected 1: this family rotates whole heads, got "
      "0.5");
}

// Rotary positions on a backend, and steps for them.
class Rotary {
 public:
  explicit Rotary(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  RotaryEmbedding bind(const RopeConfig& config, const RopeShape& shape, DType precision = DType::kF32) {
    Binder binder(weights_, *backend_, arena_, parameters_);
    return RotaryEmbedding::bind(binder, config, shape, precision);
  }
  Batch batch(const std::vector<int32_t>& positions, std::vector<int32_t> rope_lengths) {
    Context c = context();
    Batch b;
    b.tokens = b.positions = upload(c, positions);
    b.rope_lengths = std::move(rope_lengths);
    return b;
  }
  Context context() { return {.backend = *backend_, .arena = arena_}; }
  std::vector<int32_t> sets(const Rope& rope) {
    std::vector<int32_t> values(static_cast<size_t>(rope.set_of_row.elements()));
    backend_->copy_to_host(values.data(), rope.set_of_row.data(), rope.set_of_row.bytes());
    return values;
  }
  std::vector<float> values(const Tensor& tensor) { return to_host(*backend_, tensor); }

 private:
  std::unique_ptr<Backend> backend_;
  Arena arena_{backend_->memory()};
  DeclaredWeights weights_{DType::kF32};
  std::vector<Parameter> parameters_;
};

// The error of an angle is that of its frequency times the position.
TEST(RotaryEmbedding, RotatesAsTransformersDoes) {
  int tested = 0;
  for (const BackendUnderTest& backend : backends_under_test()) {
    Rotary on(backend.make());
    for (const Json& c : cases()) {
      if (!c.contains("rotation")) continue;
      SCOPED_TRACE(fmt::format("{}, {}", backend.name, std::string(c.at("name"))));
      const Json& rotation = c.at("rotation");
      const int64_t dim = c.at("rotary_dim");
      const auto positions = rotation.at("positions").get<std::vector<int32_t>>();
      const auto head = rotation.at("x").get<std::vector<float>>();
      std::vector<float> x;
      for (size_t t = 0; t < positions.size(); ++t)
        x.insert(x.end(), head.begin(), head.end());
      const RopeConfig config = config_of(c.at("config"));
      const RotaryEmbedding rotary = on.bind(
          config,
          {.rotary_dim = dim, .max_positions = max_positions(c), .interleaved = rotation.at("interleaved")});
      const int32_t length = positions.back() + 1;
      const Batch rows = on.batch(positions, std::vector<int32_t>(positions.size(), length));
      Context context = on.context();
      const Tensor on_device = upload(context, x).reshaped({rows.size(), dim});
      const std::vector<float> got =
          on.values(rope(context, on_device, rows.positions, rotary.for_step(context, rows), 1));
      for (size_t t = 0; t < positions.size(); ++t) {
        const auto want = rotation.at("rotated").at(t).get<std::vector<double>>();
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[t * want.size() + i], want[i], 1e-6 + positions[t] * 0x1p-23)
              << "position " << positions[t] << ", value " << i;
        }
      }
      ++tested;
    }
  }
  EXPECT_GT(tested, 7);
}

TEST(RotaryEmbedding, NamesOneSetForEachDistinctLength) {
  Rotary on(std::make_unique<ReferenceBackend>());
  const RopeConfig dynamic = config_of(R"({"rope_scaling": {"type": "dynamic", "factor": 3}})");
  const RotaryEmbedding rotary = on.bind(dynamic, {.rotary_dim = 6, .max_positions = 10});
  Context c = on.context();
  EXPECT_FALSE(rotary.for_step(c, on.batch({0, 1}, {10, 3})).set_of_row);
  const Rope rope = rotary.for_step(c, on.batch({4, 11, 6, 10, 13}, {5, 12, 9, 12, 14}));
  EXPECT_EQ(on.sets(rope), (std::vector<int32_t>{0, 1, 0, 1, 2}));
  std::vector<float> want;
  for (const int64_t length : {1, 12, 14}) {
    const std::vector<float> inverse = rope_frequencies(dynamic, 6, 10, length).inverse;
    want.insert(want.end(), inverse.begin(), inverse.end());
  }
  EXPECT_EQ(on.values(rope.inverse_frequencies), want);

  const RopeConfig longrope = config_of(
      R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1.5, 2], "long_factor": [2, 5, 9],
          "original_max_position_embeddings": 10}})");
  const RotaryEmbedding two = on.bind(longrope, {.rotary_dim = 6, .max_positions = 100});
  EXPECT_EQ(on.sets(two.for_step(c, on.batch({99, 4, 11}, {100, 5, 12}))), (std::vector<int32_t>{0, 1, 0}));
}

// As .to(torch.bfloat16) does to a whole model in transformers.
TEST(RotaryEmbedding, RoundsTheFrequenciesThatACastModelHolds) {
  Rotary on(std::make_unique<ReferenceBackend>());
  Context c = on.context();
  const auto frequencies = [&](const char* config, int32_t length, DType precision) {
    const RotaryEmbedding rotary =
        on.bind(config_of(config), {.rotary_dim = 6, .max_positions = 8}, precision);
    return on.values(rotary.for_step(c, on.batch({length - 1}, {length})).inverse_frequencies);
  };
  const auto rounded = [](std::vector<float> values) {
    for (float& value : values)
      value = bf16_to_f32(f32_to_bf16(value));
    return values;
  };
  const char* longrope =
      R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1.5, 2], "long_factor": [2.1, 5, 9],
          "original_max_position_embeddings": 8}})";
  const char* dynamic = R"({"rope_scaling": {"type": "dynamic", "factor": 2}})";
  for (const auto& [config, length] : {std::pair{"{}", 4}, {longrope, 4}, {longrope, 12}, {dynamic, 4}}) {
    const std::vector<float> exact = frequencies(config, length, DType::kF32);
    EXPECT_NE(exact, rounded(exact));
    EXPECT_EQ(frequencies(config, length, DType::kBF16), rounded(exact));
  }
  EXPECT_EQ(frequencies(dynamic, 12, DType::kBF16), frequencies(dynamic, 12, DType::kF32));
}

}  // namespace
}  // namespace switchyard
