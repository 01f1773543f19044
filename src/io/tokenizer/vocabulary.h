// The vocabulary of a model: token strings and their ids, one to one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/json_place.h"

namespace switchyard {

// Ids index arrays, so an absurd one must not cost memory; published vocabularies end near 2^18.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 22) - 1;

class Vocabulary {
 public:
  // An object of token -> id. Throws Error for ids that are no integers from 0 to kMaxTokenId, and for two
  // tokens with one id.
  Vocabulary(const Json& object, const JsonPlace& place);

  // Token strings point into this object.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<int32_t> find(std::string_view token) const;
  std::optional<std::string_view> token(int32_t id) const;  // nullopt for ids that no token has
  int64_t count() const { return count_; }
  int64_t end_id() const { return static_cast<int64_t>(tokens_.size()); }  // largest id + 1

 private:
  void add(std::string_view token, int32_t id, const JsonPlace& place);

  static constexpr int32_t kEmpty = -1;
  size_t slot_of(std::string_view token) const;  // where it stands, or the empty slot where it would

  struct Entry {
    size_t offset = 0;
    uint32_t length = 0;
    bool used = false;
  };

  std::string bytes_;           // all tokens, one behind the other
  std::vector<Entry> tokens_;   // by id
  std::vector<int32_t> slots_;  // open addressing by the hash of the token; a power of two, at most half full
  int64_t count_ = 0;
};

}  // namespace switchyard
