#include "jinja/value.h"

#include <algorithm>

namespace switchyard::jinja {
namespace {

std::string_view sequence_type_name(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kKeysView:
      return "dict_keys";
    case SequenceKind::kValuesView:
      return "dict_values";
    case SequenceKind::kItemsView:
      return "dict_items";
    case SequenceKind::kIterator:
      break;
  }
  return "iterator";
}

}  // namespace

Value Value::undefined(std::string reason) {
  Value v;
  v.data_ = Undefined{std::make_shared<const std::string>(std::move(reason))};
  return v;
}

int64_t Value::integer() const {
  return is(Kind::kBool) ? static_cast<int64_t>(boolean()) : std::get<int64_t>(data_);
}

double Value::number() const {
  return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(integer());
}

std::string Value::undefined_reason() const {
  const auto& reason = std::get<Undefined>(data_).reason;
  return reason ? *reason : "the value is undefined";
}

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kText:
      return "str";
    case Kind::kSequence:
      return sequence_type_name(sequence().kind);
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kLoop:
      return "loop";
    case Kind::kCallable:
      break;
  }
  return "function";
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return integer() != 0;
    case Kind::kFloat:
      return number() != 0;
    case Kind::kText:
      return text().size() != 0;
    case Kind::kSequence:
      return !sequence().has_length() || !sequence().items.empty();
    case Kind::kDict:
      return !dict().entries().empty();
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCallable:
      break;
  }
  return true;
}

Dict::Dict(std::vector<Entry> entries) {
  entries_.reserve(entries.size());
  for (Entry& entry : entries) {
    if (const size_t* at = index_of(entry.first)) {
      entries_[*at].second = std::move(entry.second);
      continue;
    }
    if (entry.first.is_text()) {
      by_name_.emplace(entry.first.text().bytes, entries_.size());
    } else {
      by_value_.emplace_back(entry.first, entries_.size());
    }
    entries_.push_back(std::move(entry));
  }
  for (const Entry& entry : entries_)
    depth_ = std::max(depth_, 1 + nesting_depth(entry.second));
}

const size_t* Dict::index_of(const Value& key) const {
  if (key.is_text()) {
    const auto found = by_name_.find(key.text().bytes);
    return found == by_name_.end() ? nullptr : &found->second;
  }
  for (const auto& row : by_value_) {
    if (same_key(row.first, key)) return &row.second;
  }
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  const size_t* at = index_of(key);
  return at == nullptr ? nullptr : &entries_[*at].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = by_name_.find(std::string(key));
  return found == by_name_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& attribute : attributes) {
    if (attribute.first == name) return &attribute.second;
  }
  return nullptr;
}

bool is_data(const Value& value) {
  return !value.is(Kind::kNamespace) && !value.is(Kind::kLoop) && !value.is(Kind::kCallable);
}

int nesting_depth(const Value& value) {
  if (value.is(Kind::kSequence)) return value.sequence().depth;
  if (value.is(Kind::kDict)) return value.dict().depth();
  return 0;
}

bool is_valid_key(const Value& value) {
  return value.is_text() || value.is_none() || value.is_number();
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return a.text().bytes == b.text().bytes;
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  return a.is_none() && b.is_none();
}

int compare_numbers(const Value& a, const Value& b) {
  const auto order = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; };
  if (a.is_integral() && b.is_integral()) return order(a.integer(), b.integer());
  // long double has at least 64 bits of mantissa on Linux, so an int64 converts exactly.
  const auto exact = [](const Value& v) {
    return v.is_integral() ? static_cast<long double>(v.integer()) : static_cast<long double>(v.number());
  };
  return order(exact(a), exact(b));
}

}  // namespace switchyard::jinja
