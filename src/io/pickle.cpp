#include "io/pickle.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "io/pickle_cursor.h"
#include "io/pickle_opcodes.h"
#include "jinja/utf8.h"

namespace switchyard {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kModuleMetadata = "_metadata";
constexpr uint8_t kProtocol = 2;
constexpr size_t kMaxTextBytes = 65'536;
constexpr size_t kMaxLongBytes = 8;
constexpr PickleId kNothing = UINT32_MAX;  // an empty place of the memo

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::span<const std::string_view> globals,
          const std::string& where)
      : in_(bytes, where), globals_(globals) {}

  // Runs until STOP; the id of the only value that is left.
  PickleId run();
  std::vector<PickleValue> take_values() { return std::move(values_); }

 private:
  void step();

  // The stack. Values below the last mark are out of reach.
  void push(PickleId id) { stack_.push_back(id); }
  void push(PickleValue value);
  void push_int(int64_t number) { push({Kind::kInt, number, {}, {}}); }
  void push_bool(bool value) { push({Kind::kBool, value ? 1 : 0, {}, {}}); }
  PickleId pop();
  PickleId top();
  std::vector<PickleId> pop_to_mark();
  void push_tuple(size_t count);

  // Opcodes.
  void protocol();
  void global();
  void text();
  void long1();
  void put(uint64_t place);
  void get(uint64_t place);
  void set_items(const std::vector<PickleId>& keys_and_values);
  void reduce();
  void build();
  void persistent_id();
  PickleId stop();

  PickleCursor in_;
  std::span<const std::string_view> globals_;
  std::vector<PickleValue> values_;
  std::vector<PickleId> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<PickleId> memo_;
};

void Machine::push(PickleValue value) {
  values_.push_back(std::move(value));
  stack_.push_back(static_cast<PickleId>(values_.size() - 1));
}

PickleId Machine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
    in_.fail("a value on the stack", "an empty stack");
  const PickleId id = stack_.back();
  stack_.pop_back();
  return id;
}

PickleId Machine::top() {
  const PickleId id = pop();
  push(id);
  return id;
}

std::vector<PickleId> Machine::pop_to_mark() {
  if (marks_.empty()) in_.fail("a mark on the stack", "none");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleId> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void Machine::push_tuple(size_t count) {
  std::vector<PickleId> items(count);
  for (size_t i = count; i-- > 0;)
    items[i] = pop();
  push({Kind::kTuple, 0, {}, std::move(items)});
}

void Machine::protocol() {
  const uint64_t version = in_.take_unsigned(1);
  if (version != kProtocol) {
    in_.fail(fmt::format("protocol {}, which torch.save writes by default", kProtocol),
             fmt::format("{}", version));
  }
}

void Machine::global() {
  const std::string_view module = in_.take_line();
  const std::string_view leaf = in_.take_line();
  const std::string name = fmt::format("{}.{}", module, leaf);
  if (name == kOrderedDict) return push({Kind::kGlobal, 0, kOrderedDict, {}});
  const auto allowed = std::find(globals_.begin(), globals_.end(), name);
  if (allowed == globals_.end()) {
    in_.fail("only what a dictionary of tensors needs (nothing is executed)", printable(name));
  }
  push({Kind::kGlobal, 0, *allowed, {}});
}

void Machine::text() {
  const uint64_t length = in_.take_unsigned(4);
  if (length > kMaxTextBytes) {
    in_.fail(fmt::format("a text of at most {} bytes", kMaxTextBytes), fmt::format("{} bytes", length));
  }
  const std::string_view text = in_.take(length);
  if (jinja::utf8::first_invalid(text)) in_.fail("valid UTF-8", fmt::format("'{}'", printable(text)));
  push({Kind::kText, 0, text, {}});
}

// A signed integer of 0 to 255 bytes.
void Machine::long1() {
  const uint64_t length = in_.take_unsigned(1);
  if (length > kMaxLongBytes) {
    in_.fail(fmt::format("an integer of at most {} bytes", kMaxLongBytes), fmt::format("{} bytes", length));
  }
  uint64_t bits = in_.take_unsigned(length);
  const bool is_negative = length > 0 && ((bits >> (8 * length - 1)) & 1) != 0;
  if (is_negative && length < kMaxLongBytes) bits |= ~uint64_t{0} << (8 * length);
  push_int(static_cast<int64_t>(bits));
}

void Machine::put(uint64_t place) {
  if (place >= static_cast<uint64_t>(kMaxPickleOpcodes)) {
    in_.fail(fmt::format("a place of the memo below {}", kMaxPickleOpcodes), fmt::format("{}", place));
  }
  const PickleId id = top();
  if (place >= memo_.size()) memo_.resize(place + 1, kNothing);
  memo_[place] = id;
}

void Machine::get(uint64_t place) {
  if (place >= memo_.size() || memo_[place] == kNothing) {
    in_.fail("a place of the memo that was filled", fmt::format("place {}", place));
  }
  push(memo_[place]);
}

void Machine::set_items(const std::vector<PickleId>& keys_and_values) {
  if (keys_and_values.size() % 2 != 0) in_.fail("pairs of key and value", "a key without a value");
  PickleValue& dict = values_[top()];
  if (dict.kind != Kind::kDict) in_.fail("a dictionary on the stack", describe(dict));
  dict.items.insert(dict.items.end(), keys_and_values.begin(), keys_and_values.end());
}

void Machine::reduce() {
  const PickleId arguments_id = pop();
  const PickleValue& arguments = values_[arguments_id];
  const PickleValue& callee = values_[pop()];
  if (arguments.kind != Kind::kTuple) in_.fail("a tuple of arguments", describe(arguments));
  if (callee.kind != Kind::kGlobal) in_.fail("a global to call", describe(callee));
  if (callee.text != kOrderedDict) return push({Kind::kCall, 0, callee.text, {arguments_id}});
  if (!arguments.items.empty()) in_.fail("OrderedDict without arguments", describe(arguments));
  push({Kind::kDict, 0, {}, {}});
}

// Sets attributes of the object below. A state_dict() has one: the versions of its modules, which say nothing
// about its tensors.
void Machine::build() {
  const PickleValue& state = values_[pop()];
  const PickleValue& target = values_[top()];
  if (target.kind != Kind::kDict) in_.fail("a dictionary on the stack", describe(target));
  if (state.kind != Kind::kDict) in_.fail("attributes as a dictionary", describe(state));
  for (size_t i = 0; i < state.items.size(); i += 2) {
    const PickleValue& key = values_[state.items[i]];
    if (key.kind != Kind::kText || key.text != kModuleMetadata) {
      in_.fail(fmt::format("only the attribute {}", kModuleMetadata), describe(key));
    }
  }
}

void Machine::persistent_id() {
  const PickleId id = pop();
  push({Kind::kPersistent, 0, {}, {id}});
}

PickleId Machine::stop() {
  if (!marks_.empty() || stack_.size() != 1) {
    in_.fail("one value on the stack", fmt::format("{} and {} marks", stack_.size(), marks_.size()));
  }
  if (in_.rest() != 0) in_.fail("the end of the pickle", fmt::format("{} more bytes", in_.rest()));
  return stack_.front();
}

void Machine::step() {
  switch (static_cast<PickleOpcode>(in_.opcode())) {
    case PickleOpcode::kProto:
      return protocol();
    case PickleOpcode::kMark:
      return marks_.push_back(stack_.size());
    case PickleOpcode::kNone:
      return push(PickleValue{});
    case PickleOpcode::kNewTrue:
      return push_bool(true);
    case PickleOpcode::kNewFalse:
      return push_bool(false);
    case PickleOpcode::kBinInt:
      return push_int(static_cast<int32_t>(in_.take_unsigned(4)));
    case PickleOpcode::kBinInt1:
      return push_int(static_cast<int64_t>(in_.take_unsigned(1)));
    case PickleOpcode::kBinInt2:
      return push_int(static_cast<int64_t>(in_.take_unsigned(2)));
    case PickleOpcode::kLong1:
      return long1();
    case PickleOpcode::kBinUnicode:
      return text();
    case PickleOpcode::kGlobal:
      return global();
    case PickleOpcode::kEmptyTuple:
      return push_tuple(0);
    case PickleOpcode::kTuple1:
      return push_tuple(1);
    case PickleOpcode::kTuple2:
      return push_tuple(2);
    case PickleOpcode::kTuple3:
      return push_tuple(3);
    case PickleOpcode::kTuple:
      return push({Kind::kTuple, 0, {}, pop_to_mark()});
    case PickleOpcode::kEmptyDict:
      return push({Kind::kDict, 0, {}, {}});
    case PickleOpcode::kSetItem: {
      const PickleId value = pop();
      const PickleId key = pop();
      return set_items({key, value});
    }
    case PickleOpcode::kSetItems:
      return set_items(pop_to_mark());
    case PickleOpcode::kBinPut:
      return put(in_.take_unsigned(1));
    case PickleOpcode::kLongBinPut:
      return put(in_.take_unsigned(4));
    case PickleOpcode::kBinGet:
      return get(in_.take_unsigned(1));
    case PickleOpcode::kLongBinGet:
      return get(in_.take_unsigned(4));
    case PickleOpcode::kReduce:
      return reduce();
    case PickleOpcode::kBuild:
      return build();
    case PickleOpcode::kBinPersId:
      return persistent_id();
    case PickleOpcode::kStop:
      break;  // run() ends before
  }
  in_.fail("an opcode that a dictionary of tensors needs", "another one");
}

PickleId Machine::run() {
  for (int64_t count = 0; count < kMaxPickleOpcodes; ++count) {
    if (!in_.next()) return stop();
    step();
  }
  in_.fail(fmt::format("at most {} opcodes", kMaxPickleOpcodes), "more");
}

}  // namespace

Pickle Pickle::parse(std::span<const std::byte> bytes, std::span<const std::string_view> globals,
                     const std::string& where) {
  if (bytes.size() > static_cast<size_t>(kMaxPickleBytes)) {
    throw Error(where, "", fmt::format("a pickle of at most {} bytes", kMaxPickleBytes),
                fmt::format("{} bytes", bytes.size()));
  }
  Machine machine(bytes, globals, where);
  Pickle pickle;
  pickle.root_ = machine.run();
  pickle.values_ = machine.take_values();
  return pickle;
}

}  // namespace switchyard
