// The merges of a model as the file spells them, in the order of their ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/json_place.h"

namespace switchyard {

class MergeList {
 public:
  // Adds the next element of the array at `place`: ["a", "b"] or, in older files, "a b". The header of a
  // merges.txt, which some files kept, counts as an element but not as a merge. Throws Error for others.
  void add(const Json& element, const JsonPlace& place);

  size_t size() const { return merges_.size(); }

  // Calls use(left, right, merged, index in the array) for each merge.
  template <typename Use>
  void for_each(Use use) const {
    size_t begin = 0;
    for (const Merge& merge : merges_) {
      const std::string_view merged = std::string_view(bytes_).substr(begin, merge.end - begin);
      use(merged.substr(0, merge.middle - begin), merged.substr(merge.middle - begin), merged, merge.index);
      begin = merge.end;
    }
  }

 private:
  struct Merge {
    size_t middle = 0;  // offsets into bytes_; a merge begins where the one before it ends
    size_t end = 0;
    size_t index = 0;
  };

  std::string bytes_;  // the left and the right tokens, one behind the other: each pair is the merged token
  std::vector<Merge> merges_;
  size_t elements_ = 0;
};

}  // namespace switchyard
