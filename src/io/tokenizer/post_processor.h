// The "post_processor" of tokenizer.json: puts special tokens (begin of text, ...) around the ids of a text.
// Two texts, the pair form, are not supported.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "io/tokenizer/json_place.h"

namespace switchyard {

class PostProcessor {
 public:
  // `knows_id` says whether a token has that id. Throws Error for a type or key that is not known, and for
  // templates with unknown tokens or without exactly one text.
  PostProcessor(const Json& value, const JsonPlace& place, const std::function<bool(int64_t)>& knows_id);

  void apply(std::vector<int32_t>& ids) const;

 private:
  void parse(const Json& value, const JsonPlace& place, const std::function<bool(int64_t)>& knows_id);
  void parse_template(const JsonObject& object, const std::function<bool(int64_t)>& knows_id);

  std::vector<int32_t> before_;
  std::vector<int32_t> behind_;
};

}  // namespace switchyard
