#include "io/gguf_file.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gguf_bytes.h"
#include "support/golden.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

constexpr uint32_t kU32 = 4, kText = 8, kList = 9;

GgufHeader parse(std::string_view file) {
  return parse_gguf(std::as_bytes(std::span(file)), "f.gguf");
}

void expect_refused(const std::string& file, const std::string& part) {
  expect_error([&] { parse(file); }, "f.gguf: " + part);
}

void expect_pair_refused(const std::string& pair, const std::string& part) {
  expect_refused(gguf_bytes({pair}, {}, 0), part);
}

void expect_tensor_refused(const std::string& tensor, const std::string& part) {
  expect_refused(gguf_bytes({}, {tensor}, 64), part);
}

TEST(GgufFile, ReadsEveryKindOfValue) {
  const auto list = [](uint32_t type, uint64_t count, const std::string& values) {
    return gguf_number(type) + gguf_number(count) + values;
  };
  const GgufHeader header = parse(gguf_bytes(
      {gguf_pair("u8", 0, gguf_number<uint8_t>(200)), gguf_pair("i8", 1, gguf_number<int8_t>(-2)),
       gguf_pair("u16", 2, gguf_number<uint16_t>(60000)), gguf_pair("i16", 3, gguf_number<int16_t>(-3)),
       gguf_pair("u32", kU32, gguf_number<uint32_t>(4000000000)), gguf_pair("i32", 5, gguf_number(-4)),
       gguf_pair("f32", 6, gguf_number(0.5f)), gguf_pair("bool", 7, std::string(1, '\1')),
       gguf_pair("text", kText, gguf_string("grüß")),
       gguf_pair("list", kList, list(kText, 2, gguf_string("a") + gguf_string(""))),
       gguf_pair("lists", kList, list(kList, 1, list(0, 2, "\1\2"))),
       gguf_pair("u64", 10, gguf_number(std::numeric_limits<uint64_t>::max())),
       gguf_pair("i64", 11, gguf_number<int64_t>(-5)), gguf_pair("f64", 12, gguf_number(0.25))},
      {}, 0));
  EXPECT_EQ(Json(header.metadata),
            Json::parse(R"({"u8": 200, "i8": -2, "u16": 60000, "i16": -3, "u32": 4000000000, "i32": -4,
                            "f32": 0.5, "bool": true, "text": "grüß", "list": ["a", ""], "lists": [[1, 2]],
                            "u64": 18446744073709551615, "i64": -5, "f64": 0.25})"));
}

TEST(GgufFile, ReadsTensorsWithTheirDimensionsReversed) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string file = gguf_bytes(
        {}, {gguf_tensor("b", {2, 3}, 0, 0), gguf_tensor("a", {32, 2}, 8, 32)}, 32 + 2 * 34, version);
    const GgufHeader header = parse(file);
    ASSERT_EQ(header.tensors.size(), 2u);
    const GgufTensor& a = header.tensors[0];
    EXPECT_EQ(a.name, "a");
    EXPECT_EQ(a.format, MatrixFormat::kQ8_0);
    EXPECT_THAT(a.shape, ElementsAre(2, 32));
    EXPECT_EQ(a.row_bytes(), 34);
    EXPECT_EQ(a.size_bytes, 68);
    EXPECT_EQ(a.offset_bytes, static_cast<int64_t>(file.size()) - 68);
    const GgufTensor& b = header.tensors[1];
    EXPECT_EQ(b.format, MatrixFormat::kPlain);
    EXPECT_EQ(b.dtype, DType::kF32);
    EXPECT_THAT(b.shape, ElementsAre(3, 2));
    EXPECT_EQ(b.size_bytes, 24);
  }
}

TEST(GgufFile, FollowsTheAlignmentOfTheFile) {
  std::string file = "GGUF" + gguf_number(3) + gguf_number<uint64_t>(1) + gguf_number<uint64_t>(1) +
                     gguf_pair("general.alignment", kU32, gguf_number(8)) + gguf_tensor("t", {1}, 0, 8);
  file.resize((file.size() + 7) / 8 * 8);
  const int64_t data = static_cast<int64_t>(file.size());
  EXPECT_EQ(parse(file + std::string(12, 'x')).tensors.at(0).offset_bytes, data + 8);
  for (const uint32_t bad : {0u, 4u, 24u, 1u << 21}) {
    expect_pair_refused(gguf_pair("general.alignment", kU32, gguf_number(bad)),
                        "key 'general.alignment': expected a power of two in [8, 1048576]");
  }
  expect_pair_refused(gguf_pair("general.alignment", kText, gguf_string("8")), "key 'general.alignment'");
}

TEST(GgufFile, RefusesOtherFilesAndVersions) {
  expect_refused("", "expected a file that begins with 'GGUF'");
  expect_refused("GGU", "expected a file that begins with 'GGUF'");
  expect_refused("GGML", "expected a file that begins with 'GGUF'");
  expect_refused(gguf_bytes({}, {}, 0, 1), "version: expected 2 or 3, got 1");
  expect_refused(gguf_bytes({}, {}, 0, 4), "version: expected 2 or 3, got 4");
  expect_refused(gguf_bytes({}, {}, 0, 0x03000000), "version: expected a little-endian file");
}

// A file cut anywhere before its data is refused; no cut reads outside.
TEST(GgufFile, RefusesCutFiles) {
  const std::string file =
      gguf_bytes({gguf_pair("text", kText, gguf_string("abc")),
                  gguf_pair("list", kList, gguf_number(0) + gguf_number<uint64_t>(2) + "ab")},
                 {gguf_tensor("t", {8}, 0, 0)}, 32);
  parse(file);
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_THROW(parse(std::string_view(file).substr(0, size)), Error) << size;
}

TEST(GgufFile, RefusesBadCounts) {
  const auto header = [](uint64_t tensors, uint64_t pairs) {
    return "GGUF" + gguf_number(3) + gguf_number(tensors) + gguf_number(pairs);
  };
  expect_refused(header((1 << 20) + 1, 0), "number of tensors: expected at most 1048576, got 1048577");
  expect_refused(header(0, 65537), "number of metadata pairs: expected at most 65536, got 65537");
  expect_refused(header(0, std::numeric_limits<uint64_t>::max()), "number of metadata pairs");
  expect_refused(header(1000, 0), "tensor name, length: expected 8 bytes, got the end of the file after 0");
}

TEST(GgufFile, RefusesBadPairs) {
  expect_pair_refused(gguf_number<uint64_t>(1025), "metadata key, length: expected at most 1024, got 1025");
  expect_pair_refused(gguf_pair("a\xff", kU32, ""), "metadata key: expected valid UTF-8");
  expect_pair_refused(gguf_pair("k", 13, ""), "key 'k': expected a value type from 0 to 12, got 13");
  expect_pair_refused(gguf_pair("k", 7, "\2"), "key 'k': expected a boolean, 0 or 1, got 2");
  expect_pair_refused(gguf_pair("k", kText, gguf_string("\xc3")), "key 'k': expected valid UTF-8");
  expect_pair_refused(gguf_pair("k", kText, gguf_number<uint64_t>((16 << 20) + 1)), "key 'k', length");
  expect_pair_refused(gguf_pair("k", kList, gguf_number(0) + gguf_number<uint64_t>((8 << 20) + 1)),
                      "key 'k', count: expected at most 8388608, got 8388609");
  const std::string pair = gguf_pair("k", kU32, gguf_number(1));
  expect_refused(gguf_bytes({pair, pair}, {}, 0), "key 'k': expected each key once");
  std::string nested;
  for (int i = 0; i < 5; ++i)
    nested += gguf_number(kList) + gguf_number<uint64_t>(1);
  expect_pair_refused(gguf_pair("k", kList, nested), "key 'k': expected arrays at most 4 deep");
}

TEST(GgufFile, RefusesBadTensors) {
  expect_tensor_refused(gguf_tensor("t", {}, 0, 0), "tensor 't': expected 1 to 4 dimensions, got 0");
  expect_tensor_refused(gguf_tensor("t", {1, 1, 1, 1, 1}, 0, 0), "tensor 't': expected 1 to 4 dimensions");
  expect_tensor_refused(gguf_tensor("t", {4, 0}, 0, 0), "tensor 't': expected dimensions above 0");
  expect_tensor_refused(gguf_tensor("t", {uint64_t{1} << 63}, 0, 0), "tensor 't', dimension");
  expect_tensor_refused(gguf_tensor("t", {uint64_t{1} << 62}, 0, 0), "tensor 't': expected a size below");
  expect_tensor_refused(gguf_tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0),
                        "tensor 't': expected a size below");
  expect_tensor_refused(
      gguf_tensor("t", {32}, 6, 0),
      "tensor 't': expected type F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K, got Q5_0");
  expect_tensor_refused(
      gguf_tensor("t", {32}, 777, 0),
      "tensor 't': expected type F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K, got type 777");
  expect_tensor_refused(gguf_tensor("t", {48}, 8, 0), "tensor 't': expected rows of whole Q8_0 blocks of 32");
  expect_tensor_refused(gguf_tensor("t", {4}, 0, 4),
                        "tensor 't': expected an offset that is a multiple of 32");
  expect_tensor_refused(gguf_tensor("t", {16}, 0, 32), "tensor 't': expected elements within the 64 bytes");
  expect_tensor_refused(gguf_tensor("t", {4}, 0, std::numeric_limits<int64_t>::max() - 31),
                        "tensor 't': expected elements within the 64 bytes");
  expect_refused(gguf_bytes({}, {gguf_tensor("t", {1}, 0, 0), gguf_tensor("t", {1}, 0, 32)}, 64),
                 "tensor 't': expected each name once");
  expect_refused(gguf_bytes({}, {gguf_tensor("t", {16}, 0, 0), gguf_tensor("u", {1}, 0, 32)}, 64),
                 "tensor 'u': expected elements behind byte");
}

TEST(GgufFile, ReadsWhatAnotherProgramWrote) {
  const auto file = GgufFile::open(SWITCHYARD_SOURCE_DIR "/tests/data/gguf/blocks.gguf");
  EXPECT_EQ(file->metadata().at("general.architecture"), "none");
  for (const auto& [name, want] :
       read_reference(SWITCHYARD_SOURCE_DIR "/tests/data/gguf/blocks.safetensors")) {
    const GgufTensor* tensor = file->find(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(tensor->shape, want.shape) << name;
    const int64_t cols = tensor->cols();
    const Matrix matrix{.data = file->data(*tensor),
                        .dtype = tensor->dtype,
                        .rows = tensor->shape[0],
                        .cols = cols,
                        .format = tensor->format};
    const auto row_of = [&](int64_t row, int64_t begin, int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      decode_row(matrix, row, begin, count, values.data());
      return values;
    };
    for (int64_t row = 0; row < matrix.rows; ++row) {
      const std::vector<float> wanted(want.values.begin() + row * cols,
                                      want.values.begin() + (row + 1) * cols);
      const std::vector<float> got = row_of(row, 0, cols);
      EXPECT_EQ(got, wanted) << name;  // bit for bit
      const std::vector<float> middle(got.begin() + 13, got.begin() + 13 + 301);
      EXPECT_EQ(row_of(row, 13, 301), middle) << name << ": from and to the middle of a block";
    }
  }
  EXPECT_EQ(file->find("Q2_K"), nullptr);
}

}  // namespace
}  // namespace switchyard
