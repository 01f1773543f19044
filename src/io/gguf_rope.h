// Rotary position scaling as GGUF files state it.
#pragma once

#include "base/json.h"
#include "io/config_reader.h"
#include "io/gguf_file.h"

namespace switchyard {

// The keys <prefix>rope.scaling.* and the tensor rope_freqs.weight as `rope_scaling` of config.json; null:
// none. `latent`: as deepseek2 means them. Throws Error for what has no such form.
Json gguf_rope_scaling(const GgufFile& file, const ConfigReader& keys, const std::string& prefix,
                       bool latent);

}  // namespace switchyard
