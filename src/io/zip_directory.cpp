#include "io/zip_directory.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>

#include "base/error.h"

namespace switchyard {
namespace {

// Sizes of records without their variable parts, and their first four bytes.
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kFieldBytes = 4;  // of an extra field: its id and size
constexpr std::string_view kEndSignature = "PK\5\6";
constexpr std::string_view kEnd64Signature = "PK\6\6";
constexpr std::string_view kLocatorSignature = "PK\6\7";
constexpr std::string_view kCentralSignature = "PK\1\2";
constexpr std::string_view kLocalSignature = "PK\3\4";

constexpr uint64_t kMax16 = 0xFFFF;  // these stand for a number in a zip64 record or field
constexpr uint64_t kMax32 = 0xFFFFFFFF;
constexpr uint64_t kZip64Field = 1;
constexpr uint64_t kEncryptedFlag = 1;
constexpr uint64_t kStored = 0;

std::string entry_item(std::string_view name) {
  return fmt::format("entry '{}'", printable(name));
}

// The directory as the records at the end of the file describe it.
struct Extent {
  uint64_t entries;
  uint64_t offset;
  uint64_t size;
};

class DirectoryReader {
 public:
  DirectoryReader(std::span<const std::byte> file, const std::string& where)
      : file_(reinterpret_cast<const char*>(file.data()), file.size()), where_(where) {}

  std::vector<ZipEntry> read() {
    directory_ = find_directory();
    std::vector<ZipEntry> entries;
    uint64_t at = directory_.offset;
    for (uint64_t i = 0; i < directory_.entries; ++i)
      entries.push_back(read_entry(at));
    if (at != directory_.offset + directory_.size) {
      fail("zip directory", fmt::format("{} bytes for {} entries", directory_.size, directory_.entries),
           fmt::format("{}", at - directory_.offset));
    }
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& item, const std::string& expected, const std::string& got) const {
    throw Error(where_, item, expected, got);
  }

  bool has_signature(uint64_t at, std::string_view signature) const {
    return at <= file_.size() && file_.substr(at).starts_with(signature);
  }

  std::string_view bytes(uint64_t at, uint64_t count, const std::string& item) const {
    if (at > file_.size() || count > file_.size() - at) {
      fail(item, fmt::format("{} bytes at byte {}", count, at), fmt::format("a file of {}", file_.size()));
    }
    return file_.substr(at, count);
  }

  // A little-endian number within a record.
  static uint64_t number(std::string_view record, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;)
      value = (value << 8) | static_cast<unsigned char>(record[at + i]);
    return value;
  }

  Extent find_directory() const {
    const uint64_t end_at = file_.size() - std::min<uint64_t>(file_.size(), kEndBytes);
    if (file_.size() < kEndBytes || !has_signature(end_at, kEndSignature)) {
      fail("", "a zip archive", "no directory of one at the end: the file is cut or not a zip");
    }
    const std::string_view end = bytes(end_at, kEndBytes, "");
    Extent extent = {number(end, 10, 2), number(end, 16, 4), number(end, 12, 4)};
    uint64_t records_at = end_at;  // where the directory must end
    if (end_at >= kLocatorBytes && has_signature(end_at - kLocatorBytes, kLocatorSignature)) {
      records_at = number(bytes(end_at - kLocatorBytes, kLocatorBytes, ""), 8, 8);
      extent = read_end64(records_at, end_at, extent);
    }
    if (extent.entries > static_cast<uint64_t>(kMaxZipEntries)) {
      fail("zip directory", fmt::format("at most {} entries", kMaxZipEntries),
           fmt::format("{}", extent.entries));
    }
    if (extent.offset > records_at || extent.size != records_at - extent.offset) {
      fail("zip directory", fmt::format("its end at byte {}", records_at),
           fmt::format("{} bytes at byte {}", extent.size, extent.offset));
    }
    return extent;
  }

  // The zip64 record, which torch always writes. What the older record can hold, it must repeat.
  Extent read_end64(uint64_t at, uint64_t end_at, const Extent& old) const {
    const std::string item = "zip64 directory";
    if (at > end_at || end_at - at != kEnd64Bytes + kLocatorBytes || !has_signature(at, kEnd64Signature)) {
      fail(item, "its record before the end of the file", fmt::format("none at byte {}", at));
    }
    const std::string_view end = bytes(at, kEnd64Bytes, item);
    const Extent extent = {number(end, 32, 8), number(end, 48, 8), number(end, 40, 8)};
    const bool agrees = (old.entries == kMax16 || old.entries == extent.entries) &&
                        (old.offset == kMax32 || old.offset == extent.offset) &&
                        (old.size == kMax32 || old.size == extent.size);
    if (!agrees) fail(item, "the numbers of the older record", "others");
    return extent;
  }

  // The entry whose header in the directory begins at `at`, which moves behind it.
  ZipEntry read_entry(uint64_t& at) const {
    if (!has_signature(at, kCentralSignature)) {
      fail("zip directory", fmt::format("an entry at byte {}", at), "other bytes");
    }
    const std::string_view header = bytes(at, kCentralBytes, "zip directory");
    const uint64_t name_bytes = number(header, 28, 2);
    const uint64_t extra_bytes = number(header, 30, 2);
    const std::string_view name = bytes(at + kCentralBytes, name_bytes, "zip directory");
    const std::string item = entry_item(name);
    const std::string_view extra = bytes(at + kCentralBytes + name_bytes, extra_bytes, item);
    at += kCentralBytes + name_bytes + extra_bytes + number(header, 32, 2);

    if ((number(header, 8, 2) & kEncryptedFlag) != 0) fail(item, "content in clear", "an encrypted entry");
    uint64_t size = number(header, 24, 4);
    uint64_t size_in_file = number(header, 20, 4);
    uint64_t local_at = number(header, 42, 4);
    read_zip64_field(extra, {&size, &size_in_file, &local_at}, item);
    const uint64_t method = number(header, 10, 2);
    if (method == kStored && size != size_in_file) {
      fail(item, "one size for a stored entry", fmt::format("{} and {} bytes", size, size_in_file));
    }
    const uint64_t offset = content_offset(local_at, name, method);
    if (offset > directory_.offset || size_in_file > directory_.offset - offset) {
      fail(item, fmt::format("content before the directory, at byte {}", directory_.offset),
           fmt::format("{} bytes at byte {}", size_in_file, offset));
    }
    return {std::string(name), static_cast<int64_t>(offset), static_cast<int64_t>(size_in_file),
            method != kStored};
  }

  // Replaces those of the numbers that are at the maximum of 32 bits.
  void read_zip64_field(std::string_view extra, std::initializer_list<uint64_t*> numbers,
                        const std::string& item) const {
    while (extra.size() >= kFieldBytes) {
      const uint64_t id = number(extra, 0, 2);
      std::string_view content = extra.substr(kFieldBytes);
      const uint64_t size = number(extra, 2, 2);
      if (size > content.size()) fail(item, "extra fields within the header", "a longer one");
      extra = content.substr(size);
      content = content.substr(0, size);
      if (id != kZip64Field) continue;
      for (uint64_t* value : numbers) {
        if (*value != kMax32) continue;
        if (content.size() < 8) fail(item, "a zip64 field with each number", "a shorter one");
        *value = number(content, 0, 8);
        content = content.substr(8);
      }
      return;
    }
  }

  // Behind the header before the content, which repeats the name and has extra fields of its own.
  uint64_t content_offset(uint64_t at, std::string_view name, uint64_t method) const {
    const std::string item = entry_item(name);
    if (!has_signature(at, kLocalSignature)) {
      fail(item, fmt::format("its header at byte {}", at), "other bytes");
    }
    const std::string_view header = bytes(at, kLocalBytes, item);
    const std::string_view own_name = bytes(at + kLocalBytes, number(header, 26, 2), item);
    if (own_name != name || number(header, 8, 2) != method) {
      fail(item, "a header that agrees with the directory",
           fmt::format("entry '{}', method {}", printable(own_name), number(header, 8, 2)));
    }
    return at + kLocalBytes + own_name.size() + number(header, 28, 2);
  }

  std::string_view file_;
  const std::string& where_;
  Extent directory_{};
};

void check_names_and_overlaps(const std::vector<ZipEntry>& entries, const std::string& where) {
  std::set<std::string_view> names;
  std::vector<const ZipEntry*> by_offset;
  for (const ZipEntry& entry : entries) {
    if (!names.insert(entry.name).second) {
      throw Error(where, entry_item(entry.name), "each name once", "the same name again");
    }
    if (entry.size_bytes > 0) by_offset.push_back(&entry);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->offset_bytes < b->offset_bytes; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const ZipEntry& before = *by_offset[i - 1];
    if (by_offset[i]->offset_bytes >= before.offset_bytes + before.size_bytes) continue;
    throw Error(where, entry_item(by_offset[i]->name),
                fmt::format("content behind that of {}", entry_item(before.name)), "an overlap");
  }
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file, const std::string& where) {
  std::vector<ZipEntry> entries = DirectoryReader(file, where).read();
  check_names_and_overlaps(entries, where);
  return entries;
}

}  // namespace switchyard
