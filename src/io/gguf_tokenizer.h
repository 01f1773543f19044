// The tokenizer in a GGUF file as the tokenizer.json and tokenizer_config.json that it stands for.
//
//   tokenizer.ggml.model  gpt2   byte-level BPE; `pre` names the published tokenizer whose patterns it has
//                         llama  SentencePiece BPE: pieces with scores, bytes for what has no piece
//
// Token types: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused (no token), 6 byte.
#pragma once

#include "base/json.h"
#include "io/gguf_file.h"

namespace switchyard {

bool gguf_has_tokenizer(const GgufFile& file);  // false also for the model "none"

// tokenizer.json. Throws Error for unknown models and pre-tokenizers, by name, and for lists that do not fit
// together.
Json gguf_tokenizer(const GgufFile& file);

// tokenizer_config.json: special tokens and chat templates. Throws Error for what is malformed.
Json gguf_tokenizer_config(const GgufFile& file);

}  // namespace switchyard
