#include "io/tokenizer/vocabulary.h"

#include <functional>

namespace switchyard {

void Vocabulary::add(std::string_view token, const Json& id, const JsonPlace& place) {
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxTokenId) {
    place.key(token).refuse(fmt::format("an integer from 0 to {}", kMaxTokenId), describe(id));
  }
  const auto index = id.get<size_t>();
  const uint32_t hash = hash_of(token);
  Slot& slot = slots_[slot_of(token, hash)];
  if (slot.id != kEmpty) refuse_duplicate_key(token, place.document);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  if (tokens_[index].used) {
    const std::string other = printable(*this->token(static_cast<int32_t>(index)));
    place.key(token).refuse("an id of its own", fmt::format("{}, which '{}' has too", index, other));
  }
  slot = {static_cast<int32_t>(index), hash};
  tokens_[index] = {bytes_.size(), static_cast<uint32_t>(token.size()), true};
  bytes_ += token;
  ++count_;
  if (2 * static_cast<size_t>(count_) > slots_.size()) grow();
}

uint32_t Vocabulary::hash_of(std::string_view token) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(token));
}

size_t Vocabulary::slot_of(std::string_view token, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].id != kEmpty && (slots_[slot].hash != hash || *this->token(slots_[slot].id) != token))
    slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  std::vector<Slot> larger(2 * slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.id == kEmpty) continue;
    size_t at = slot.hash & (larger.size() - 1);
    while (larger[at].id != kEmpty)
      at = (at + 1) & (larger.size() - 1);
    larger[at] = slot;
  }
  slots_ = std::move(larger);
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const int32_t id = slots_[slot_of(token, hash_of(token))].id;
  return id == kEmpty ? std::nullopt : std::optional(id);
}

std::optional<std::string_view> Vocabulary::token(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return std::nullopt;
  const Entry& entry = tokens_[static_cast<size_t>(id)];
  if (!entry.used) return std::nullopt;
  return std::string_view(bytes_).substr(entry.offset, entry.length);
}

}  // namespace switchyard
