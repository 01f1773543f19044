#include "io/safetensors_writer.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/json.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

using testing::ElementsAre;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

size_t files_in(const TempFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(SafetensorsWriter, OrdersByElementSizeThenName) {
  const TempFolder folder;
  const SafetensorsWriter writer(folder.path("f"), {{"z", DType::kF32, {1}},
                                                    {"b", DType::kU8, {3}},
                                                    {"a", DType::kU8, {1}},
                                                    {"h", DType::kBF16, {3}},
                                                    {"l", DType::kI64, {}}});
  std::vector<std::string> names;
  for (const TensorInfo& tensor : writer.tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.offset_bytes % size_bytes(tensor.dtype), 0) << tensor.name;
  }
  EXPECT_THAT(names, ElementsAre("l", "z", "h", "a", "b"));
}

TEST(SafetensorsWriter, RoundTripsInPieces) {
  const TempFolder folder;
  const std::string path = folder.path("f.safetensors");
  SafetensorsWriter writer(
      path, {{"bytes", DType::kU8, {2, 3}}, {"empty", DType::kF64, {0}}, {"ü", DType::kF32, {1}}},
      {{"format", "pt"}});
  writer.write("ü", bytes_of("1234"));
  writer.write("bytes", bytes_of("ab"));
  writer.write("bytes", bytes_of("cdef"));
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();
  EXPECT_EQ(files_in(folder), 1u);

  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const TensorInfo* bytes = file->find("bytes");
  ASSERT_NE(bytes, nullptr);
  EXPECT_THAT(bytes->shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(file->data(*bytes), "abcdef", 6), 0);
  EXPECT_EQ(std::memcmp(file->data(*file->find("ü")), "1234", 4), 0);
  EXPECT_EQ(file->find("empty")->size_bytes, 0);
  EXPECT_EQ(file->data(*file->find("ü")) - file->file().data(), writer.tensors()[1].offset_bytes);
}

// Read and written again, a file of the Python library keeps every tensor.
TEST(SafetensorsWriter, CopiesAPythonFile) {
  const TempFolder folder;
  const auto source = SafetensorsFile::open(SWITCHYARD_SOURCE_DIR "/tests/data/io/all_dtypes.safetensors");
  std::vector<TensorDeclaration> declared;
  for (const TensorInfo& tensor : source->tensors()) {
    declared.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer(folder.path("copy"), declared, source->metadata());
  for (const TensorInfo& tensor : writer.tensors()) {
    writer.write(tensor.name,
                 {source->data(*source->find(tensor.name)), static_cast<size_t>(tensor.size_bytes)});
  }
  writer.finish();
  const auto copy = SafetensorsFile::open(folder.path("copy"));
  EXPECT_EQ(copy->metadata(), source->metadata());
  ASSERT_EQ(copy->tensors().size(), source->tensors().size());
  for (const TensorInfo& tensor : source->tensors()) {
    const TensorInfo* copied = copy->find(tensor.name);
    ASSERT_NE(copied, nullptr) << tensor.name;
    EXPECT_EQ(copied->dtype, tensor.dtype);
    EXPECT_EQ(copied->shape, tensor.shape);
    EXPECT_EQ(std::memcmp(copy->data(*copied), source->data(tensor), static_cast<size_t>(tensor.size_bytes)),
              0)
        << tensor.name;
  }
}

// Quadratic time in the number of tensors, in the writer or the reader, would need minutes.
TEST(SafetensorsWriter, TakesManyTensors) {
  const TempFolder folder;
  std::vector<TensorDeclaration> declared;
  for (int i = 0; i < 100'000; ++i)
    declared.push_back({fmt::format("{}", i), DType::kF32, {0}});
  const auto begin = std::chrono::steady_clock::now();
  SafetensorsWriter writer(folder.path("f"), declared);
  writer.finish();
  EXPECT_EQ(SafetensorsFile::open(folder.path("f"))->tensors().size(), declared.size());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(SafetensorsWriter, WritesAnEmptyFile) {
  const TempFolder folder;
  SafetensorsWriter writer(folder.path("f"), {});
  writer.finish();
  EXPECT_EQ(read_file(folder.path("f"), 100), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, LeavesNothingHalfWritten) {
  const TempFolder folder;
  folder.write("f", "precious");
  {
    SafetensorsWriter writer(folder.path("f"), {{"a", DType::kU8, {6}}});
    writer.write("a", bytes_of("abc"));
    EXPECT_EQ(files_in(folder), 2u);
  }
  EXPECT_EQ(files_in(folder), 1u);
  EXPECT_EQ(read_file(folder.path("f"), 100), "precious");
}

TEST(SafetensorsWriter, SaysWhereItCannotWrite) {
  const TempFolder folder;
  expect_error([&] { SafetensorsWriter(folder.path("none/f"), {}); },
               ".tmp: expected a file that can be written, got No such file");
  std::filesystem::create_directory(folder.path("taken"));
  SafetensorsWriter writer(folder.path("taken"), {});
  expect_error([&] { writer.finish(); },
               folder.path("taken") + ": expected a file that can be replaced, got ");
}

TEST(SafetensorsWriter, SaysThatTheDiskIsFull) {
  const TempFolder folder;
  // A limit on file sizes stands for the full disk.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    SafetensorsWriter writer(folder.path("f"), {{"a", DType::kU8, {10'000}}});
    const std::vector<std::byte> data(10'000);
    expect_error([&] { writer.write("a", data); }, "more bytes, got File too large");
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(files_in(folder), 0u);
}

TEST(SafetensorsWriterDeathTest, AbortsOnMisuse) {
  const TempFolder folder;
  EXPECT_DEATH(SafetensorsWriter(folder.path("f"), {{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}),
               "tensor name 'a'");
  SafetensorsWriter writer(folder.path("f"), {{"a", DType::kU8, {1}}, {"b", DType::kU8, {1}}});
  EXPECT_DEATH(writer.write("b", bytes_of("1")), "'b' written where 'a' comes next");
  EXPECT_DEATH(writer.write("a", bytes_of("12")), "2 bytes for tensor 'a' that lacks 1");
  EXPECT_DEATH(writer.finish(), "before tensor 'a' is complete");
}

}  // namespace
}  // namespace switchyard
