// tokenizer.json from arbitrary bytes; what loads must encode, decode and stream fixed texts without harm.
#include "io/tokenizer/tokenizer.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "io/tokenizer/stream_decoder.h"

namespace switchyard {
namespace {

constexpr std::string_view kTexts[] = {
    "",
    " Hello,  world! it's 12345\r\n\n\tx ",
    "<s>naïve e\u0301 \u0130 ﬁ 世界 🙂 \u3000</s> word [MASK]  the-final--countdown",
    "<0x41>\u0001▁aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
};

void require(bool condition) {
  if (!condition) std::abort();
}

void check_decoding(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special_tokens) {
  StreamDecoder stream(tokenizer, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids)
    text += stream.push(id);
  text += stream.finish();
  require(text == tokenizer.decode(ids, skip_special_tokens));
}

void use(const Tokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    const std::string mask(text.size(), '\1');
    for (const EncodeOptions& options :
         {EncodeOptions{}, EncodeOptions{.add_special_tokens = true, .parse_special = false},
          EncodeOptions{.literal_mask = mask}}) {
      const std::vector<int32_t> ids = tokenizer.encode(text, options);
      for (const int32_t id : ids)
        require(id >= 0 && id < tokenizer.vocab_size());
      check_decoding(tokenizer, ids, false);
      check_decoding(tokenizer, ids, true);
    }
  }
}

}  // namespace
}  // namespace switchyard

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using switchyard::Tokenizer;
  try {
    switchyard::use(Tokenizer::parse({reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const switchyard::Error&) {
    // The expected answer to almost every input.
  }
  return 0;
}
