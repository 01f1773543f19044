#include "base/files.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "base/error.h"

namespace switchyard {
namespace {

constexpr const char* kModel = "a model folder or a .gguf file";

// Throws Error when nothing can be reached under `path`, which should be `expected`.
bool is_folder(const std::string& path, const char* expected) {
  struct stat info {};
  if (path.empty()) throw Error("MODEL", "", expected, "an empty name");
  if (stat(path.c_str(), &info) != 0) {
    throw Error(path, "", expected, errno == ENOENT ? "nothing there" : std::strerror(errno));
  }
  return S_ISDIR(info.st_mode);
}

}  // namespace

bool path_exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

void check_is_folder(const std::string& folder) {
  if (!is_folder(folder, "a model folder")) throw Error(folder, "", "a model folder", "a file");
}

void check_is_model(const std::string& path) {
  if (is_folder(path, kModel) || path.ends_with(".gguf")) return;
  throw Error(path, "", kModel, "another file");
}

}  // namespace switchyard
