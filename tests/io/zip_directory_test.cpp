#include "io/zip_directory.h"

#include <string>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pytorch_bytes.h"

namespace switchyard {
namespace {

std::vector<ZipEntry> read(std::string_view file) {
  return read_zip_directory(std::as_bytes(std::span(file)), "f.bin");
}

void expect_refused(std::string_view file, const std::string& message) {
  expect_error([&] { read(file); }, "f.bin: " + message);
}

const std::vector<ZipRecord> kTwo = {{"m/a", "first"}, {"m/b", "2"}};

TEST(ZipDirectory, FindsContents) {
  for (const bool zip64 : {false, true}) {
    SCOPED_TRACE(zip64);
    const std::string file =
        zip_bytes({{"m/a", "first"}, {"m/empty", ""}, {"m/b", std::string(300, 'x')}}, zip64);
    const std::vector<ZipEntry> entries = read(file);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].name, "m/a");
    EXPECT_EQ(entries[0].size_bytes, 5);
    EXPECT_EQ(entries[0].offset_bytes % 64, 0);
    EXPECT_EQ(file.substr(static_cast<size_t>(entries[0].offset_bytes), 5), "first");
    EXPECT_EQ(entries[1].size_bytes, 0);
    EXPECT_EQ(entries[2].name, "m/b");
    EXPECT_EQ(file.substr(static_cast<size_t>(entries[2].offset_bytes), 300), std::string(300, 'x'));
  }
  EXPECT_TRUE(read(zip_bytes({})).empty());
}

TEST(ZipDirectory, RefusesWhatIsNoArchive) {
  const std::string message = "expected a zip archive, got no directory of one at the end: the file is cut";
  expect_refused("", message);
  expect_refused("x", message);
  expect_refused(std::string(100'000, 'P'), message);
}

TEST(ZipDirectory, RefusesEveryCut) {
  for (const bool zip64 : {false, true}) {
    const std::string file = zip_bytes(kTwo, zip64);
    for (size_t length = 0; length < file.size(); ++length) {
      SCOPED_TRACE(length);
      expect_refused(file.substr(0, length), "");
    }
  }
}

TEST(ZipDirectory, TellsCompressedEntries) {
  const std::vector<ZipEntry> entries =
      read(zip_bytes({{.name = "m/a", .content = "x", .method = 8}, {"m/b", "y"}}));
  EXPECT_TRUE(entries[0].is_compressed);
  EXPECT_FALSE(entries[1].is_compressed);
}

TEST(ZipDirectory, RefusesEncryptedEntries) {
  expect_refused(zip_bytes({{.name = "m/a", .content = "x", .flags = 1}}),
                 "entry 'm/a': expected content in clear, got an encrypted entry");
}

TEST(ZipDirectory, RefusesContentBeyondTheFile) {
  for (const int64_t bytes : {int64_t{500}, int64_t{0xFFFFFFFE}}) {
    expect_refused(zip_bytes({{.name = "m/a", .content = "x", .claimed_bytes = bytes}}),
                   "entry 'm/a': expected content before the directory, at byte 65, got ");
  }
  for (const int64_t bytes : {int64_t{2}, int64_t{500}, int64_t{1} << 40, INT64_MAX}) {
    expect_refused(zip_bytes({{.name = "m/a", .content = "x", .claimed_bytes = bytes}}, true),
                   "entry 'm/a': expected content before the directory, at byte 65, got ");
  }
}

TEST(ZipDirectory, RefusesOverlapsAndDuplicates) {
  expect_refused(zip_bytes({{.name = "m/a", .content = "x", .claimed_bytes = 65}, {"m/b", "y"}}),
                 "entry 'm/b': expected content behind that of entry 'm/a', got an overlap");
  expect_refused(zip_bytes({{"m/a", "x"}, {"m/a", "y"}}),
                 "entry 'm/a': expected each name once, got the same name again");
}

// `file` with a number written at `at`.
std::string with(std::string file, size_t at, uint64_t value, int bytes) {
  return file.replace(at, static_cast<size_t>(bytes), little_endian(value, bytes));
}

TEST(ZipDirectory, RefusesAWrongEndRecord) {
  const std::string file = zip_bytes(kTwo);  // directory of 98 bytes from byte 129
  const size_t end = file.size() - 22;
  expect_refused(with(file, end + 10, 3, 2), "zip directory: expected an entry at byte 227, got other bytes");
  expect_refused(with(file, end + 10, 1, 2), "zip directory: expected 98 bytes for 1 entries, got 49");
  expect_refused(with(file, end + 16, 128, 4),
                 "zip directory: expected its end at byte 227, got 98 bytes at byte 128");
  expect_refused(with(file, end + 12, 99, 4), "zip directory: expected its end at byte 227, got 99 bytes");
  expect_refused(with(file, end + 16, 0xFFFFFFFF, 4), "zip directory: expected its end at byte 227");
  expect_refused(with(with(file, end + 16, 130, 4), end + 12, 97, 4),
                 "zip directory: expected an entry at byte 130");
  expect_refused(file + "comment", "expected a zip archive");
  expect_refused("before" + file, "zip directory: expected its end at byte 233");
}

TEST(ZipDirectory, RefusesAWrongZip64Record) {
  const std::string file = zip_bytes(kTwo, true);
  const size_t end64 = file.rfind("PK\x06\x06");
  const size_t locator = file.size() - 42;
  for (const uint64_t at : {uint64_t{0}, uint64_t{end64 - 1}, uint64_t{file.size()}, ~uint64_t{0}}) {
    expect_refused(with(file, locator + 8, at, 8),
                   "zip64 directory: expected its record before the end of the file, got none at byte ");
  }
  expect_refused(with(file, end64 + 40, ~uint64_t{0}, 8), "zip directory: expected its end at byte ");
  expect_refused(with(file, end64 + 48, ~uint64_t{0}, 8), "zip directory: expected its end at byte ");
  expect_refused(with(file, end64 + 32, uint64_t{1} << 62, 8),
                 "zip directory: expected at most 1000000 entries, got 4611686018427387904");
  expect_refused(with(file, file.size() - 12, 3, 2),
                 "zip64 directory: expected the numbers of the older record");
  EXPECT_EQ(read(with(file, file.size() - 12, 2, 2)).size(), 2u);
  EXPECT_EQ(read(with(file, file.size() - 6, file.find("PK\x01\x02"), 4)).size(), 2u);
}

TEST(ZipDirectory, RefusesBrokenExtraFields) {
  const std::string file = zip_bytes({{"m/a", "x"}}, true);
  const size_t central = file.find("PK\x01\x02");
  const size_t extra = central + 46 + 3;
  expect_refused(with(file, extra + 2, 23, 2),
                 "entry 'm/a': expected a zip64 field with each number, got a shorter");
  expect_refused(with(file, extra + 2, 25, 2),
                 "entry 'm/a': expected extra fields within the header, got a longer");
  expect_refused(with(file, extra, 2, 2),
                 "entry 'm/a': expected its header at byte 4294967295, got other bytes");
  expect_refused(with(file, extra + 20, ~uint64_t{0}, 8),
                 "entry 'm/a': expected its header at byte 184467440737095");
  expect_refused(with(file, extra + 4, 2, 8),
                 "entry 'm/a': expected one size for a stored entry, got 2 and 1 bytes");
}

TEST(ZipDirectory, RefusesNamesBeyondTheFile) {
  const std::string file = zip_bytes(kTwo);
  const size_t second = file.rfind("PK\x01\x02");
  expect_refused(with(file, second + 28, 0xFFFF, 2), "zip directory: expected 65535 bytes at byte ");
  expect_refused(with(file, second + 30, 0xFFFF, 2), "entry 'm/b': expected 65535 bytes at byte ");
  expect_refused(with(file, second + 32, 0xFFFF, 2),
                 "zip directory: expected 98 bytes for 2 entries, got 65633");
}

TEST(ZipDirectory, RefusesALocalHeaderThatDisagrees) {
  const std::string file = zip_bytes(kTwo);
  const size_t second = file.find("PK\x03\x04", 4);
  const std::string message = "entry 'm/b': expected a header that agrees with the directory, got entry ";
  expect_refused(with(file, second + 8, 8, 2), message + "'m/b', method 8");
  expect_refused(with(file, second + 32, 'c', 1), message + "'m/c', method 0");
  expect_refused(with(file, second + 26, 2, 2), message + "'m/', method 0");
  expect_refused(with(file, second + 26, 0xFFFF, 2), "entry 'm/b': expected 65535 bytes at byte ");
  expect_refused(with(file, second, 'Q', 1), "entry 'm/b': expected its header at byte ");
  expect_refused(with(file, second + 28, 0xFFFF, 2), "entry 'm/b': expected content before the directory, ");
}

}  // namespace
}  // namespace switchyard
