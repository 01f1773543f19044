// What stands at a path.
#pragma once

#include <string>

namespace switchyard {

// Whether anything has this path. A dangling link counts: opening it then says what is wrong, instead of the
// file being taken for absent.
bool path_exists(const std::string& path);

// Throws Error unless `folder`, which should be a model's, is a folder.
void check_is_folder(const std::string& folder);

// Throws Error unless `path` is a folder or a file whose name ends with .gguf.
void check_is_model(const std::string& path);

}  // namespace switchyard
