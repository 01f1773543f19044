// A pickle as a tree of plain values. NOTHING IN IT IS EXECUTED: a global is only a name, looked up in a list
// of allowed ones, and a call is kept as the name and the arguments, for the reader of the tree to make sense
// of.
//
// Pickles are programs of a stack machine (Python's Lib/pickletools.py documents every opcode). This one
// knows the opcodes of protocol 2 that a dictionary of tensors needs and refuses every other one by name.
// Nothing recurses, each opcode makes at most one value without copying another, and opcodes are bounded in
// number; so time and memory are bounded by the size of the pickle. A value may be reached by several ways
// and a dictionary may contain itself: readers go down a fixed number of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/pickle_value.h"

namespace switchyard {

inline constexpr int64_t kMaxPickleBytes = 100'000'000;
inline constexpr int64_t kMaxPickleOpcodes = 5'000'000;  // about 33 for each tensor

class Pickle {
 public:
  // Reads `bytes`, which must outlive the result. `globals` are the allowed ones as "module.name", besides
  // collections.OrderedDict, which becomes a kDict; `where` names the source in errors. Throws Error with the
  // byte and the opcode on everything that is not understood, and where an opcode lacks its operands.
  static Pickle parse(std::span<const std::byte> bytes, std::span<const std::string_view> globals,
                      const std::string& where);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](PickleId id) const { return values_[id]; }

 private:
  std::vector<PickleValue> values_;
  PickleId root_ = 0;
};

}  // namespace switchyard
