// Regular expressions as tokenizer.json means them: Oniguruma's syntax, which the Hugging Face library uses,
// run by PCRE2. What the two understand differently is translated, or refused by name (see regex_syntax.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/tokenizer/json_place.h"

namespace switchyard {

struct RegexMatch {
  size_t begin = 0;  // byte offsets in the searched text
  size_t end = 0;
};

class Regex {
 public:
  // Throws Error, naming `place`, for a pattern that is malformed or whose meaning PCRE2 does not share.
  Regex(std::string_view pattern, const JsonPlace& place);

  // The first match that begins at or behind `from`; characters before `from` are visible to lookbehind. The
  // text must be valid UTF-8. Throws Error when matching exceeds its step or stack limit.
  std::optional<RegexMatch> find(std::string_view text, size_t from) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;  // immutable, so that copies and threads may share it
  JsonPlace place_;
};

}  // namespace switchyard
