#include "jinja/runtime.h"

#include <algorithm>

#include "base/error.h"

namespace switchyard::jinja {
namespace {

// A string of any length takes about 130 bytes of memory; its price keeps ten million steps within 400 MB.
constexpr int64_t kStepsPerString = 3;

}  // namespace

void Runtime::fail(const std::string& message) const {
  throw Error(where_, fmt::format("line {}: {}", line_, message));
}

void Runtime::charge(int64_t steps) {
  steps_ += steps;
  if (steps_ > options_.max_steps) fail(fmt::format("more than {} steps of work", options_.max_steps));
}

void Runtime::check_string(int64_t bytes) const {
  if (bytes > options_.max_string_bytes) {
    fail(fmt::format("a string of more than {} bytes", options_.max_string_bytes));
  }
}

void Runtime::check_data(const Value& value) const {
  if (!is_data(value)) fail(fmt::format("a {} cannot be stored in a list or dict", value.type_name()));
}

Value Runtime::make_text(Text text) {
  check_string(static_cast<int64_t>(text.size()));
  charge_bytes(text.size());
  charge(kStepsPerString);
  return Value(std::move(text));
}

Value Runtime::make_sequence(SequenceKind kind, std::vector<Value> items) {
  charge(1 + static_cast<int64_t>(items.size()));
  auto out = std::make_shared<Sequence>();
  out->kind = kind;
  for (const Value& item : items) {
    check_data(item);
    out->depth = std::max(out->depth, 1 + nesting_depth(item));
  }
  if (out->depth > kMaxContainerDepth)
    fail(fmt::format("lists nested more than {} deep", kMaxContainerDepth));
  out->items = std::move(items);
  return Value(SequencePtr(std::move(out)));
}

Value Runtime::make_texts(std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts)
    items.push_back(make_text(std::move(text)));
  return make_list(std::move(items));
}

Value Runtime::make_tuple(Value a, Value b) {
  std::vector<Value> items;
  items.push_back(std::move(a));
  items.push_back(std::move(b));
  return make_sequence(SequenceKind::kTuple, std::move(items));
}

Value Runtime::make_dict(std::vector<Dict::Entry> entries) {
  charge(1 + 2 * static_cast<int64_t>(entries.size()));
  for (const Dict::Entry& entry : entries) {
    if (!is_valid_key(entry.first)) {
      fail(fmt::format("a {} as key of a dict is not supported", entry.first.type_name()));
    }
    check_data(entry.second);
  }
  auto out = std::make_shared<const Dict>(std::move(entries));
  if (out->depth() > kMaxContainerDepth)
    fail(fmt::format("dicts nested more than {} deep", kMaxContainerDepth));
  return Value(DictPtr(std::move(out)));
}

Runtime::Frame::Frame(Runtime& runtime, int line) : runtime_(runtime), outer_line_(runtime.line_) {
  runtime_.line_ = line;
  if (runtime_.depth_ >= runtime_.options_.max_depth) {
    runtime_.fail(fmt::format("evaluation nested more than {} deep", runtime_.options_.max_depth));
  }
  runtime_.charge(1);
  ++runtime_.depth_;
}

Runtime::Frame::~Frame() {
  --runtime_.depth_;
  runtime_.line_ = outer_line_;
}

}  // namespace switchyard::jinja
