// json.dumps, as the tojson filter of `transformers` calls it.
#pragma once

#include <optional>

#include "jinja/runtime.h"

namespace switchyard::jinja {

struct JsonFormat {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // one level; without it everything is on one line
  Text item_separator;
  Text key_separator;
};

// Bytes of strings, escaped or not, keep their provenance; punctuation and numbers are the template's own.
Text to_json(Runtime& runtime, const Value& value, const JsonFormat& format);

}  // namespace switchyard::jinja
