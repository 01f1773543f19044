// Arbitrary JSON as config.json, generation_config.json and the index of shards: an Error or checked values.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "base/error.h"
#include "io/checkpoint_index.h"
#include "io/config_reader.h"
#include "io/generation_config.h"
#include "io/rope_config.h"

namespace {

using namespace switchyard;

constexpr int64_t kVocab = 1000;

void attempt(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error&) {
  }
}

void require(bool condition) {
  if (!condition) std::abort();
}

void read_config(const ConfigReader& config) {
  attempt([&] { require(config.required_int("hidden_size", 1, 4096) >= 1); });
  attempt([&] { require(config.int_or("num_experts", 60, 1, 512) <= 512); });
  attempt([&] { require(config.optional_int("num_key_value_heads", 1, 64).value_or(1) >= 1); });
  attempt([&] { require(config.number_or("rms_norm_eps", 1e-6, 0, 1) <= 1); });
  attempt([&] { config.bool_or("norm_topk_prob", false); });
  attempt([&] { config.string_or("hidden_act", "silu"); });
  attempt([&] { config.int_list_or("mlp_only_layers", {}, 0, 64); });
  attempt([&] { config.optional_string_list("layer_types"); });
  attempt([&] { config.dtype(); });
  attempt([&] { config.model_type(); });
  attempt([&] { config.architecture(); });
  attempt([&] {
    for (const int32_t id : config.token_ids("eos_token_id", kVocab))
      require(id >= 0 && id < kVocab);
  });
  attempt([&] { require(read_rope_config(config, 10000).theta > 0); });
  attempt([&] { config.finish(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    for (const auto& [tensor, shard] : parse_checkpoint_index(text, "input", ".safetensors").shard_of) {
      require(shard.find('/') == std::string::npos && shard != "..");
    }
  });
  attempt([&] {
    const Json json = parse_json(text, "input");
    attempt([&] { require(parse_generation_config(json, "input", kVocab).temperature >= 0); });
    read_config(ConfigReader(json, "input"));
  });
  return 0;
}
