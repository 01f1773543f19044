#include "io/tensor_file.h"

#include <algorithm>

#include "base/error.h"

namespace switchyard {

std::string tensor_item(std::string_view name) {
  return fmt::format("tensor '{}'", printable(name));
}

const TensorInfo* TensorFile::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const TensorInfo& t, std::string_view n) { return t.name < n; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace switchyard
