// The ids of words met before in the same text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace switchyard {

class WordCache {
 public:
  // Appends the ids of `word`: from the cache, or from encode(word, ids), which appends them.
  template <typename Encode>
  void append(std::string_view word, std::vector<int32_t>& ids, Encode encode) {
    if (const auto it = entries_.find(word); it != entries_.end()) {
      const auto begin = cached_ids_.begin() + static_cast<std::ptrdiff_t>(it->second.offset);
      ids.insert(ids.end(), begin, begin + static_cast<std::ptrdiff_t>(it->second.count));
      return;
    }
    const size_t size_before = ids.size();
    encode(word, ids);
    if (word.size() > kMaxWordBytes || entries_.size() >= kMaxWords) return;
    entries_.emplace(word, Entry{cached_ids_.size(), ids.size() - size_before});
    cached_ids_.insert(cached_ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(size_before), ids.end());
  }

 private:
  static constexpr size_t kMaxWords = 1 << 16;
  static constexpr size_t kMaxWordBytes = 128;  // longer words hardly ever repeat

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };
  struct Entry {
    size_t offset = 0;  // in cached_ids_
    size_t count = 0;
  };

  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
  std::vector<int32_t> cached_ids_;
};

}  // namespace switchyard
