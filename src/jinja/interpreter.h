// Walks the tree and renders it.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/ast.h"
#include "jinja/runtime.h"

namespace switchyard::jinja {

// Variables of one block; a lookup goes on in the enclosing ones.
class Scope {
 public:
  explicit Scope(const Scope* outer) : outer_(outer) {}

  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;  // nullptr when absent
  int64_t size() const;                            // variables, with those of enclosing scopes

 private:
  const Scope* outer_;
  std::vector<std::pair<std::string_view, Value>> variables_;  // names belong to the tree
};

class Interpreter {
 public:
  Interpreter(Runtime& runtime, const Value& context);

  Text render(const Program& program);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;
  class Capture;

  // Statements
  Flow run_block(const Block& block);
  Flow run(const Output& node);
  Flow run(const Print& node);
  Flow run(const If& node);
  Flow run(const For& node);
  Flow run(const Set& node);
  Flow run(const SetBlock& node);
  Flow run(const MacroStatement& node);
  Flow run(const With& node);
  Flow run(const Break&) { return Flow::kBreak; }
  Flow run(const Continue&) { return Flow::kContinue; }

  void emit(const Text& text);
  void assign(const Target& target, Value value);
  SequencePtr filtered_items(const For& node);
  Flow run_iteration(const For& node, const SequencePtr& items, int64_t index);

  // Expressions
  Value evaluate(const Expression& expression);
  Value eval(const Literal& node) { return node.value; }
  Value eval(const Name& node);
  Value eval(const SequenceLiteral& node);
  Value eval(const DictLiteral& node);
  Value eval(const Unary& node);
  Value eval(const Binary& node);
  Value eval(const Logic& node);
  Value eval(const Concat& node);
  Value eval(const Comparison& node);
  Value eval(const Conditional& node);
  Value eval(const Attribute& node);
  Value eval(const Subscript& node);
  Value eval(const Slice& node);
  Value eval(const Call& node);
  Value eval(const FilterUse& node);
  Value eval(const TestUse& node);

  Arguments evaluate(const ArgumentList& list);
  Value call_macro(const MacroStatement& macro, const Arguments& arguments);
  void bind_parameters(const MacroStatement& macro, const Arguments& arguments);

  Runtime& runtime_;
  const Value& context_;
  Text output_;
  Text* out_ = &output_;  // the output, or what a macro or a set block collects
  Scope root_{nullptr};
  Scope* scope_ = &root_;
};

}  // namespace switchyard::jinja
