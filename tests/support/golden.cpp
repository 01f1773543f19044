#include "support/golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

namespace switchyard {

std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_root())) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

double relative_norm(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-12);
}

std::vector<std::vector<int32_t>> sequences_of(const ReferenceTensor& input_ids) {
  const std::vector<int32_t> ids = input_ids.ids();
  const auto length = static_cast<size_t>(input_ids.shape[1]);
  std::vector<std::vector<int32_t>> sequences;
  for (size_t i = 0; i < ids.size(); i += length) {
    sequences.emplace_back(ids.begin() + static_cast<int64_t>(i),
                           ids.begin() + static_cast<int64_t>(i + length));
  }
  return sequences;
}

}  // namespace switchyard
