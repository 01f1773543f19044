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
  Vocabulary() = default;
  // Token strings point into this object.
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // Adds a member "token": id of the object at `place`. Throws Error for ids that are no integers from 0 to
  // kMaxTokenId, for two tokens with one id, and for a token that is there already.
  void add(std::string_view token, const Json& id, const JsonPlace& place);

  std::optional<int32_t> find(std::string_view token) const;
  std::optional<std::string_view> token(int32_t id) const;  // nullopt for ids that no token has
  int64_t count() const { return count_; }
  int64_t end_id() const { return static_cast<int64_t>(tokens_.size()); }  // largest id + 1

 private:
  struct Entry {
    size_t offset = 0;
    uint32_t length = 0;
    bool used = false;
  };
  struct Slot {
    int32_t id = kEmpty;
    uint32_t hash = 0;  // saves the look at most other tokens
  };
  static constexpr int32_t kEmpty = -1;

  static uint32_t hash_of(std::string_view token);
  size_t slot_of(std::string_view token, uint32_t hash) const;  // where it stands, or where it would
  void grow();

  std::string bytes_;          // all tokens, one behind the other
  std::vector<Entry> tokens_;  // by id
  // Open addressing by the hash of the token; a power of two, at most half full.
  std::vector<Slot> slots_ = std::vector<Slot>(2);
  int64_t count_ = 0;
};

}  // namespace switchyard
