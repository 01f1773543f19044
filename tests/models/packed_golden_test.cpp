// Quantised checkpoints: matrices against an independent dequantisation, to the bit; logits against those of
// the dequantised weights; and the equality of all ways to cut a batch.
#include <filesystem>

#include <gtest/gtest.h>

#include "io/packed/packed_matrix.h"
#include "support/golden.h"
#include "support/model_runner.h"

namespace switchyard {
namespace {

constexpr double kLogitTolerance = 2e-4;  // absolute

std::string packed_root() {
  return SWITCHYARD_SOURCE_DIR "/tests/data/golden_packed/";
}

std::vector<std::string> packed_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(packed_root()))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class PackedMatrices : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, PackedMatrices, testing::ValuesIn(packed_cases()),
                         [](const auto& instance) { return instance.param; });

TEST_P(PackedMatrices, AreTheDequantisedOnesToTheBit) {
  const std::string folder = packed_root() + GetParam();
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const auto config = read_quantization_config(ConfigReader::open(folder + "/config.json"));
  ASSERT_TRUE(config);
  size_t packed = 0;
  for (const auto& [name, want] : read_reference(folder + "/dequantised.safetensors")) {
    const std::string module = name.substr(0, name.size() - std::string(".weight").size());
    const int64_t rows = want.shape[0];
    const int64_t cols = want.shape[1];
    const auto loaded = load_packed_matrix(checkpoint, config, module, rows, cols);
    if (!loaded) continue;
    ++packed;
    std::vector<float> got(want.values.size());
    for (int64_t row = 0; row < rows; ++row)
      decode_row(loaded->matrix.matrix(), row, 0, cols, got.data() + row * cols);
    EXPECT_EQ(got, want.values) << name;
    std::vector<float> middle(static_cast<size_t>(cols / 2));
    decode_row(loaded->matrix.matrix(), rows - 1, cols / 3, cols / 2, middle.data());
    const auto from = want.values.end() - cols + cols / 3;
    EXPECT_EQ(middle, std::vector<float>(from, from + cols / 2)) << name << ", part of a row";
  }
  EXPECT_GE(packed, 1u);
}

class PackedModel : public testing::TestWithParam<std::tuple<std::string, size_t>> {
 protected:
  std::string folder_ = packed_root() + std::get<0>(GetParam());
  std::unique_ptr<Backend> backend_ = backends_under_test()[std::get<1>(GetParam())].make();
  std::unique_ptr<Model> model_ = load_model(folder_, *backend_);
  std::map<std::string, ReferenceTensor> reference_ = read_reference(folder_ + "/reference.safetensors");
  std::vector<std::vector<int32_t>> sequences_ = sequences_of(reference_.at("input_ids"));
};
INSTANTIATE_TEST_SUITE_P(All, PackedModel,
                         testing::Combine(testing::ValuesIn(packed_cases()),
                                          testing::Range(size_t{0}, backends_under_test().size())),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" +
                                  backends_under_test()[std::get<1>(instance.param)].name;
                         });

TEST_P(PackedModel, LogitsAreThoseOfTheDequantisedWeights) {
  EXPECT_LE(largest_difference(all_logits(*backend_, *model_, sequences_), reference_.at("logits").values),
            kLogitTolerance);
}

TEST_P(PackedModel, EveryWayToCutTheWorkGivesTheSameBits) {
  const std::vector<float> together = all_logits(*backend_, *model_, sequences_);
  EXPECT_EQ(all_logits(*backend_, *model_, sequences_, 1), together) << "token by token, batched";
  EXPECT_EQ(all_logits(*backend_, *model_, sequences_, 5), together) << "in chunks of 5";
  std::vector<float> one_by_one;
  for (const auto& sequence : sequences_) {
    const std::vector<float> alone = all_logits(*backend_, *model_, {sequence}, 1 << 30, 3);
    one_by_one.insert(one_by_one.end(), alone.begin(), alone.end());
  }
  EXPECT_EQ(one_by_one, together) << "each sequence alone";
}

}  // namespace
}  // namespace switchyard
