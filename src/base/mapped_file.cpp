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
namespace {

// Reads one byte of each page, which brings the page into memory.
void touch_pages(const std::byte* data, int64_t length_bytes, int64_t page_bytes) {
  for (int64_t i = 0; i < length_bytes; i += page_bytes) {
    static_cast<void>(*static_cast<const volatile std::byte*>(data + i));
  }
}

}  // namespace

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

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  return std::make_shared<const MappedFile>(path);
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

void MappedFile::advise(Advice advice, int64_t offset_bytes, int64_t length_bytes) const {
  SY_CHECK(offset_bytes >= 0 && length_bytes >= 0 && offset_bytes <= size_bytes_ - length_bytes,
           "range of {} bytes at {} in a file of {} bytes", length_bytes, offset_bytes, size_bytes_);
  if (length_bytes == 0) return;
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const int64_t begin = offset_bytes / page_bytes * page_bytes;  // madvise wants the start of a page
  const int64_t length = offset_bytes + length_bytes - begin;
  const int flag = advice == Advice::kPopulate   ? MADV_POPULATE_READ
                   : advice == Advice::kWillNeed ? MADV_WILLNEED
                                                 : MADV_RANDOM;
  if (madvise(data_ + begin, static_cast<size_t>(length), flag) == 0) return;
  const int error = errno;
  verify_unchanged();
  // Linux before 5.14 does not know MADV_POPULATE_READ; touching the pages has the same effect.
  if (advice == Advice::kPopulate && error == EINVAL) return touch_pages(data_ + begin, length, page_bytes);
  throw Error(path_, fmt::format("bytes {} to {}", begin, begin + length), "readable memory",
              std::strerror(error));
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
