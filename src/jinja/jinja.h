// A small Jinja2 engine for chat templates. It renders as `transformers` does: an immutable sandbox with
// trim_blocks, lstrip_blocks and loop controls, a `tojson` filter that is json.dumps without HTML escapes,
// and the globals raise_exception and strftime_now. Semantics follow Jinja2 3.1
// (https://jinja.palletsprojects.com) and Python; what the engine does not know is refused with its name and
// line, never ignored.
//
// Not supported, and refused: template inheritance, include and import, `call`, `filter` and `do` blocks,
// recursive loops, macros outside the top level, varargs/kwargs of macros, *args and **kwargs in calls,
// nested assignment targets, integers beyond 64 bits, character classes (isalpha, isupper, ...) of non-ASCII
// text, and printing of ranges, iterators, functions and namespaces.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace switchyard::jinja {

struct Program;

struct RenderOptions {
  // Keys of the context whose strings count as the template's own, e.g. bos_token.
  std::set<std::string> trusted;

  int64_t max_output_bytes = int64_t{16} << 20;
  int64_t max_string_bytes = int64_t{16} << 20;  // of any string on the way
  int64_t max_steps = 10'000'000;  // evaluations, list elements made, and each 16 bytes of string
  int64_t max_range = 100'000;     // elements of one range(), as in Jinja2's sandbox
  int max_depth = 400;             // statements, expressions and macro calls inside each other

  // Clock of strftime_now; the local time when empty.
  std::function<std::tm()> now;
};

struct Rendered {
  std::string text;
  // As long as text. Non-zero: the byte came from a string of the context (user input). Numbers, booleans and
  // the punctuation that tojson or list printing adds count as the template's own.
  std::string from_input;
};

// An immutable parsed template; render() may be called from several threads at once.
class Template {
 public:
  // `where` names the source in errors. Throws Error "<where>: line N: ..." for bad syntax, unknown tags,
  // filters or tests, too deep nesting, and invalid UTF-8.
  static Template parse(std::string_view source, const std::string& where);

  // `context` is an object: the variables of the template. Throws Error "<where>: line N: ..." for whatever
  // Jinja2 would raise, for constructs that are not supported, and when a limit is reached.
  Rendered render(const OrderedJson& context, const RenderOptions& options = {}) const;

 private:
  Template(std::shared_ptr<const Program> program, std::string where)
      : program_(std::move(program)), where_(std::move(where)) {}

  std::shared_ptr<const Program> program_;
  std::string where_;
};

}  // namespace switchyard::jinja
