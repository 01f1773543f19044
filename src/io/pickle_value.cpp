#include "io/pickle_value.h"

#include "base/error.h"

namespace switchyard {

std::string describe(const PickleValue& value) {
  using Kind = PickleValue::Kind;
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.number != 0 ? "True" : "False";
    case Kind::kInt:
      return fmt::format("{}", value.number);
    case Kind::kText:
      return fmt::format("'{}'", printable(value.text));
    case Kind::kTuple:
      return fmt::format("a tuple of {}", value.items.size());
    case Kind::kDict:
      return fmt::format("a dictionary of {}", value.items.size() / 2);
    case Kind::kGlobal:
      return std::string(value.text);
    case Kind::kCall:
      return fmt::format("a call of {}", value.text);
    case Kind::kPersistent:
      return "a persistent id";
  }
  return "";
}

}  // namespace switchyard
