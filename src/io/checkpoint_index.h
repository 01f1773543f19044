// model.safetensors.index.json and pytorch_model.bin.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace switchyard {

struct CheckpointIndex {
  std::map<std::string, std::string> shard_of;  // tensor -> plain file name
  std::optional<int64_t> total_size_bytes;      // metadata.total_size, where present
};

// `where` names the file in errors. Throws Error on malformed JSON, unknown keys, wrong types, an empty
// weight_map, and shard names that are not plain names ending in `shard_suffix` (a path could leave the
// folder).
CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where,
                                       std::string_view shard_suffix);

}  // namespace switchyard
