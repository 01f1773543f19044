// The directory of a zip archive: where each entry's bytes lie, so that entries which are stored, not
// compressed, can be used in place from a mapped file. The structure is that of PKWARE's APPNOTE.TXT, 4.3 and
// 4.5.3, zip64 included, as writers of checkpoints use it: no comment behind the archive, nothing before it,
// no encryption, one disk. (libminizip of Debian 12 cannot read offsets of zip64, which every archive of more
// than 4 GiB has, and libzip does not tell where the content of an entry begins.)
//
// Checksums are not verified: that would read the whole file, and torch can be told to write none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace switchyard {

inline constexpr int64_t kMaxZipEntries = 1'000'000;

struct ZipEntry {
  std::string name;
  int64_t offset_bytes;  // of the content, from the start of the file
  int64_t size_bytes;    // in the file
  bool is_compressed;    // size_bytes bytes of something else than the content
};

// In the order of the directory. `where` names the file in errors. Throws Error when the bytes are no zip
// archive or a damaged one, when an entry is encrypted, when its two headers disagree, when it lies outside
// the part of the file before the directory or overlaps another, and when a name stands twice.
std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file, const std::string& where);

}  // namespace switchyard
