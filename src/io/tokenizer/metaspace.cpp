#include "io/tokenizer/metaspace.h"

namespace switchyard {
namespace {

PrependScheme parse_scheme(const JsonObject& object) {
  if (object.find("prepend_scheme") == nullptr) return PrependScheme::kAlways;
  const std::string& name = object.string("prepend_scheme");
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  object.place("prepend_scheme").refuse("always, first or never", printable(name));
}

}  // namespace

Metaspace parse_metaspace(const JsonObject& object) {
  // str_rep repeats `replacement` in old files.
  object.allow_only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  Metaspace metaspace;
  metaspace.replacement = object.character("replacement");
  metaspace.scheme = parse_scheme(object);
  metaspace.split = object.boolean_or("split", true);
  // The older spelling of prepend_scheme "never"; true says nothing beyond the scheme.
  if (!object.boolean_or("add_prefix_space", true)) {
    if (object.find("prepend_scheme") != nullptr && metaspace.scheme != PrependScheme::kNever) {
      object.place("add_prefix_space").refuse("no contradiction to prepend_scheme", "false");
    }
    metaspace.scheme = PrependScheme::kNever;
  }
  return metaspace;
}

}  // namespace switchyard
