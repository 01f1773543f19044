#include "io/checkpoint_index.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "io/tensor_file.h"

namespace switchyard {
namespace {

bool is_plain_file_name(std::string_view name, std::string_view suffix) {
  const bool ends_well = name.size() > suffix.size() && name.ends_with(suffix);
  return ends_well && std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
         });
}

std::map<std::string, std::string> parse_weight_map(const Json& json, const std::string& where,
                                                    std::string_view shard_suffix) {
  const auto found = json.find("weight_map");
  if (found == json.end()) throw Error(where, "", "a key 'weight_map'", describe(json));
  if (!found->is_object() || found->empty()) {
    throw Error(where, "weight_map", "an object from tensor to file name", describe(*found));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string&>(), shard_suffix)) {
      throw Error(where, tensor_item(tensor),
                  fmt::format("the plain name of a {} file in this folder", shard_suffix), describe(shard));
    }
    shard_of[tensor] = shard.get<std::string>();
  }
  return shard_of;
}

std::optional<int64_t> parse_total_size(const Json& json, const std::string& where) {
  const auto metadata = json.find("metadata");
  if (metadata == json.end()) return std::nullopt;
  if (!metadata->is_object()) throw Error(where, "metadata", "an object", describe(*metadata));
  const auto total = metadata->find("total_size");
  if (total == metadata->end()) return std::nullopt;
  // Some tools divide in Python and so write an integral float.
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53
  if (total->is_number_unsigned() && total->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) {
    return static_cast<int64_t>(total->get<uint64_t>());
  }
  if (total->is_number_float()) {
    const double value = total->get<double>();
    if (value >= 0 && value <= kLargestExact && value == static_cast<double>(static_cast<int64_t>(value))) {
      return static_cast<int64_t>(value);
    }
  }
  throw Error(where, "metadata.total_size", "a number of bytes", describe(*total));
}

}  // namespace

CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where,
                                       std::string_view shard_suffix) {
  const Json json = parse_json(text, where);
  if (!json.is_object()) throw Error(where, "", "an object with 'weight_map'", describe(json));
  for (const auto& [key, value] : json.items()) {
    if (key != "weight_map" && key != "metadata") {
      throw Error(where, "", "only the keys 'weight_map' and 'metadata'",
                  fmt::format("'{}'", printable(key)));
    }
  }
  return {parse_weight_map(json, where, shard_suffix), parse_total_size(json, where)};
}

}  // namespace switchyard
