#include "jinja/context.h"

#include "base/error.h"
#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

class Converter {
 public:
  Converter(Runtime& runtime, bool trusted) : runtime_(runtime), trusted_(trusted) {}

  Value convert(const OrderedJson& json) {
    const Runtime::Frame frame(runtime_);
    switch (json.type()) {
      case OrderedJson::value_t::null:
        return Value(None{});
      case OrderedJson::value_t::boolean:
        return Value(json.get<bool>());
      case OrderedJson::value_t::number_integer:
        return Value(json.get<int64_t>());
      case OrderedJson::value_t::number_unsigned:
        return Value(integer(json.get<uint64_t>()));
      case OrderedJson::value_t::number_float:
        return Value(json.get<double>());
      case OrderedJson::value_t::string:
        return text(json.get_ref<const std::string&>());
      case OrderedJson::value_t::array:
        return list(json);
      case OrderedJson::value_t::object:
        return dict(json);
      case OrderedJson::value_t::binary:
      case OrderedJson::value_t::discarded:
        break;
    }
    runtime_.fail("the context holds a value that is not JSON");
  }

  Value text(const std::string& bytes) {
    if (const auto bad = utf8::first_invalid(bytes)) {
      runtime_.fail(fmt::format("the context holds invalid UTF-8: '{}'", printable(bytes.substr(*bad), 20)));
    }
    return runtime_.make_text(trusted_ ? Text::from_template(bytes) : Text::from_context(bytes));
  }

 private:
  int64_t integer(uint64_t value) const {
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      runtime_.fail(fmt::format("the context holds {}, which does not fit 64 bits signed", value));
    }
    return static_cast<int64_t>(value);
  }

  Value list(const OrderedJson& json) {
    std::vector<Value> items;
    for (const OrderedJson& item : json)
      items.push_back(convert(item));
    return runtime_.make_list(std::move(items));
  }

  Value dict(const OrderedJson& json) {
    std::vector<Dict::Entry> entries;
    for (auto item = json.begin(); item != json.end(); ++item) {
      Value key = text(item.key());
      entries.emplace_back(std::move(key), convert(item.value()));
    }
    return runtime_.make_dict(std::move(entries));
  }

  Runtime& runtime_;
  bool trusted_;
};

}  // namespace

Value context_from_json(Runtime& runtime, const OrderedJson& context) {
  if (!context.is_object()) {
    runtime.fail(fmt::format("the context must be an object, not {}", context.type_name()));
  }
  std::vector<Dict::Entry> entries;
  for (auto item = context.begin(); item != context.end(); ++item) {
    Converter converter(runtime, runtime.options().trusted.count(item.key()) != 0);
    entries.emplace_back(runtime.make_text(item.key()), converter.convert(item.value()));
  }
  return runtime.make_dict(std::move(entries));
}

}  // namespace switchyard::jinja
