#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace switchyard {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer; regular files do not care.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw Error(path, "", "a readable file", std::strerror(errno));
  try {
    struct stat info {};
    if (fstat(fd_, &info) != 0) throw Error(path, "", "a readable file", std::strerror(errno));
    if (S_ISDIR(info.st_mode)) throw Error(path, "", "a regular file", "a folder");
    if (!S_ISREG(info.st_mode)) throw Error(path, "", "a regular file", "a special file");
    if (info.st_size == 0) throw Error(path, "", "a file with content", "an empty file");
    size_bytes_ = info.st_size;
    modified_ = info.st_mtim;
    void* address = mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ, MAP_SHARED, fd_, 0);
    if (address == MAP_FAILED) throw Error(path, "", "a file that can be mapped", std::strerror(errno));
    data_ = static_cast<std::byte*>(address);
  } catch (...) {
    release();
    throw;
  }
}

MappedFile::~MappedFile() {
  release();
}

void MappedFile::release() noexcept {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_bytes_));
  if (fd_ >= 0) close(fd_);
  data_ = nullptr;
  fd_ = -1;
  size_bytes_ = 0;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      modified_(other.modified_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(modified_, other.modified_);
  return *this;
}

void MappedFile::release_pages(const std::byte* begin, int64_t bytes) const {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t first = (begin - data_) / page * page;
  const int64_t end = begin - data_ + bytes;
  SY_CHECK(first >= 0 && bytes >= 0 && end <= size_bytes_, "bytes {} to {} of {}", first, end, size_bytes_);
  // Advice: that it fails changes no result.
  if (end > first) madvise(data_ + first, static_cast<size_t>(end - first), MADV_DONTNEED);
}

void MappedFile::verify_unchanged() const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) throw Error(path_, "", "a readable file", std::strerror(errno));
  if (info.st_size != size_bytes_) {
    throw Error(path_, "", fmt::format("the {} bytes it had when it was opened", size_bytes_),
                fmt::format("{} bytes: it was changed while in use", info.st_size));
  }
  if (info.st_mtim.tv_sec != modified_.tv_sec || info.st_mtim.tv_nsec != modified_.tv_nsec) {
    throw Error(path_, "", "the content it had when it was opened", "another modification time");
  }
}

}  // namespace switchyard
