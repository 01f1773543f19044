#include "io/tokenizer/vocabulary.h"

#include <bit>

namespace switchyard {

Vocabulary::Vocabulary(const Json& object, const JsonPlace& place) {
  if (!object.is_object()) place.refuse("an object of tokens and ids", describe(object));
  slots_.assign(std::bit_ceil(2 * object.size() + 1), kEmpty);
  tokens_.reserve(object.size());
  for (auto it = object.begin(); it != object.end(); ++it) {
    const Json& id = it.value();
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxTokenId) {
      place.key(it.key()).refuse(fmt::format("an integer from 0 to {}", kMaxTokenId), describe(id));
    }
    add(it.key(), static_cast<int32_t>(id.get<int64_t>()), place);
  }
}

void Vocabulary::add(std::string_view token, int32_t id, const JsonPlace& place) {
  const auto index = static_cast<size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  if (tokens_[index].used) {
    place.key(token).refuse("an id of its own",
                            fmt::format("{}, which '{}' has too", id, printable(*this->token(id))));
  }
  tokens_[index] = {bytes_.size(), static_cast<uint32_t>(token.size()), true};
  bytes_ += token;
  slots_[slot_of(token)] = id;
  ++count_;
}

size_t Vocabulary::slot_of(std::string_view token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(token)&mask;
  while (slots_[slot] != kEmpty && *this->token(slots_[slot]) != token)
    slot = (slot + 1) & mask;
  return slot;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const int32_t id = slots_[slot_of(token)];
  return id == kEmpty ? std::nullopt : std::optional(id);
}

std::optional<std::string_view> Vocabulary::token(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return std::nullopt;
  const Entry& entry = tokens_[static_cast<size_t>(id)];
  if (!entry.used) return std::nullopt;
  return std::string_view(bytes_).substr(entry.offset, entry.length);
}

}  // namespace switchyard
