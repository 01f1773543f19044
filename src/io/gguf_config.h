// What the metadata of a GGUF file says about a model, in the dialect of Hugging Face, so that the families
// read it as they read any config.json.
//
//   general.architecture     model_type
//   llama                    llama, with expert_count mixtral
//   qwen2, qwen3, olmoe      the same
//   qwen2moe, qwen3moe       qwen2_moe, qwen3_moe
//   deepseek                 deepseek
//   deepseek2                deepseek_v2, with a sigmoid router deepseek_v3
//
// Sources of the keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and the `gguf` Python
// package (constants.py). What an architecture implies and no key says (whether weights of the experts are
// renormalised, say) is what the published models of the architecture have.
#pragma once

#include <string>

#include "base/json.h"
#include "io/gguf_file.h"

namespace switchyard {

// general.architecture. Throws Error when it is absent.
std::string gguf_architecture(const GgufFile& file);

// config.json. Throws Error for unknown architectures, for keys under the architecture's prefix that are
// unknown and may change results, for missing and contradicting ones, and for one file of a split model.
Json gguf_config(const GgufFile& file);

// generation_config.json: the tokens that begin and end a text.
Json gguf_generation_config(const GgufFile& file);

// Whether the rows of q and k stand in the order that rotates neighbours (2i, 2i + 1), where the checkpoint
// of Hugging Face has the one that rotates halves (i, i + A/2).
bool gguf_permutes_rows(const std::string& architecture);

}  // namespace switchyard
