#include "io/tokenizer/stream_decoder.h"

namespace switchyard {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer),
      skip_special_tokens_(skip_special_tokens),
      decoder_(tokenizer_.start_decoder()) {}

std::string StreamDecoder::push(int32_t id) {
  const auto token = tokenizer_.decoder_input(id, skip_special_tokens_);
  return token ? decoder_.push(*token) : std::string();
}

std::string StreamDecoder::finish() {
  return decoder_.finish();
}

}  // namespace switchyard
