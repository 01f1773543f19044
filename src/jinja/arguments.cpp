#include "jinja/arguments.h"

#include <algorithm>

#include "base/error.h"

namespace switchyard::jinja {
namespace {

std::vector<std::string_view> split_names(std::string_view names) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    out.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return out;
}

}  // namespace

Bound::Bound(Runtime& runtime, std::string_view callee, std::string_view parameters, size_t required,
             const Arguments& arguments)
    : runtime_(runtime), callee_(callee), names_(split_names(parameters)), slots_(names_.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    runtime.fail(fmt::format("{}: expected at most {} arguments, got {}", callee, names_.size(),
                             arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    slots_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      runtime.fail(fmt::format("{}: unknown argument '{}'", callee, printable(name)));
    }
    const Value*& slot = slots_[static_cast<size_t>(found - names_.begin())];
    if (slot != nullptr) runtime.fail(fmt::format("{}: argument '{}' is given twice", callee, name));
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (slots_[i] == nullptr) runtime.fail(fmt::format("{}: argument '{}' is missing", callee, names_[i]));
  }
}

const Value* Bound::get_unless_none(size_t i) const {
  return slots_[i] != nullptr && !slots_[i]->is_none() ? slots_[i] : nullptr;
}

void Bound::fail_type(size_t i, std::string_view expected) const {
  runtime_.fail(fmt::format("{}: argument '{}': expected {}, got {}", callee_, names_[i], expected,
                            slots_[i]->type_name()));
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
  if (slots_[i] == nullptr) return otherwise;
  if (!slots_[i]->is_integral()) fail_type(i, "int");
  return slots_[i]->integer();
}

bool Bound::boolean(size_t i, bool otherwise) const {
  return slots_[i] == nullptr ? otherwise : slots_[i]->truthy();
}

const Text& Bound::text(size_t i) const {
  if (!slots_[i]->is_text()) fail_type(i, "str");
  return slots_[i]->text();
}

const Text* Bound::text_or_none(size_t i) const {
  const Value* value = get_unless_none(i);
  if (value == nullptr) return nullptr;
  if (!value->is_text()) fail_type(i, "str or None");
  return &value->text();
}

}  // namespace switchyard::jinja
