// A regular file mapped read-only into memory: its pages are read when they are first touched.
//
// The kernel kills a process (SIGBUS) that touches a mapped page which no longer exists because somebody cut
// the file meanwhile. Nothing in user space prevents that without a copy; so sizes are checked when the file
// is opened, and verify_unchanged() lets a caller say what happened after a result that makes no sense.
// Replacing a file by rename is harmless: the mapping keeps the old file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>

namespace switchyard {

class MappedFile {
 public:
  // Throws Error naming `path` when it is missing, unreadable, empty, or not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }
  const std::byte* data() const { return data_; }  // page-aligned
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_bytes_)}; }

  // Lets the pages of these bytes of data() leave the process's memory. They are read again when touched.
  void release_pages(const std::byte* begin, int64_t bytes) const;

  // Throws Error when the file's size or modification time differ from what they were when it was opened.
  void verify_unchanged() const;

 private:
  void release() noexcept;

  std::string path_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
  timespec modified_{};
};

}  // namespace switchyard
