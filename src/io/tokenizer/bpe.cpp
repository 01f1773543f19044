#include "io/tokenizer/bpe.h"

#include <algorithm>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

constexpr char32_t kShortChars = 0x800;  // those of one or two bytes: ASCII and the byte alphabet among them
constexpr int32_t kMissing = -1;

JsonObject checked_model(const Json& model, const JsonPlace& place) {
  const JsonObject object(model, place);
  if (object.string("type") != "BPE") object.place("type").refuse("BPE", printable(object.string("type")));
  object.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                     "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const Json* dropout = object.find("dropout"); dropout != nullptr && *dropout != 0) {
    object.place("dropout").refuse("null or 0", describe(*dropout));
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (object.find(key) != nullptr && !object.string(key).empty()) {
      object.place(key).refuse("null or an empty string", describe(object.at(key)));
    }
  }
  const Json& vocab = object.at("vocab");
  if (!vocab.is_object()) object.place("vocab").refuse("an object of tokens and ids", describe(vocab));
  object.array("merges");
  return object;
}

bool merges_later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

std::vector<JsonStream> BpeTables::streams(const JsonPlace& model) {
  const auto add_token = [this, place = model.key("vocab")](const std::string& token, const Json& id) {
    vocabulary.add(token, id, place);
  };
  const auto add_merge = [this, place = model.key("merges")](const std::string&, const Json& merge) {
    merges.add(merge, place);
  };
  return {{{model.path, "vocab"}, Json::value_t::object, add_token},
          {{model.path, "merges"}, Json::value_t::array, add_merge}};
}

Bpe::Bpe(const Json& model, BpeTables tables, const JsonPlace& place)
    : vocabulary_(std::move(tables.vocabulary)), place_(place) {
  const JsonObject object = checked_model(model, place);
  fuse_unk_ = object.boolean_or("fuse_unk", false);
  byte_fallback_ = object.boolean_or("byte_fallback", false);
  ignore_merges_ = object.boolean_or("ignore_merges", false);
  if (object.find("unk_token") != nullptr) {
    unk_id_ = vocabulary_.find(object.string("unk_token"));
    if (!unk_id_)
      object.place("unk_token").refuse("a token of the vocabulary", describe(object.at("unk_token")));
  }
  add_merges(tables.merges, object.place("merges"));
  find_bytes(object.place("vocab"));
}

void Bpe::add_merges(const MergeList& merges, const JsonPlace& place) {
  merges_.reserve(merges.size());
  int32_t rank = 0;
  merges.for_each([&](std::string_view left, std::string_view right, std::string_view merged, size_t index) {
    const auto id = [&](std::string_view token) {
      const auto found = vocabulary_.find(token);
      if (!found) {
        place.index(index).refuse("tokens of the vocabulary", fmt::format("'{}'", printable(token)));
      }
      return *found;
    };
    const int32_t left_id = id(left);
    const int32_t right_id = id(right);
    merges_.set(left_id, right_id, {rank++, id(merged)});
  });
}

void Bpe::find_bytes(const JsonPlace& place) {
  short_ids_.assign(kShortChars, kMissing);
  for (char32_t c = 0; c < kShortChars; ++c) {
    std::string text;
    append_char(c, text);
    short_ids_[c] = vocabulary_.find(text).value_or(kMissing);
  }
  if (!byte_fallback_) return;
  byte_ids_.assign(256, kMissing);
  for (int byte = 0; byte < 256; ++byte) {
    if (!occurs_in_utf8(static_cast<uint8_t>(byte))) continue;
    const std::string token = fmt::format("<0x{:02X}>", byte);
    const auto id = vocabulary_.find(token);
    if (!id) place.refuse("a token for every byte, as byte_fallback needs", fmt::format("no '{}'", token));
    byte_ids_[static_cast<size_t>(byte)] = *id;
  }
}

std::optional<int32_t> Bpe::id_of_char(std::string_view word, size_t begin, size_t end) const {
  if (end - begin > 2) return vocabulary_.find(word.substr(begin, end - begin));
  const int32_t id = short_ids_[next_char(word, begin)];
  return id == kMissing ? std::nullopt : std::optional(id);
}

void Bpe::append_symbols(std::string_view word, Scratch& scratch) const {
  const auto append = [&](int32_t id) { scratch.symbols.push_back({id, -1, -1, false}); };
  bool last_is_unk = false;
  for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    next_char(word, end);
    const auto id = id_of_char(word, begin, end);
    if (id) {
      append(*id);
    } else if (byte_fallback_) {
      for (size_t i = begin; i < end; ++i)
        append(byte_ids_[static_cast<uint8_t>(word[i])]);
    } else if (!unk_id_) {
      place_.refuse("a token for every character of the text, or an unk_token",
                    fmt::format("none for '{}'", printable(word.substr(begin, end - begin))));
    } else if (!(fuse_unk_ && last_is_unk)) {
      append(*unk_id_);
    }
    last_is_unk = !id && !byte_fallback_;
  }
}

void Bpe::merge(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  // Queues the pair, to be ordered by the caller; false when it does not merge.
  const auto queue_pair = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return false;
    const BpeMerge* found =
        merges_.find(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
    if (found == nullptr) return false;
    queue.push_back({found->rank, left, found->merged_id});
    return true;
  };
  const auto add_pair = [&](int32_t left, int32_t right) {
    if (queue_pair(left, right)) std::push_heap(queue.begin(), queue.end(), merges_later);
  };
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
    queue_pair(i - 1, i);
  }
  std::make_heap(queue.begin(), queue.end(), merges_later);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), merges_later);
    const Scratch::Candidate top = queue.back();
    queue.pop_back();
    auto& left = symbols[static_cast<size_t>(top.at)];
    if (left.merged_away || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    // The pair may have changed since it was queued. Like the library this compares what the merge gives,
    // not its rank.
    const BpeMerge* current = merges_.find(left.id, right.id);
    if (current == nullptr || current->merged_id != top.merged_id) continue;
    left.id = top.merged_id;
    left.next = right.next;
    right.merged_away = true;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = top.at;
    add_pair(left.previous, top.at);
    add_pair(top.at, left.next);
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const auto id = vocabulary_.find(word)) {
      ids.push_back(*id);
      return;
    }
  }
  scratch.symbols.clear();
  scratch.queue.clear();
  append_symbols(word, scratch);
  merge(scratch);
  for (const auto& symbol : scratch.symbols) {
    if (!symbol.merged_away) ids.push_back(symbol.id);
  }
}

}  // namespace switchyard
