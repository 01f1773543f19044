// Keys of config.json that no model family has to read.
#pragma once

#include <span>
#include <string_view>

namespace switchyard {

// The value makes no difference to logits, whatever it is.
struct HarmlessKey {
  std::string_view key;
  std::string_view reason;
};
std::span<const HarmlessKey> harmless_config_keys();

// One value, or null, makes no difference; every other value asks for something that nothing here does.
struct NeutralKey {
  std::string_view key;
  std::string_view neutral_json;
};
std::span<const NeutralKey> neutral_config_keys();

}  // namespace switchyard
