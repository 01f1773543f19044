#include "models/accounting.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "backend/cpu/reference.h"
#include "models/registry.h"
#include "support/golden.h"

namespace switchyard {
namespace {

int64_t total(const Accounting& accounting, Component component) {
  return accounting.by_component[static_cast<size_t>(component)].total;
}

TEST(Accounting, OfAGoldenModelCountsItsFile) {
  ReferenceBackend backend;
  for (const std::string& name : golden_cases()) {
    const auto model = load_model(golden_root() + name, backend);
    const Accounting accounting = account(*model);
    const Checkpoint checkpoint = Checkpoint::open(golden_root() + name);
    int64_t elements = 0;
    for (const std::string& tensor : checkpoint.names()) {
      const auto& shape = checkpoint.find(tensor)->shape;
      elements += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    }
    EXPECT_EQ(accounting.sum.total, elements) << name;
    EXPECT_EQ(accounting.stored_bytes, checkpoint.total_bytes()) << name;
    int64_t components = 0;
    double active = 0;
    for (const ParameterCount& count : accounting.by_component) {
      components += count.total;
      active += count.active;
    }
    EXPECT_EQ(components, elements) << name;
    EXPECT_DOUBLE_EQ(active, accounting.sum.active) << name;
    const ModelShape& s = model->shape();
    const double sleeping =
        s.experts == 0 ? 0.0 : 1.0 - static_cast<double>(s.top_k) / static_cast<double>(s.experts);
    EXPECT_DOUBLE_EQ(active, static_cast<double>(elements) -
                                 sleeping * static_cast<double>(total(accounting, Component::kExperts)))
        << name;
  }
}

Accounting account_config(const std::string& name, const std::function<void(const Model&)>& look) {
  ReferenceBackend backend;
  DeclaredWeights weights(DType::kBF16);
  const auto config =
      ConfigReader::open(SWITCHYARD_SOURCE_DIR "/tests/data/configs/" + name + "/config.json");
  const auto model = make_model(config, weights, backend);
  look(*model);
  return account(*model);
}

TEST(Accounting, OfAPublishedModelByComponent) {
  const Accounting small = account_config("qwen1.5-moe-a2.7b", [](const Model& model) {
    EXPECT_EQ(model.shape().kv_bytes_per_token(DType::kBF16), 24 * 2 * 2048 * 2);
  });
  EXPECT_EQ(std::lround(static_cast<double>(small.sum.total) / 1e8), 143);
  EXPECT_EQ(std::lround(small.sum.active / 1e8), 27);
  EXPECT_EQ(total(small, Component::kEmbedding), int64_t{151936} * 2048);
  EXPECT_EQ(total(small, Component::kOutput), int64_t{151936} * 2048);
  EXPECT_EQ(total(small, Component::kRouter), 24 * 60 * 2048);
  EXPECT_EQ(total(small, Component::kExperts), int64_t{24} * 60 * 3 * 2048 * 1408);
  EXPECT_EQ(total(small, Component::kSharedExperts), int64_t{24} * (3 * 2048 * 5632 + 2048));
  EXPECT_EQ(total(small, Component::kAttention), int64_t{24} * (4 * 2048 * 2048 + 3 * 2048));
  EXPECT_EQ(total(small, Component::kNorm), 49 * 2048);
  EXPECT_EQ(total(small, Component::kDense), 0);
  EXPECT_EQ(small.stored_bytes, small.sum.total * 2);
}

// Totals and parameters active per token as the models' authors publish them, to the last digit given.
struct Published {
  const char* config;
  double total;          // in billions
  double active;         // in billions
  double digit;          // of both figures
  bool count_embedding;  // whether the authors count the input embedding as active
  int64_t kv_elements;   // cached per token
};

class PublishedModel : public testing::TestWithParam<Published> {};

INSTANTIATE_TEST_SUITE_P(All, PublishedModel,
                         testing::Values(Published{"qwen1.5-moe-a2.7b", 14.3, 2.7, 0.1, true, 24 * 2 * 2048},
                                         Published{"qwen2-57b-a14b", 57.4, 14.2, 0.1, true, 28 * 2 * 512},
                                         Published{"qwen3-30b-a3b", 30.5, 3.3, 0.1, true, 48 * 2 * 512},
                                         Published{"qwen3-235b-a22b", 235, 22, 1, true, 94 * 2 * 512},
                                         Published{"mixtral-8x7b", 46.7, 12.9, 0.1, true, 32 * 2 * 1024},
                                         Published{"mixtral-8x22b", 141, 39, 1, true, 56 * 2 * 1024},
                                         Published{"deepseek-moe-16b", 16.4, 2.8, 0.1, true, 28 * 2 * 2048},
                                         Published{"deepseek-v2-lite", 15.7, 2.4, 0.1, false, 27 * 576},
                                         Published{"deepseek-v2", 236, 21, 1, true, 60 * 576},
                                         Published{"deepseek-v3", 671, 37, 1, false, 61 * 576},
                                         Published{"olmoe-1b-7b", 6.9, 1.3, 0.1, true, 16 * 2 * 2048}),
                         [](const auto& instance) {
                           std::string name = instance.param.config;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

TEST_P(PublishedModel, HasThePublishedParameters) {
  const Published& p = GetParam();
  const Accounting counted = account_config(p.config, [&](const Model& model) {
    EXPECT_EQ(model.shape().kv_bytes_per_token(DType::kBF16), p.kv_elements * 2);
  });
  double active = counted.sum.active;
  if (!p.count_embedding) active -= static_cast<double>(total(counted, Component::kEmbedding));
  EXPECT_NEAR(static_cast<double>(counted.sum.total) / 1e9, p.total, p.digit / 2);
  EXPECT_NEAR(active / 1e9, p.active, p.digit / 2);
}

// Layers numbered from 1 that are no multiple of the step are dense; so all are with a step of 4.
TEST(Accounting, OfAModelWithoutSparseLayers) {
  Json config =
      parse_json(read_file(golden_root() + "qwen2_moe/config.json", kMaxConfigBytes), "config.json");
  config["decoder_sparse_step"] = 4;
  ReferenceBackend backend;
  DeclaredWeights weights(DType::kF32);
  const auto model = make_model(ConfigReader(config, "config.json"), weights, backend);
  EXPECT_EQ(model->shape().experts, 0);
  EXPECT_EQ(model->shape().top_k, 0);
  const Accounting accounting = account(*model);
  for (const Component none : {Component::kRouter, Component::kExperts, Component::kSharedExperts}) {
    EXPECT_EQ(total(accounting, none), 0) << name(none);
  }
  EXPECT_EQ(total(accounting, Component::kDense), 3 * 3 * 32 * 48);
  EXPECT_EQ(accounting.sum.active, static_cast<double>(accounting.sum.total));
}

TEST(Accounting, DistinctExpertsOfABatch) {
  EXPECT_DOUBLE_EQ(expected_distinct_experts(60, 4, 0), 0);
  EXPECT_DOUBLE_EQ(expected_distinct_experts(60, 4, 1), 4);
  EXPECT_DOUBLE_EQ(expected_distinct_experts(60, 4, 2), 4 + 4 * 56.0 / 60);
  EXPECT_DOUBLE_EQ(expected_distinct_experts(8, 8, 3), 8);
  EXPECT_NEAR(expected_distinct_experts(60, 4, 10000), 60, 1e-9);
  EXPECT_DOUBLE_EQ(expected_distinct_experts(0, 0, 5), 0);
}

TEST(Accounting, ParametersReadPerStep) {
  account_config("qwen1.5-moe-a2.7b", [](const Model& model) {
    const Accounting accounting = account(model);
    // One sequence: what is active, but one row of the embedding.
    EXPECT_NEAR(parameters_read_per_step(model, accounting, 1), accounting.sum.active - (151936.0 - 1) * 2048,
                1.0);
    // Very many: every expert.
    const auto embedding = static_cast<double>(total(accounting, Component::kEmbedding));
    EXPECT_NEAR(parameters_read_per_step(model, accounting, 1000),
                static_cast<double>(accounting.sum.total) - embedding + 1000 * 2048, 1.0);
  });
}

}  // namespace
}  // namespace switchyard
