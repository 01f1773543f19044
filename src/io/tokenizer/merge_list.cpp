#include "io/tokenizer/merge_list.h"

#include <utility>

namespace switchyard {
namespace {

std::pair<std::string_view, std::string_view> split_merge(const Json& merge, const JsonPlace& place,
                                                          size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  place.index(index).refuse("two tokens, as an array or with a space between", describe(merge));
}

}  // namespace

void MergeList::add(const Json& element, const JsonPlace& place) {
  const size_t index = elements_++;
  if (element.is_string() && element.get_ref<const std::string&>().rfind("#version", 0) == 0) return;
  const auto [left, right] = split_merge(element, place, index);
  bytes_ += left;
  const size_t middle = bytes_.size();
  bytes_ += right;
  merges_.push_back({middle, bytes_.size(), index});
}

}  // namespace switchyard
