// Metaspace, as pre-tokenizer and as decoder: spaces become a visible character, usually U+2581, and back.
#pragma once

#include "io/tokenizer/json_place.h"

namespace switchyard {

// Which words get the replacement character in front when they do not begin with it already.
enum class PrependScheme { kAlways, kFirst, kNever };

struct Metaspace {
  char32_t replacement = 0;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

Metaspace parse_metaspace(const JsonObject& object);

}  // namespace switchyard
