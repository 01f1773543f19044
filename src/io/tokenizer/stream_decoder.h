// The text of a growing sequence of tokens.
#pragma once

#include <cstdint>
#include <string>

#include "io/tokenizer/decoder.h"
#include "io/tokenizer/tokenizer.h"

namespace switchyard {

// All results of push() and the one of finish() together are Tokenizer::decode() of the whole sequence. Every
// result is valid UTF-8: characters that are not complete yet are held back, and so is a run of byte tokens
// (<0x41>) until it ends, since the library decodes it as a whole. The cost per token
// is constant on average. Behind a Fuse, Replace and ByteLevel see one token only, whose text comes with
// finish().
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);

  std::string push(int32_t id);  // throws Error for an id without a token
  std::string finish();          // the end: nothing may be pushed afterwards

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  RunningDecoder decoder_;
};

}  // namespace switchyard
