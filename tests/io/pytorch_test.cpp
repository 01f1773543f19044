// Hand-made PyTorch checkpoints, right and wrong. Files that torch wrote: pytorch_files_test.cpp.
#include "io/pytorch.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pytorch_bytes.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

// Float i is i.
std::string counting_floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

std::vector<PytorchView> parse(std::string_view file) {
  return parse_pytorch(std::as_bytes(std::span(file)), "f.bin");
}

void expect_refused(std::string_view file, const std::string& message) {
  expect_error([&] { parse(file); }, "f.bin: " + message);
}

const PickledTensor kSix = {.storage_elements = 6, .shape = {2, 3}, .strides = {3, 1}};

std::string file_of(const PickledTensor& tensor) {
  return pytorch_bytes(pickled_dictionary({{"a", tensor.pickle()}}), {{"0", counting_floats(6)}});
}

std::vector<float> floats(const PytorchFile& file, std::string_view name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(info->size_bytes) / sizeof(float));
  convert_to_f32(info->dtype, file.data(*info), static_cast<int64_t>(values.size()), values.data());
  return values;
}

TEST(Pytorch, ReadsTensorsInPlace) {
  const std::string pickle = pickled_dictionary(
      {{"b", PickledTensor{"HalfStorage", "x", 2, 1, {1}, {1}}.pickle()}, {"a", kSix.pickle()}});
  const std::string file = pytorch_bytes(pickle, {{"0", counting_floats(6)}, {"x", "half"}});
  const std::vector<PytorchView> views = parse(file);
  ASSERT_EQ(views.size(), 2u);
  const TensorInfo& a = views[0].info;
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  EXPECT_EQ(a.size_bytes, 24);
  EXPECT_EQ(file.substr(static_cast<size_t>(a.offset_bytes), 24), counting_floats(6));
  const TensorInfo& b = views[1].info;
  EXPECT_EQ(b.dtype, DType::kF16);
  EXPECT_EQ(file.substr(static_cast<size_t>(b.offset_bytes), static_cast<size_t>(b.size_bytes)), "lf");
}

TEST(Pytorch, ReadsViewsOfOneStorage) {
  const auto view = [](int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return PickledTensor{"FloatStorage", "0", 6, offset, std::move(shape), std::move(strides)}.pickle();
  };
  const TempFolder folder;
  const std::string path =
      folder.write("f.bin", pytorch_bytes(pickled_dictionary({{"all", view(0, {2, 3}, {3, 1})},
                                                              {"empty", view(6, {0, 4}, {9, 9})},
                                                              {"one_row", view(3, {1, 3}, {77, 1})},
                                                              {"repeated", view(2, {3}, {0})},
                                                              {"scalar", view(5, {}, {})},
                                                              {"transposed", view(0, {3, 2}, {1, 3})}}),
                                          {{"0", counting_floats(6)}}));
  const auto file = PytorchFile::open(path);
  EXPECT_THAT(floats(*file, "all"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(floats(*file, "empty"), ElementsAre());
  EXPECT_THAT(floats(*file, "one_row"), ElementsAre(3, 4, 5));
  EXPECT_THAT(floats(*file, "repeated"), ElementsAre(2, 2, 2));
  EXPECT_THAT(floats(*file, "scalar"), ElementsAre(5));
  EXPECT_THAT(floats(*file, "transposed"), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(file->copied_tensors(), 2);
  EXPECT_EQ(file->copied_bytes(), 36);
  EXPECT_EQ(file->data(*file->find("one_row")) - file->data(*file->find("all")), 12);
}

TEST(Pytorch, ReadsZip64) {
  const std::string file = zip_bytes(
      pytorch_records(pickled_dictionary({{"a", kSix.pickle()}}), {{"0", counting_floats(6)}}), true);
  EXPECT_EQ(file.substr(static_cast<size_t>(parse(file)[0].info.offset_bytes), 24), counting_floats(6));
}

TEST(Pytorch, ReadsAnEmptyDictionary) {
  EXPECT_TRUE(parse(pytorch_bytes(pickled_dictionary({}), {})).empty());
}

TEST(Pytorch, RefusesEveryCut) {
  const std::string file = file_of(kSix);
  for (size_t length = 0; length < file.size(); ++length) {
    SCOPED_TRACE(length);
    expect_refused(file.substr(0, length), "");
  }
}

// Whatever byte is damaged, the tensors lie in the file or it is refused.
TEST(Pytorch, SurvivesEveryDamagedByte) {
  const std::string good = file_of(kSix);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\x7F', '\xFF', static_cast<char>(good[at] ^ 1)}) {
      std::string file = good;
      file[at] = value;
      try {
        for (const PytorchView& view : parse(file)) {
          ASSERT_GE(view.info.offset_bytes, 0) << at;
          ASSERT_LE(view.info.offset_bytes + view.info.size_bytes, static_cast<int64_t>(file.size())) << at;
        }
      } catch (const Error&) {
      }
    }
  }
}

TEST(Pytorch, RefusesOtherKindsOfFiles) {
  expect_refused("\x80\x02}q.",
                 "expected the zip archive that torch.save writes since torch 1.6, got a bare pickle");
  expect_refused("GGUF", "expected a zip archive");
  expect_refused(zip_bytes({}), "expected an archive with data.pkl, got an empty archive");
}

TEST(Pytorch, RefusesRecords) {
  const auto refuse = [](const std::function<void(std::vector<ZipRecord>&)>& change,
                         const std::string& message) {
    std::vector<ZipRecord> records =
        pytorch_records(pickled_dictionary({{"a", kSix.pickle()}}), {{"0", counting_floats(6)}});
    change(records);
    expect_refused(zip_bytes(records), message);
  };
  const auto add = [&](const std::string& name, const std::string& message) {
    refuse([&](auto& records) { records.push_back({name, "x"}); }, message);
  };
  // data.pkl, byteorder, data/0, version
  refuse([](auto& r) { r.erase(r.begin()); }, "expected a record 'data.pkl', got none");
  refuse([](auto& r) { r.erase(r.begin() + 2); }, "expected a record 'data/0', got none");
  refuse([](auto& r) { r.erase(r.begin() + 3); }, "expected a record 'version', got none");
  refuse([](auto& r) { r[1].content = "big"; }, "byteorder: expected little, got 'big'");
  for (const char* version : {"0\n", "11\n", "3000000000\n", "-1\n", "x\n", "", "\n"}) {
    refuse([&](auto& r) { r[3].content = version; }, "version: expected 1 to 10, got '");
  }
  refuse([](auto& r) { r[2].content.pop_back(); },
         "tensor 'a': expected 24 bytes in record 'data/0', got 23");
  refuse([](auto& r) { r[2].content += 'x'; }, "tensor 'a': expected 24 bytes in record 'data/0', got 25");
  refuse([](auto& r) { r[2].padding = 1; },
         "record 'data/0': expected F32 at a multiple of 4 bytes in the file, got ");
  refuse([](auto& r) { r[2].method = 8; },
         "record 'data/0': expected a stored record, as torch.save writes, got a compressed one");
  add("m/data/1", "record 'data/1': expected a storage that a tensor uses, got one that none does");
  add("m/constants.pkl",
      "record 'constants.pkl': expected a dictionary of tensors, as torch.save writes, got a TorchS");
  add("m/code/a.py",
      "record 'code/a.py': expected a dictionary of tensors, as torch.save writes, got a TorchScript");
  add("m/extra", "record 'extra': expected only what torch.save writes, got another record");
  add("n/data.pkl",
      "entry 'n/data.pkl': expected every entry in one folder, as torch.save writes, got one outside");
  add("data.pkl", "entry 'data.pkl': expected every entry in one folder");
  EXPECT_NO_THROW(
      refuse([](auto& r) { r.erase(r.begin() + 1, r.begin() + 3); }, "expected a record 'data/0'"));
}

TEST(Pytorch, AllowsNotesAndNoByteOrder) {
  std::vector<ZipRecord> records =
      pytorch_records(pickled_dictionary({{"a", kSix.pickle()}}), {{"0", counting_floats(6)}});
  records.erase(records.begin() + 1);
  records.push_back({"m/.data/serialization_id", "1"});
  EXPECT_EQ(parse(zip_bytes(records)).size(), 1u);
}

TEST(Pytorch, RefusesStoragesThatTheArchiveDoesNotHave) {
  PickledTensor tensor = kSix;
  tensor.storage_elements = 7;
  expect_refused(file_of(tensor), "tensor 'a': expected 28 bytes in record 'data/0', got 24");
  tensor = kSix;
  tensor.key = "../0";
  expect_refused(file_of(tensor), "expected a record 'data/../0', got none");
}

TEST(Pytorch, RefusesCopiesBeyondTheFile) {
  PickledTensor expanded = kSix;
  expanded.shape = {int64_t{1} << 40};
  expanded.strides = {0};
  expect_refused(file_of(expanded), "tensor 'a': expected views that are not contiguous with at most ");
  std::vector<std::pair<std::string, std::string>> many;
  PickledTensor transposed = kSix;
  transposed.strides = {1, 2};
  const std::string first = transposed.pickle() + "q\x01";
  for (int i = 0; i < 1000; ++i)
    many.emplace_back(std::to_string(i), i == 0 ? first : "h\x01");
  expect_refused(pytorch_bytes(pickled_dictionary(many), {{"0", counting_floats(6)}}),
                 "tensor '499': expected views that are not contiguous with at most ");
}

}  // namespace
}  // namespace switchyard
