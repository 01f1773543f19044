// The values a template computes with. Strings, lists, tuples and dicts are immutable, as in the sandbox that
// `transformers` renders chat templates in; only a namespace() can change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/text.h"

namespace switchyard::jinja {

class Value;
struct Sequence;
class Dict;
struct Namespace;
struct Loop;
struct Callable;
struct MacroStatement;

struct Undefined {
  std::shared_ptr<const std::string> reason;  // what a use of it reports, e.g. "'x' is undefined"
};
struct None {};

using TextPtr = std::shared_ptr<const Text>;
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using LoopPtr = std::shared_ptr<const Loop>;
using CallablePtr = std::shared_ptr<const Callable>;

// In the order of Value's variant.
enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kSequence,
  kDict,
  kNamespace,
  kLoop,
  kCallable
};

class Value {
 public:
  Value() = default;  // undefined without a reason
  Value(None v) : data_(v) {}
  Value(bool v) : data_(v) {}
  Value(int64_t v) : data_(v) {}
  Value(double v) : data_(v) {}
  Value(Text v) : data_(std::make_shared<const Text>(std::move(v))) {}
  Value(TextPtr v) : data_(std::move(v)) {}
  Value(SequencePtr v) : data_(std::move(v)) {}
  Value(DictPtr v) : data_(std::move(v)) {}
  Value(NamespacePtr v) : data_(std::move(v)) {}
  Value(LoopPtr v) : data_(std::move(v)) {}
  Value(CallablePtr v) : data_(std::move(v)) {}
  Value(const void*) = delete;  // a pointer must not become a bool
  static Value undefined(std::string reason);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_text() const { return is(Kind::kText); }
  bool is_integral() const { return is(Kind::kInt) || is(Kind::kBool); }  // bool is an int, as in Python
  bool is_number() const { return is_integral() || is(Kind::kFloat); }

  // Each expects its kind; integer() and number() take what is_integral() and is_number() take.
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const;
  double number() const;
  const Text& text() const { return *std::get<TextPtr>(data_); }
  const Sequence& sequence() const { return *std::get<SequencePtr>(data_); }
  const SequencePtr& sequence_ptr() const { return std::get<SequencePtr>(data_); }
  const Dict& dict() const { return *std::get<DictPtr>(data_); }
  Namespace& space() const { return *std::get<NamespacePtr>(data_); }
  const Loop& loop() const { return *std::get<LoopPtr>(data_); }
  const Callable& callable() const { return *std::get<CallablePtr>(data_); }

  // Why an undefined value is undefined.
  std::string undefined_reason() const;

  // Python's name of the type, for messages: "str", "list", "int", ...
  std::string_view type_name() const;

  bool truthy() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, TextPtr, SequencePtr, DictPtr, NamespacePtr, LoopPtr,
               CallablePtr>
      data_;
};

// An iterator is what map, select, reverse, ... return: it can be walked once, and has neither length nor
// index.
enum class SequenceKind { kList, kTuple, kRange, kKeysView, kValuesView, kItemsView, kIterator };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;                  // containers nested in each other, this one included
  mutable bool consumed = false;  // only of an iterator; sequences never outlive or leave their render call

  bool has_length() const { return kind != SequenceKind::kIterator; }
  bool has_index() const {
    return kind == SequenceKind::kList || kind == SequenceKind::kTuple || kind == SequenceKind::kRange;
  }
};

// A dict in insertion order. Keys are strings, numbers, booleans and none.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // Later entries replace the value of earlier ones with an equal key, as in a Python dict display.
  explicit Dict(std::vector<Entry> entries);

  const std::vector<Entry>& entries() const { return entries_; }
  const Value* find(const Value& key) const;  // nullptr when absent
  const Value* find(std::string_view key) const;
  int depth() const { return depth_; }

 private:
  const size_t* index_of(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> by_name_;  // string keys
  std::vector<std::pair<Value, size_t>> by_value_;   // other keys, few
  int depth_ = 1;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  const Value* find(std::string_view name) const;
};

// State of the loop that a `loop` variable speaks of, at one iteration.
struct Loop {
  SequencePtr items;
  int64_t index0 = 0;
};

struct Callable {
  enum class Type { kGlobal, kMacro, kMethod };
  Type type = Type::kGlobal;
  std::string name;
  const MacroStatement* macro = nullptr;  // kMacro
  Value receiver;                         // kMethod
};

// Data may be stored in lists, dicts and namespaces. Namespaces, macros, methods and `loop` may not: without
// that rule values could hold each other in a circle.
bool is_data(const Value& value);

int nesting_depth(const Value& value);  // 0 for scalars

// Keys of dicts: equal as Python has it (1 == 1.0 == True).
bool is_valid_key(const Value& value);
bool same_key(const Value& a, const Value& b);

// -1, 0 or 1; exact for any mix of int and float; NaN compares as unordered, 2.
int compare_numbers(const Value& a, const Value& b);

}  // namespace switchyard::jinja
