// Rotary position scaling as GGUF files state it.
#pragma once

#include "base/json.h"
#include "io/gguf_keys.h"

namespace switchyard {

// The keys rope.scaling.* and the tensor rope_freqs.weight as `rope_scaling` of config.json; null:
// none. `latent`: as deepseek2 means them. Throws Error for what has no such form.
Json gguf_rope_scaling(const GgufKeys& keys, bool latent);

}  // namespace switchyard
