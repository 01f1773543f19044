#include "base/files.h"

#include <filesystem>
#include <system_error>

namespace switchyard {

bool entry_exists(const std::string& path) {
  std::error_code ignored;  // the status tells "not there" from every other failure
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

}  // namespace switchyard
