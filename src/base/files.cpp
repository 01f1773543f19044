#include "base/files.h"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "base/error.h"

namespace switchyard {

bool path_exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

void check_is_folder(const std::string& folder) {
  struct stat info {};
  if (folder.empty()) throw Error("MODEL", "", "a model folder", "an empty name");
  if (stat(folder.c_str(), &info) != 0) {
    throw Error(folder, "", "a model folder", errno == ENOENT ? "nothing there" : std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode)) throw Error(folder, "", "a model folder", "a file");
}

}  // namespace switchyard
