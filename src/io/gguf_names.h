// The names of tensors in GGUF files for the names in checkpoints of Hugging Face.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace switchyard {

struct GgufName {
  std::string tensor;      // "blk.3.attn_q.weight"
  int64_t expert = -1;     // slice of `tensor` along its first dimension; -1: all of it
  std::string own_tensor;  // what an expert's slice is called in older files, which keep experts one by one
};

// For "model.layers.3.self_attn.q_proj.weight", say. Nothing for a name without a counterpart.
std::optional<GgufName> gguf_name(std::string_view name);

}  // namespace switchyard
