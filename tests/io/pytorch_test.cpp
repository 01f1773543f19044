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

using pickled::integer;
using pickled::integers;
using pickled::text;
using pickled::tuple;
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

// One tensor 'a' by its pickle, and a storage '0' of six floats.
void expect_value_refused(const std::string& value, const std::string& message) {
  expect_refused(pytorch_bytes(pickled_dictionary({{"a", value}}), {{"0", counting_floats(6)}}),
                 "data.pkl: tensor 'a': expected " + message);
}

const PickledTensor kSix = {.storage_elements = 6, .shape = {2, 3}, .strides = {3, 1}};

std::string file_of(const PickledTensor& tensor) {
  return pytorch_bytes(pickled_dictionary({{"a", tensor.pickle()}}), {{"0", counting_floats(6)}});
}

void expect_tensor_refused(const PickledTensor& tensor, const std::string& message) {
  expect_value_refused(tensor.pickle(), message);
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

TEST(Pytorch, RefusesViewsOutsideTheStorage) {
  const auto refuse = [](int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides,
                         const std::string& message) {
    PickledTensor tensor = kSix;
    tensor.offset = offset;
    tensor.shape = std::move(shape);
    tensor.strides = std::move(strides);
    expect_tensor_refused(tensor, message);
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::string outside = "a view within the 6 elements of the storage, got size [";
  refuse(1, {2, 3}, {3, 1}, outside + "2, 3], stride [3, 1] from element 1");
  refuse(6, {}, {}, outside + "], stride [] from element 6");
  refuse(7, {0}, {1}, outside + "0], stride [1] from element 7");
  refuse(0, {7}, {1}, outside);
  refuse(0, {2}, {6}, outside);
  refuse(0, {3}, {kHuge}, outside);
  refuse(0, {3, 2}, {3, kHuge}, outside);
  refuse(0, {2, 2}, {kHuge, kHuge}, outside);
  refuse(INT64_MAX, {2}, {1}, outside);
  refuse(0, {kHuge}, {0}, "a size below 2^63 bytes, got size [4611686018427387904]");
  refuse(0, {kHuge, 0}, {0, 0}, "a size below 2^63 bytes");
  refuse(0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}, "a size below 2^63 bytes");
  refuse(-1, {2}, {1}, "storage offset of 0 or more, got -1");
  refuse(0, {-2}, {1}, "size of 0 or more, got -2");
  refuse(0, {2}, {-1}, "stride of 0 or more, got -1");
  refuse(0, {2}, {}, "1 strides for 1 dimensions, got 0");
  refuse(0, {}, {1}, "0 strides for 0 dimensions, got 1");
  refuse(0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1),
         "size as a tuple of at most 8, got a tuple of 9");
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

TEST(Pytorch, RefusesStorages) {
  PickledTensor tensor = kSix;
  tensor.storage_elements = 5;
  expect_tensor_refused(tensor, "a view within the 5 elements of the storage");
  tensor.storage_elements = -6;
  expect_tensor_refused(tensor, "storage size of 0 or more, got -6");
  tensor.storage_elements = INT64_MAX;
  expect_tensor_refused(tensor, "a storage below 2^63 bytes, got 9223372036854775807 elements");
  tensor = kSix;
  tensor.storage_elements = 7;
  expect_refused(file_of(tensor), "tensor 'a': expected 28 bytes in record 'data/0', got 24");
  tensor = kSix;
  tensor.key = "../0";
  expect_refused(file_of(tensor), "expected a record 'data/../0', got none");
  tensor = kSix;
  tensor.storage_type = "ComplexFloatStorage";
  expect_refused(file_of(tensor), "data.pkl: byte ");
}

TEST(Pytorch, RefusesOtherCalls) {
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n";
  const std::string type = "ctorch\nFloatStorage\n";
  const auto storage = [&](const std::string& kind, const std::string& storage_type, const std::string& key) {
    return tuple({kind, storage_type, key, text("cpu"), integer(6)}) + "Q";
  };
  const std::string good = storage(text("storage"), type, text("0"));
  const std::string no_hooks = pickled::kOrderedDict;
  const auto call = [&](const std::string& from, const std::string& requires_grad, const std::string& hooks) {
    return rebuild + tuple({from, integer(0), integers({6}), integers({1}), requires_grad, hooks}) + "R";
  };
  EXPECT_EQ(parse(pytorch_bytes(pickled_dictionary({{"a", call(good, "\x88", no_hooks)}}),
                                {{"0", counting_floats(6)}}))
                .size(),
            1u);
  expect_value_refused(call(good, "N", no_hooks), "requires_grad as True or False, got None");
  expect_value_refused(call(good, "\x89", "}NNs"), "no backward hooks, got a dictionary of 1");
  expect_value_refused(call(good, "\x89", "N"), "no backward hooks, got None");
  expect_value_refused(call("N", "\x89", no_hooks), "a storage, got None");
  expect_value_refused(call(storage(text("module"), type, text("0")), "\x89", no_hooks),
                       "a storage, got 'module'");
  expect_value_refused(call(storage("N", type, text("0")), "\x89", no_hooks),
                       "a text in the storage, got None");
  expect_value_refused(call(storage(text("storage"), "N", text("0")), "\x89", no_hooks),
                       "a typed storage, got None");
  expect_value_refused(call(storage(text("storage"), "ctorch\nfloat8_e5m2\n", text("0")), "\x89", no_hooks),
                       "a typed storage, got torch.float8_e5m2");
  expect_value_refused(call(storage(text("storage"), type, "N"), "\x89", no_hooks),
                       "a text in the storage, got None");
  expect_value_refused(rebuild + tuple({good, integer(0)}) + "R",
                       "6 arguments of a plain tensor, got a tuple of 2");
  expect_value_refused(rebuild + tuple({good, integer(0), integer(6), integers({1}), "\x89", no_hooks}) + "R",
                       "size as a tuple of at most 8, got 6");
  expect_value_refused(
      rebuild + tuple({good, integer(0), tuple({"N"}), integers({1}), "\x89", no_hooks}) + "R",
      "size of 0 or more, got None");
  expect_value_refused("ctorch._utils\n_rebuild_parameter\n" + tuple({"N", "\x89", no_hooks}) + "R",
                       "a tensor, as in a flat dictionary of them, got None");
  expect_value_refused("ctorch._utils\n_rebuild_parameter\n" + tuple({call(good, "\x89", no_hooks)}) + "R",
                       "3 arguments of a parameter, got a tuple of 1");
  expect_value_refused(type + ")R",
                       "a tensor, as in a flat dictionary of them, got a call of torch.FloatStorage");
  expect_value_refused("}", "a tensor, as in a flat dictionary of them, got a dictionary of 0");
}

TEST(Pytorch, RefusesOtherRoots) {
  const auto refuse = [](const std::string& pickle, const std::string& message) {
    expect_refused(pytorch_bytes(pickle, {}), "data.pkl: " + message);
  };
  refuse(pickled::kProto + "N.", "expected a dictionary of tensors, got None");
  refuse(pickled::kProto + "}K\x01Ns.", "expected tensor names as keys, got 1");
  const std::string six = kSix.pickle();
  refuse(pickled_dictionary({{"a", six}, {"a", six}}),
         "tensor 'a': expected each name once, got the same name again");
}

}  // namespace
}  // namespace switchyard
