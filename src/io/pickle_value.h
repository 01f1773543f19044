// What pickles are made of here: see io/pickle.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace switchyard {

using PickleId = uint32_t;  // of a value of one Pickle

struct PickleValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kText, kTuple, kDict, kGlobal, kCall, kPersistent };

  Kind kind = Kind::kNone;
  int64_t number = 0;           // kBool (0 or 1), kInt
  std::string_view text;        // kText: valid UTF-8, points into the bytes; kGlobal, kCall: "module.name"
  std::vector<PickleId> items;  // kTuple; kDict: key, value, key, ...; kCall: the tuple of its arguments;
                                // kPersistent: the id
};

// The kind of a value, with the value itself where it is short, for "got ..." in errors.
std::string describe(const PickleValue& value);

}  // namespace switchyard
