// Files that torch wrote (scripts/make_pytorch_data.py).
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "io/pytorch.h"
#include "support/expect_error.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

const std::string kFolder = SWITCHYARD_SOURCE_DIR "/tests/data/io/pytorch/";

std::vector<float> values_of(const TensorFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<float> values(static_cast<size_t>(info->size_bytes / size_bytes(info->dtype)));
  convert_to_f32(info->dtype, file.data(*info), static_cast<int64_t>(values.size()), values.data());
  return values;
}

TEST(PytorchFiles, EveryType) {
  const auto file = PytorchFile::open(kFolder + "types.bin");
  const std::map<std::string, DType> types = {{"float64", DType::kF64},
                                              {"float32", DType::kF32},
                                              {"float16", DType::kF16},
                                              {"bfloat16", DType::kBF16},
                                              {"float8_e4m3fn", DType::kF8E4M3},
                                              {"float8_e5m2", DType::kF8E5M2},
                                              {"int64", DType::kI64},
                                              {"int32", DType::kI32},
                                              {"int16", DType::kI16},
                                              {"int8", DType::kI8},
                                              {"uint8", DType::kU8},
                                              {"uint16", DType::kU16},
                                              {"uint32", DType::kU32},
                                              {"bool", DType::kBool}};
  for (const auto& [name, dtype] : types) {
    SCOPED_TRACE(name);
    ASSERT_NE(file->find(name), nullptr);
    EXPECT_EQ(file->find(name)->dtype, dtype);
    EXPECT_THAT(file->find(name)->shape, ElementsAre(2, 3));
    if (name == "bool") {
      EXPECT_THAT(values_of(*file, name), ElementsAre(1, 1, 1, 0, 1, 1));
    } else if (name.starts_with("uint")) {
      EXPECT_THAT(values_of(*file, name), ElementsAre(0, 1, 2, 3, 4, 5));
    } else {
      EXPECT_THAT(values_of(*file, name), ElementsAre(-3, -2, -1, 0, 1, 2));
    }
  }
  EXPECT_THAT(file->find("scalar")->shape, ElementsAre());
  EXPECT_THAT(values_of(*file, "scalar"), ElementsAre(7));
  EXPECT_THAT(file->find("empty")->shape, ElementsAre(0, 3));
  EXPECT_THAT(file->find("empty_too")->shape, ElementsAre(4, 0));
  EXPECT_EQ(file->tensors().size(), types.size() + 3);
  EXPECT_EQ(file->copied_tensors(), 0);
}

// `base` is [4, 6], element i being i - 3.
TEST(PytorchFiles, ViewsOfOneStorage) {
  const auto file = PytorchFile::open(kFolder + "views.bin");
  const auto expect = [&](const std::string& name, const std::vector<int64_t>& shape,
                          const std::function<int(int64_t)>& index) {
    SCOPED_TRACE(name);
    std::vector<float> want;
    int64_t count = 1;
    for (const int64_t dim : shape)
      count *= dim;
    for (int64_t i = 0; i < count; ++i)
      want.push_back(static_cast<float>(index(i) - 3));
    ASSERT_NE(file->find(name), nullptr);
    EXPECT_EQ(file->find(name)->shape, shape);
    EXPECT_EQ(values_of(*file, name), want);
  };
  expect("base", {4, 6}, [](int64_t i) { return static_cast<int>(i); });
  expect("tied", {4, 6}, [](int64_t i) { return static_cast<int>(i); });
  expect("rows", {2, 6}, [](int64_t i) { return static_cast<int>(i + 6); });
  expect("transposed", {6, 4}, [](int64_t i) { return static_cast<int>(i % 4 * 6 + i / 4); });
  expect("columns", {4, 2}, [](int64_t i) { return static_cast<int>(i / 2 * 6 + 2 + i % 2); });
  expect("every_second", {12}, [](int64_t i) { return static_cast<int>(2 * i); });
  expect("expanded", {3}, [](int64_t) { return 0; });
  expect("one_row", {1, 6}, [](int64_t i) { return static_cast<int>(i + 12); });
  EXPECT_EQ(file->copied_tensors(), 4);
  EXPECT_EQ(file->data(*file->find("base")), file->data(*file->find("tied")));
}

TEST(PytorchFiles, StateDictsAndParameters) {
  const auto state = PytorchFile::open(kFolder + "state_dict.bin");
  EXPECT_EQ(state->tensors().size(), 7u);
  EXPECT_THAT(values_of(*state, "0.weight"), ElementsAre(-3, -2, -1, 0, 1, 2));
  EXPECT_EQ(state->find("1.num_batches_tracked")->dtype, DType::kI64);
  EXPECT_THAT(values_of(*state, "1.num_batches_tracked"), ElementsAre(-3));
  const auto parameters = PytorchFile::open(kFolder + "parameters.bin");
  EXPECT_EQ(parameters->tensors().size(), 4u);
  EXPECT_THAT(values_of(*parameters, "1.bias"), ElementsAre(-3, -2));
}

TEST(PytorchFiles, Shards) {
  const Checkpoint checkpoint = Checkpoint::open(kFolder + "sharded");
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(checkpoint.files().size(), 2u);
  EXPECT_TRUE(checkpoint.notes().empty());
  const Checkpoint::View c = checkpoint.tensor("c");
  EXPECT_EQ(c.file, kFolder + "sharded/pytorch_model-00002-of-00002.bin");
  std::vector<float> values(4);
  convert_to_f32(c.dtype, c.data, 4, values.data());
  EXPECT_THAT(values, ElementsAre('c' - 3, 'c' - 2, 'c' - 1, 'c'));
}

TEST(PytorchFiles, RefusesByName) {
  const std::map<std::string, std::string> messages = {
      {"legacy",
       "expected the zip archive that torch.save writes since torch 1.6, got the older format: load it "},
      {"torchscript",
       "expected a dictionary of tensors, as torch.save writes, got a TorchScript program: save its"},
      {"compressed",
       "record '.data/serialization_id': expected a stored record, as torch.save writes, got a compressed "
       "one"},
      {"big_endian", "byteorder: expected little, got 'big'"},
      {"os_system",
       "GLOBAL: expected only what a dictionary of tensors needs (nothing is executed), got posix.system"},
      {"protocol_4", "byte 0, PROTO: expected protocol 2, which torch.save writes by default, got 4"},
      {"nested", "tensor 'model': expected a tensor, as in a flat dictionary of them, got a dictionary of 1"},
      {"number", "tensor 'step': expected a tensor, as in a flat dictionary of them, got 3"},
      {"list", "EMPTY_LIST: expected an opcode that a dictionary of tensors needs, got another one"},
      {"object",
       "GLOBAL: expected only what a dictionary of tensors needs (nothing is executed), got __main__.Object"},
      {"sparse", "got torch._utils._rebuild_sparse_tensor"},
      {"complex", "got torch.ComplexFloatStorage"},
      {"conjugated", "got torch.ComplexFloatStorage"},
      {"other_float8", "got torch.float8_e4m3fnuz"},
      {"meta", "got torch._utils._rebuild_meta_tensor_no_storage"}};
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "refused")) {
    const std::string name = entry.path().stem().string();
    SCOPED_TRACE(name);
    ASSERT_EQ(messages.count(name), 1u);
    expect_error([&] { PytorchFile::open(entry.path().string()); }, messages.at(name));
    ++files;
  }
  EXPECT_EQ(files, messages.size());
}

}  // namespace
}  // namespace switchyard
