// Rotary position embedding as config.json states it, in either dialect:
//   transformers 5:  "rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 4.0, ...}
//   before:          "rope_theta": 1e6, "rope_scaling": {"type" or "rope_type": "yarn", "factor": 4.0, ...}
#pragma once

#include <string>

#include "base/json.h"
#include "io/config_reader.h"

namespace switchyard {

struct RopeConfig {
  std::string type = "default";      // default, linear, dynamic, yarn, longrope or llama3
  double theta = 0;                  // base of the frequencies
  Json parameters = Json::object();  // the type's other keys, types and ranges checked, null ones left out
  std::string path;                  // of the config, and
  std::string object = "rope_parameters";  // the key that holds the parameters: for errors
};

// Missing parts read as transformers resolves them (modeling_rope_utils.py, RotaryEmbeddingConfigMixin):
// theta is the family's default_theta, the type is "default", and original_max_position_embeddings, where the
// type needs it, is max_position_embeddings. Throws Error on contradictions between the places that may state
// one value, on unknown types, on missing and unknown parameters, and on parameters that differ by layer
// type.
RopeConfig read_rope_config(const ConfigReader& config, double default_theta);

}  // namespace switchyard
