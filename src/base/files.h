// Questions about the file system that readers of folders ask before they open anything.
#pragma once

#include <string>

namespace switchyard {

// Whether `path` names something. A link that leads nowhere and what may not be looked at count as there:
// opening it then says what is wrong, instead of another file being read or a default being taken.
bool entry_exists(const std::string& path);

}  // namespace switchyard
