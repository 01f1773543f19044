#include "jinja/jinja.h"

#include "jinja/ast.h"
#include "jinja/context.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace switchyard::jinja {

Template Template::parse(std::string_view source, const std::string& where) {
  return Template(std::make_shared<const Program>(parse_template(source, where)), where);
}

Rendered Template::render(const OrderedJson& context, const RenderOptions& options) const {
  Runtime runtime(where_, options);
  const Value variables = context_from_json(runtime, context);
  Text text = Interpreter(runtime, variables).render(*program_);
  return {std::move(text.bytes), std::move(text.from_input)};
}

}  // namespace switchyard::jinja
