// The "normalizer" of tokenizer.json: rewrites a text before it is split into words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/tokenizer/json_place.h"

namespace switchyard {

// No text, before or after normalisation, may be longer: keeps every size within ICU's 32-bit lengths.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

// Throws Error when the text is longer than kMaxTextBytes.
void check_text_size(size_t bytes);

struct NormalizedText {
  std::string text;
  // Whether the first character still stands for the first character of the input. It does not once a
  // leading character was stripped; Metaspace with prepend_scheme "first" asks.
  bool at_origin = true;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;

  // `is_start` is false for a text that continues another one: nothing is prepended to it.
  virtual void apply(NormalizedText& text, bool is_start) const = 0;
};

// Throws Error for a type or key that is not known. `value` null means that there is no normalizer, and gives
// one that changes nothing.
std::unique_ptr<const Normalizer> parse_normalizer(const Json& value, const JsonPlace& place);

}  // namespace switchyard
