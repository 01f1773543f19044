// Byte pair encoding: the "model" of tokenizer.json. A word starts as its characters; the adjacent pair whose
// merge has the lowest rank is joined, the leftmost first among equals, until no pair has a merge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/json_place.h"
#include "io/tokenizer/merge_list.h"
#include "io/tokenizer/pair_table.h"
#include "io/tokenizer/vocabulary.h"

namespace switchyard {

// The vocabulary and the merges of a model. They are nearly all of a tokenizer.json, and are read while it is
// parsed.
struct BpeTables {
  // The streams that fill the tables; `model` is where the model stands, a key of the document itself. The
  // tables must stay where they are meanwhile.
  std::vector<JsonStream> streams(const JsonPlace& model);

  Vocabulary vocabulary;
  MergeList merges;
};

class Bpe {
 public:
  // Throws Error for other model types, unknown keys, options that change the meaning and are not supported
  // (dropout, subword prefixes and suffixes), merges of or into tokens that the vocabulary lacks, and bytes
  // missing for byte_fallback: all 256 but those that UTF-8 never contains are needed.
  Bpe(const Json& model, BpeTables tables, const JsonPlace& place);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Buffers for encode(), to be reused from word to word.
  struct Scratch;

  // Appends the ids of one word, in O(n log n) of its length. Throws Error for a character that the
  // vocabulary lacks when there is neither byte_fallback nor an unk_token.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void add_merges(const MergeList& merges, const JsonPlace& place);
  void find_bytes(const JsonPlace& place);
  std::optional<int32_t> id_of_char(std::string_view word, size_t begin, size_t end) const;
  void append_symbols(std::string_view word, Scratch& scratch) const;
  void merge(Scratch& scratch) const;

  Vocabulary vocabulary_;
  PairTable merges_;
  JsonPlace place_;
  std::optional<int32_t> unk_id_;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;      // a word that is a token becomes that token
  std::vector<int32_t> byte_ids_;   // of <0x00> to <0xFF>, with byte_fallback; -1 where missing
  std::vector<int32_t> short_ids_;  // of the characters below kShortChars; -1 where missing
};

struct Bpe::Scratch {
  struct Symbol {
    int32_t id = 0;
    int32_t previous = -1;  // indexes; -1 at the ends
    int32_t next = -1;
    bool merged_away = false;
  };
  struct Candidate {
    int32_t rank = 0;
    int32_t at = 0;  // the left symbol of the pair
    int32_t merged_id = 0;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;  // a heap, lowest rank and then leftmost on top
};

}  // namespace switchyard
