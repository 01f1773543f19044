#include "jinja/interpreter.h"

#include <algorithm>

#include "base/error.h"
#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/python_format.h"

namespace switchyard::jinja {

void Scope::set(std::string_view name, Value value) {
  for (auto& variable : variables_) {
    if (variable.first == name) {
      variable.second = std::move(value);
      return;
    }
  }
  variables_.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    for (const auto& variable : scope->variables_) {
      if (variable.first == name) return &variable.second;
    }
  }
  return nullptr;
}

int64_t Scope::size() const {
  int64_t total = 0;
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    total += static_cast<int64_t>(scope->variables_.size());
  }
  return total;
}

// Variables set meanwhile end with the guard.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& self, const Scope* outer) : self_(self), saved_(self.scope_), scope_(outer) {
    self_.scope_ = &scope_;
  }
  explicit ScopeGuard(Interpreter& self) : ScopeGuard(self, self.scope_) {}
  ~ScopeGuard() { self_.scope_ = saved_; }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& self_;
  Scope* saved_;
  Scope scope_;
};

// Output meanwhile goes into a text of its own.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& self) : self_(self), saved_(self.out_) { self_.out_ = &text_; }
  ~Capture() { self_.out_ = saved_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Text take() { return std::move(text_); }

 private:
  Interpreter& self_;
  Text* saved_;
  Text text_;
};

Interpreter::Interpreter(Runtime& runtime, const Value& context) : runtime_(runtime), context_(context) {}

Text Interpreter::render(const Program& program) {
  run_block(program.body);
  return std::move(output_);
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
  for (const Statement& statement : block) {
    const Runtime::Frame frame(runtime_, statement.line);
    const Flow flow = std::visit([this](const auto& node) { return run(node); }, statement.node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

void Interpreter::emit(const Text& text) {
  const int64_t limit =
      out_ == &output_ ? runtime_.options().max_output_bytes : runtime_.options().max_string_bytes;
  if (static_cast<int64_t>(out_->size() + text.size()) > limit) {
    runtime_.fail(fmt::format("more than {} bytes of output", limit));
  }
  runtime_.charge_bytes(text.size());
  out_->append(text);
}

Interpreter::Flow Interpreter::run(const Output& node) {
  emit(*node.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Print& node) {
  const Value value = evaluate(*node.value);
  emit(value.is_text() ? value.text() : to_text(runtime_, value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const If& node) {
  for (const Branch& branch : node.branches) {
    if (evaluate(*branch.condition).truthy()) return run_block(branch.body);
  }
  return run_block(node.otherwise);
}

// The condition of a loop is asked for all items before the first iteration; `loop` is not known there.
SequencePtr Interpreter::filtered_items(const For& node) {
  SequencePtr items = iterate(runtime_, evaluate(*node.iterable));
  if (!node.condition) return items;
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    const ScopeGuard guard(*this);
    scope_->set("loop", Value::undefined("'loop' is undefined in the condition of a for"));
    assign(node.target, item);
    if (evaluate(*node.condition).truthy()) kept.push_back(item);
  }
  return runtime_.make_list(std::move(kept)).sequence_ptr();
}

Interpreter::Flow Interpreter::run(const For& node) {
  const SequencePtr items = filtered_items(node);
  const auto size = static_cast<int64_t>(items->items.size());
  bool reached_end = false;  // of the body, once: as in Jinja2, break and continue do not count for `else`
  for (int64_t i = 0; i < size; ++i) {
    const Flow flow = run_iteration(node, items, i);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) reached_end = true;
  }
  if (reached_end) return Flow::kNext;
  const ScopeGuard guard(*this);
  return run_block(node.otherwise);
}

Interpreter::Flow Interpreter::run_iteration(const For& node, const SequencePtr& items, int64_t index) {
  runtime_.charge(1);
  const ScopeGuard guard(*this);
  auto loop = std::make_shared<Loop>();
  loop->items = items;
  loop->index0 = index;
  scope_->set("loop", Value(LoopPtr(std::move(loop))));
  assign(node.target, items->items[static_cast<size_t>(index)]);
  return run_block(node.body);
}

void Interpreter::assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const Value* space = scope_->find(target.names.front());
    if (space == nullptr || !space->is(Kind::kNamespace)) {
      runtime_.fail(
          fmt::format("'{}' is not a namespace, so it cannot be given attributes", target.names.front()));
    }
    if (!is_data(value))
      runtime_.fail(fmt::format("a {} cannot be stored in a namespace", value.type_name()));
    auto& attributes = space->space().attributes;
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& a) { return a.first == target.attribute; });
    if (found != attributes.end()) {
      found->second = std::move(value);
    } else {
      attributes.emplace_back(target.attribute, std::move(value));
    }
    return;
  }
  if (!target.unpacks) return scope_->set(target.names.front(), std::move(value));
  const SequencePtr parts = iterate(runtime_, value);
  if (parts->items.size() != target.names.size()) {
    runtime_.fail(
        fmt::format("{} values cannot be unpacked into {} names", parts->items.size(), target.names.size()));
  }
  for (size_t i = 0; i < target.names.size(); ++i)
    scope_->set(target.names[i], parts->items[i]);
}

Interpreter::Flow Interpreter::run(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const SetBlock& node) {
  Capture capture(*this);
  {
    const ScopeGuard guard(*this);
    run_block(node.body);
  }
  Value value = runtime_.make_text(capture.take());
  for (const FilterUse& filter : node.filters) {
    value = apply_filter(runtime_, filter.name, value, evaluate(filter.arguments));
  }
  assign(node.target, std::move(value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const MacroStatement& node) {
  auto macro = std::make_shared<Callable>();
  macro->type = Callable::Type::kMacro;
  macro->name = node.name;
  macro->macro = &node;
  scope_->set(node.name, Value(CallablePtr(std::move(macro))));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const With& node) {
  std::vector<Value> values;  // all are evaluated before the first is visible
  for (const auto& variable : node.variables)
    values.push_back(evaluate(*variable.second));
  const ScopeGuard guard(*this);
  for (size_t i = 0; i < values.size(); ++i)
    assign(node.variables[i].first, std::move(values[i]));
  return run_block(node.body);
}

Value Interpreter::call_macro(const MacroStatement& macro, const Arguments& arguments) {
  Capture capture(*this);
  const ScopeGuard guard(*this, &root_);
  bind_parameters(macro, arguments);
  run_block(macro.body);
  return runtime_.make_text(capture.take());
}

void Interpreter::bind_parameters(const MacroStatement& macro, const Arguments& arguments) {
  const std::vector<Parameter>& parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    runtime_.fail(fmt::format("macro '{}' takes {} arguments, got {}", macro.name, parameters.size(),
                              arguments.positional.size()));
  }
  for (const auto& named : arguments.named) {
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const Parameter& p) { return p.name == named.first; });
    if (found == parameters.end()) {
      runtime_.fail(fmt::format("macro '{}' has no parameter '{}'", macro.name, printable(named.first)));
    }
    if (found - parameters.begin() < static_cast<std::ptrdiff_t>(arguments.positional.size())) {
      runtime_.fail(fmt::format("macro '{}': argument '{}' is given twice", macro.name, named.first));
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& a) { return a.first == name; });
    if (i < arguments.positional.size()) {
      scope_->set(name, arguments.positional[i]);
    } else if (named != arguments.named.end()) {
      scope_->set(name, named->second);
    } else if (parameters[i].otherwise) {
      scope_->set(name, evaluate(*parameters[i].otherwise));
    } else {
      scope_->set(name, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
    }
  }
}

}  // namespace switchyard::jinja
