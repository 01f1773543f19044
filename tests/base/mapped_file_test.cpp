#include "base/mapped_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace switchyard {
namespace {

TEST(Bytes, ArithmeticStopsAtTheLimits) {
  EXPECT_EQ(checked_add(INT64_MAX - 1, 1), INT64_MAX);
  EXPECT_EQ(checked_add(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_add(INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(checked_mul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(checked_mul(int64_t{1} << 32, int64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(INT64_MAX, 0), 0);
}

TEST(MappedFile, ShowsTheBytes) {
  const TempFolder folder;
  const MappedFile file(folder.write("f", "abc"));
  EXPECT_EQ(file.size_bytes(), 3);
  EXPECT_EQ(file.bytes()[2], std::byte{'c'});
  EXPECT_NO_THROW(file.verify_unchanged());
}

TEST(MappedFile, RefusesWhatIsNotAFileWithContent) {
  const TempFolder folder;
  expect_error([&] { MappedFile file(folder.path("none")); },
               folder.path("none") + ": expected a readable file, got No such file");
  expect_error([&] { MappedFile file(folder.path()); }, "expected a regular file, got a folder");
  expect_error([&] { MappedFile file("/dev/zero"); }, "expected a regular file, got a special file");
  expect_error([&] { MappedFile file(folder.write("e", "")); },
               "expected a file with content, got an empty file");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expect_error([&] { MappedFile file(folder.path("pipe")); }, "expected a regular file, got a special file");
}

TEST(MappedFile, MovesItsMapping) {
  const TempFolder folder;
  MappedFile a(folder.write("a", "first"));
  MappedFile b(std::move(a));
  EXPECT_EQ(b.bytes()[0], std::byte{'f'});
  MappedFile c(folder.write("c", "other"));
  c = std::move(b);
  EXPECT_EQ(c.bytes()[0], std::byte{'f'});
  EXPECT_EQ(c.path(), folder.path("a"));
}

TEST(MappedFile, SaysThatTheFileWasCut) {
  const TempFolder folder;
  const MappedFile file(folder.write("f", std::string(20'000, 'x')));
  std::filesystem::resize_file(file.path(), 5);
  expect_error(
      [&] { file.verify_unchanged(); },
      "expected the 20000 bytes it had when it was opened, got 5 bytes: it was changed while in use");
}

// Resident bytes of mapped files.
int64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stoll(line.substr(8)) * 1024;
  }
  ADD_FAILURE() << "no RssFile";
  return 0;
}

TEST(MappedFile, ReleasesPagesAndReadsThemAgain) {
  constexpr int64_t kSize = 8 << 20;
  const TempFolder folder;
  const MappedFile file(folder.write("f", std::string(kSize, 'x')));
  const auto touch = [&] { return std::count(file.bytes().begin(), file.bytes().end(), std::byte{'x'}); };
  const int64_t before = resident_file_bytes();
  EXPECT_EQ(touch(), kSize);
  EXPECT_GE(resident_file_bytes(), before + kSize);
  file.release_pages(file.data() + 5, kSize - 5);
  EXPECT_LE(resident_file_bytes(), before + kSize / 2);
  EXPECT_EQ(touch(), kSize);
  file.release_pages(file.data() + kSize, 0);
}

TEST(MappedFile, SaysThatTheFileWasRewritten) {
  const TempFolder folder;
  const MappedFile file(folder.write("f", "abc"));
  const auto later = std::filesystem::last_write_time(file.path()) + std::chrono::seconds(2);
  std::filesystem::last_write_time(file.path(), later);
  expect_error([&] { file.verify_unchanged(); }, "got another modification time");
}

TEST(MappedFile, SurvivesReplacementByRename) {
  const TempFolder folder;
  const MappedFile file(folder.write("f", "old"));
  std::filesystem::rename(folder.write("g", "new"), file.path());
  EXPECT_EQ(file.bytes()[0], std::byte{'o'});
  EXPECT_NO_THROW(file.verify_unchanged());
}

}  // namespace
}  // namespace switchyard
