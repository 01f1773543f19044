#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "ops/op_case.h"

namespace switchyard {
namespace {

struct BackendUnderTest {
  std::string bits;  // backends with the same name here must give the same bits
  std::unique_ptr<Backend> backend;
};

std::vector<BackendUnderTest> make_backends(Activations activations) {
  std::vector<BackendUnderTest> list;
  for (const Isa isa : isas_of_machine()) {
    for (const int threads : {1, 2, 3}) {
      const CpuOptions options{threads, isa, activations};
      list.push_back({"cpu " + std::string(name(isa)), std::make_unique<CpuBackend>(options)});
    }
  }
  return list;
}

// Every backend that must pass a case. A new device is one more entry.
const std::vector<BackendUnderTest>& backends_for(const OpCase& op) {
  static const std::vector<BackendUnderTest> exact = make_backends(Activations::kFloat32);
  static const std::vector<BackendUnderTest> rounded = make_backends(Activations::kRounded);
  return op.activations == Activations::kRounded ? rounded : exact;
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> all;
  for (const auto& part : {row_cases(), linear_cases(), expert_cases(), packed_cases(), rounded_cases(),
                           attention_cases(), routing_cases()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Output> run(const OpCase& op, Backend& backend, Rows rows) {
  Device device(backend);
  std::vector<Output> outputs = op.run(device, rows);
  device.check_sentinels();
  return outputs;
}

bool close(float got, float want, double tolerance) {
  if (std::isnan(want) || std::isinf(want)) return std::isnan(want) ? std::isnan(got) : got == want;
  return std::abs(static_cast<double>(got) - want) <=
         tolerance * std::max(1.0, std::abs(static_cast<double>(want)));
}

void expect_close(const std::vector<Output>& got, const std::vector<Output>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(got[o].values.size(), want[o].values.size()) << want[o].name;
    for (size_t i = 0; i < want[o].values.size(); ++i) {
      ASSERT_TRUE(close(got[o].values[i], want[o].values[i], want[o].tolerance))
          << want[o].name << " " << i << " of " << want[o].values.size() << ": got " << got[o].values[i]
          << ", want " << want[o].values[i] << ", tolerance " << want[o].tolerance;
    }
  }
}

// `part` must have the bits of rows [begin, ...) of `whole`, which has `rows` rows.
void expect_same_bits(const std::vector<Output>& part, const std::vector<Output>& whole, int64_t begin,
                      int64_t rows) {
  ASSERT_EQ(part.size(), whole.size());
  for (size_t o = 0; o < part.size(); ++o) {
    const size_t width = whole[o].values.size() / static_cast<size_t>(std::max<int64_t>(rows, 1));
    const size_t offset = static_cast<size_t>(begin) * width;
    ASSERT_LE(offset + part[o].values.size(), whole[o].values.size());
    for (size_t i = 0; i < part[o].values.size(); ++i) {
      const float got = part[o].values[i];
      const float want = whole[o].values[offset + i];
      ASSERT_EQ(std::memcmp(&got, &want, sizeof got), 0)
          << whole[o].name << " " << offset + i << ": got " << got << ", want " << want;
    }
  }
}

class OpTable : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpTable, AgreesWithTheReference) {
  const OpCase& op = GetParam();
  ReferenceBackend reference(op.activations);
  const std::vector<Output> want = run(op, reference, {0, op.rows});
  std::set<std::string> seen;
  for (const BackendUnderTest& tested : backends_for(op)) {
    if (!seen.insert(tested.bits).second) continue;  // the next test shows that it gives the same
    SCOPED_TRACE(tested.backend->description());
    expect_close(run(op, *tested.backend, {0, op.rows}), want);
    if (HasFatalFailure()) return;
  }
}

TEST_P(OpTable, SameBitsForAnyThreads) {
  const OpCase& op = GetParam();
  std::map<std::string, std::vector<Output>> first;
  for (const BackendUnderTest& tested : backends_for(op)) {
    SCOPED_TRACE(tested.backend->description());
    std::vector<Output> outputs = run(op, *tested.backend, {0, op.rows});
    const auto [it, is_first] = first.emplace(tested.bits, outputs);
    if (!is_first) expect_same_bits(outputs, it->second, 0, op.rows);
    if (HasFatalFailure()) return;
  }
}

class RowOpTable : public ::testing::TestWithParam<OpCase> {};

TEST_P(RowOpTable, SameBitsForAnyBatch) {
  const OpCase& op = GetParam();
  std::vector<Rows> parts{{0, op.rows / 2}, {op.rows / 2, op.rows}, {0, std::min<int64_t>(op.rows, 7)}};
  for (const int64_t row : {int64_t{0}, op.rows / 3, op.rows - 1}) {
    if (row >= 0 && row < op.rows) parts.push_back({row, row + 1});
  }
  for (const BackendUnderTest& tested : backends_for(op)) {
    SCOPED_TRACE(tested.backend->description());
    const std::vector<Output> whole = run(op, *tested.backend, {0, op.rows});
    for (const Rows& rows : parts) {
      expect_same_bits(run(op, *tested.backend, rows), whole, rows.begin, op.rows);
      if (HasFatalFailure()) return;
    }
  }
}

std::vector<OpCase> row_op_cases() {
  std::vector<OpCase> cases = all_cases();
  std::erase_if(cases, [](const OpCase& op) { return !op.rows_independent; });
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<OpCase>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTable, ::testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, RowOpTable, ::testing::ValuesIn(row_op_cases()), case_name);

}  // namespace
}  // namespace switchyard
