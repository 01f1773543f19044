#include "io/safetensors.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/safetensors_bytes.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

SafetensorsHeader parse(std::string_view file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "f.safetensors");
}

void expect_refused(const std::string& header, size_t data_bytes, const std::string& part) {
  SCOPED_TRACE(header);
  const std::string file = safetensors_bytes(header, std::string(data_bytes, '\0'));
  expect_error([&] { parse(file); }, "f.safetensors: " + part);
}

// A header with one tensor 'a' whose entry is given.
void expect_entry_refused(const std::string& entry, size_t data_bytes, const std::string& part) {
  expect_refused("{\"a\": " + entry + "}", data_bytes, "tensor 'a': expected " + part);
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string file = safetensors_bytes(R"({"__metadata__": {"format": "pt"},
      "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
      "a": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [8, 14]}})",
                                             std::string(14, 'x'));
  const SafetensorsHeader header = parse(file);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, DType::kBF16);
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(1, 3));
  EXPECT_EQ(header.tensors[0].offset_bytes, static_cast<int64_t>(file.size()) - 6);
  EXPECT_EQ(header.tensors[0].size_bytes, 6);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, AllowsScalarsEmptyTensorsAndEmptyFiles) {
  const SafetensorsHeader header = parse(safetensors_bytes(
      R"({"s": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
          "e": {"dtype": "F32", "shape": [4, 0], "data_offsets": [0, 0]},
          "t": {"dtype": "U8", "shape": [0], "data_offsets": [8, 8]}})",
      std::string(8, '\0')));
  EXPECT_EQ(header.tensors.size(), 3u);
  EXPECT_TRUE(parse(safetensors_bytes("{}", "")).tensors.empty());
}

TEST(Safetensors, RefusesBrokenHeaderLengths) {
  expect_error([] { parse("1234567"); }, "expected a safetensors file of at least 8 bytes, got 7 bytes");
  expect_error([] { parse(little_endian_64(uint64_t{1} << 60)); },
               "header length: expected at most 100000000 bytes, got 1152921504606846976");
  expect_error([] { parse(little_endian_64(~uint64_t{0})); }, "got 18446744073709551615");
  expect_error([] { parse(little_endian_64(3) + "{}"); },
               "header length: expected at most the 2 bytes that follow, got 3: the file is cut or not");
  expect_error([] { parse(little_endian_64(0)); },
               "header: expected a JSON object starting with '{', got nothing");
}

TEST(Safetensors, RefusesBrokenHeaders) {
  expect_refused("[]", 0, "header: expected a JSON object starting with '{', got '[]");
  expect_refused(" {}", 0, "header: expected a JSON object starting with '{', got ' {}");
  expect_refused("{\"a\": ", 0, "byte 9: expected valid JSON");
  expect_refused("{\"\xFF\": 1}", 0, "byte 3: expected valid JSON");
  expect_refused("{} {}", 0, "byte 4: expected valid JSON");
  expect_refused(R"({"a": {}, "a": {}})", 0, "key 'a': expected each key once in an object, got it twice");
  expect_refused("{\"a\":" + std::string(100, '['), 0, "expected JSON nested at most 64 deep");
  expect_refused(R"({"__metadata__": 3})", 0, "__metadata__: expected an object of strings, got 3");
  expect_refused(R"({"__metadata__": {"k": 3}})", 0, "__metadata__: 'k': expected a string, got 3");
}

TEST(Safetensors, RefusesBrokenEntries) {
  expect_entry_refused("{}", 0, "a key 'dtype', got an object of 0 keys");
  expect_entry_refused("7", 0, "an object with dtype, shape and data_offsets, got 7");
  expect_entry_refused(R"({"dtype": "U8", "shape": []})", 1, "a key 'data_offsets'");
  expect_entry_refused(R"({"dtype": "U8", "shape": [1], "data_offsets": [0, 1], "x": 1})", 1,
                       "only the keys dtype, shape and data_offsets, got also 'x'");
  expect_entry_refused(R"({"dtype": "F4", "shape": [1], "data_offsets": [0, 1]})", 1,
                       "a supported dtype, got \"F4\"");
  expect_entry_refused(R"({"dtype": 5, "shape": [1], "data_offsets": [0, 1]})", 1,
                       "dtype as a string, got 5");
  expect_entry_refused(R"({"dtype": "U8", "shape": 1, "data_offsets": [0, 1]})", 1,
                       "shape as an array, got 1");
  for (const char* dim : {"-1", "1.0", "\"1\"", "null", "9223372036854775808"}) {
    expect_entry_refused(fmt::format(R"({{"dtype": "U8", "shape": [{}], "data_offsets": [0, 1]}})", dim), 1,
                         fmt::format("non-negative integers in shape, got {}", dim));
  }
  expect_entry_refused(R"({"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]})", 0,
                       "a size below 2^63 bytes, got shape [4294967296,4294967296]");
  expect_entry_refused(R"({"dtype": "F64", "shape": [1152921504606846976], "data_offsets": [0, 0]})", 0,
                       "a size below 2^63 bytes, got shape [1152921504606846976]");
}

TEST(Safetensors, RefusesBrokenOffsets) {
  const auto entry = [](const char* offsets) {
    return fmt::format(R"({{"dtype": "U8", "shape": [4], "data_offsets": {}}})", offsets);
  };
  expect_entry_refused(entry("[0]"), 4, "data_offsets as [begin, end], got [0]");
  expect_entry_refused(entry("4"), 4, "data_offsets as [begin, end], got 4");
  expect_entry_refused(entry("[-4, 0]"), 4, "non-negative integers in data_offsets, got [-4,0]");
  expect_entry_refused(entry("[0, 4.0]"), 4, "non-negative integers in data_offsets, got [0,4.0]");
  expect_entry_refused(entry("[4, 0]"), 4, "data_offsets with begin <= end, got [4,0]");
  expect_entry_refused(entry("[0, 5]"), 4, "data_offsets within the 4 bytes of data, got [0,5]");
  expect_entry_refused(entry("[0, 9223372036854775807]"), 4, "data_offsets within the 4 bytes of data");
  expect_entry_refused(entry("[0, 3]"), 4, "4 bytes for U8 [4], got data_offsets [0,3], 3 bytes");
  expect_entry_refused(entry("[1, 5]"), 5, "data to begin at byte");
}

TEST(Safetensors, RefusesOverlapsGapsAndTrailingBytes) {
  const auto two = [](const char* first, const char* second) {
    return fmt::format(R"({{"a": {{"dtype": "U8", "shape": [4], "data_offsets": {}}},
                            "b": {{"dtype": "U8", "shape": [4], "data_offsets": {}}}}})",
                       first, second);
  };
  EXPECT_NO_THROW(parse(safetensors_bytes(two("[4, 8]", "[0, 4]"), "12345678")));
  // The header ends at byte 160.
  const auto b_message = [](const char* found) {
    return fmt::format(
        "tensor 'b': expected data to begin at byte 164, where the previous tensor ends, got {}", found);
  };
  expect_refused(two("[0, 4]", "[3, 7]"), 7, b_message("an overlap: byte 163"));
  expect_refused(two("[0, 4]", "[0, 4]"), 4, b_message("an overlap: byte 160"));
  expect_refused(two("[0, 4]", "[5, 9]"), 9, b_message("a gap: byte 165"));
  expect_refused(two("[0, 4]", "[4, 8]"), 9,
                 "expected the tensors to fill the file up to byte 169, got data that ends at byte 168");
  expect_refused("{}", 1,
                 "expected the tensors to fill the file up to byte 17, got data that ends at byte 16");
}

TEST(Safetensors, RefusesMisalignedTensors) {
  expect_refused(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                     "b": {"dtype": "BF16", "shape": [1], "data_offsets": [1, 3]}})",
                 3, "tensor 'b': expected BF16 at a multiple of 2 bytes in the file, got misaligned: byte");
  std::string header = R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";
  while (header.size() % 4 != 1)
    header += ' ';
  const std::string file = little_endian_64(header.size()) + header + "1234";
  expect_error([&] { parse(file); },
               "tensor 'a': expected F32 at a multiple of 4 bytes in the file, got misaligned");
}

std::string small_file() {
  return safetensors_bytes(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})", "12345678");
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = small_file();
  ASSERT_NO_THROW(parse(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    // A heap copy of exactly this size, so that AddressSanitizer sees a read beyond it.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse({cut.data(), cut.size()}), Error) << size;
  }
}

TEST(Safetensors, NeverCrashesOnAChangedByte) {
  const std::string whole = small_file();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const char byte : {'\0', '\xFF', '"', '9', '}', ','}) {
      std::string changed = whole;
      changed[i] = byte;
      try {
        const SafetensorsHeader header = parse(changed);
        for (const TensorInfo& tensor : header.tensors) {
          EXPECT_LE(tensor.offset_bytes + tensor.size_bytes, static_cast<int64_t>(whole.size()));
        }
      } catch (const Error&) {
      }
    }
  }
}

// Written by the Python library; byte j of tensor i (in the order of names) is 16 i + j, BOOL modulo 2.
TEST(SafetensorsFile, ReadsEveryTypeFromAPythonFile) {
  const auto file = SafetensorsFile::open(SWITCHYARD_SOURCE_DIR "/tests/data/io/all_dtypes.safetensors");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->tensors().size(), 18u);
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    names.emplace_back(name(static_cast<DType>(i)));
  }
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorInfo* tensor = file->find("tensor." + names[i]);
    ASSERT_NE(tensor, nullptr) << names[i];
    EXPECT_EQ(name(tensor->dtype), names[i]);
    EXPECT_THAT(tensor->shape, ElementsAre(2, 3));
    ASSERT_EQ(tensor->size_bytes, 6 * size_bytes(tensor->dtype));
    for (size_t j = 0; j < static_cast<size_t>(tensor->size_bytes); ++j) {
      const size_t expected = (16 * i + j) % (names[i] == "BOOL" ? 2 : 256);
      ASSERT_EQ(std::to_integer<size_t>(file->data(*tensor)[j]), expected) << names[i] << " byte " << j;
    }
  }
  float scalar = 0;
  std::memcpy(&scalar, file->data(*file->find("scalar")), sizeof(scalar));
  EXPECT_EQ(scalar, 1.5f);
  EXPECT_THAT(file->find("empty")->shape, ElementsAre(0, 7));
  EXPECT_EQ(*file->data(*file->find("ümläut")), std::byte{42});
  EXPECT_EQ(file->find("tensor.F33"), nullptr);
}

TEST(SafetensorsFile, NamesTheFileInErrors) {
  const TempFolder folder;
  expect_error([&] { SafetensorsFile::open(folder.path("x.safetensors")); },
               folder.path("x.safetensors") + ": ");
  expect_error(
      [&] { SafetensorsFile::open(folder.write("y.safetensors", "123")); },
      folder.path("y.safetensors") + ": expected a safetensors file of at least 8 bytes, got 3 bytes");
}

// 100 GB of data that the disk does not hold: whoever read it would need a minute, and memory for it.
TEST(SafetensorsFile, OpeningReadsTheHeaderOnly) {
  constexpr int64_t kDataBytes = 100'000'000'000;
  const TempFolder folder;
  const std::string header = fmt::format(
      R"({{"a": {{"dtype": "U8", "shape": [{}], "data_offsets": [0, {}]}}}})", kDataBytes, kDataBytes);
  const std::string head = safetensors_bytes(header, "");
  const std::string path = folder.write("big.safetensors", head);
  std::error_code error;
  std::filesystem::resize_file(path, head.size() + static_cast<size_t>(kDataBytes), error);
  if (error) GTEST_SKIP() << "no sparse files here: " << error.message();

  const auto begin = std::chrono::steady_clock::now();
  const auto file = SafetensorsFile::open(path);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(file->find("a")->size_bytes, kDataBytes);

  // No page of the data is in memory: look at 1 GB in the middle.
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t length = size_t{1} << 30;
  std::vector<unsigned char> resident(length / page_bytes);
  auto* middle = const_cast<std::byte*>(file->file().data()) + (size_t{50} << 30);
  ASSERT_EQ(mincore(middle, length, resident.data()), 0);
  EXPECT_THAT(resident, testing::Each(testing::ResultOf([](unsigned char r) { return r & 1; }, 0)));
}

}  // namespace
}  // namespace switchyard
