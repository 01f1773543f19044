// Arbitrary JSON as the config.json of any family: an Error, or a model whose shape and arithmetic hold.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/cpu/reference.h"
#include "base/error.h"
#include "io/quantization_config.h"
#include "models/accounting.h"
#include "models/registry.h"

namespace {

using namespace switchyard;

void require(bool condition) {
  if (!condition) std::abort();
}

// A model declares a tensor for each expert of each layer: not so many that an input takes seconds.
bool is_small(const Json& json) {
  int64_t tensors = 1;
  for (const char* key : {"num_hidden_layers", "num_experts", "num_local_experts", "n_routed_experts"}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer()) continue;
    const auto value = found->get<int64_t>();
    if (value < 0 || value > 64) return false;
    tensors *= std::max<int64_t>(1, value);
    if (tensors > 512) return false;
  }
  return true;
}

void check(const Model& model) {
  const ModelShape& s = model.shape();
  require(s.layer_count() >= 1 && s.top_k <= s.experts && s.kv.elements() > 0);
  require(s.n_group >= 1 && (s.experts == 0 || s.experts % s.n_group == 0));
  const Accounting accounting = account(model);
  require(accounting.sum.total > 0 && std::isfinite(accounting.sum.active));
  require(std::isfinite(parameters_read_per_step(model, accounting, 32)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Json json = parse_json({reinterpret_cast<const char*>(data), size}, "input");
    if (!json.is_object() || !is_small(json)) return 0;
    const ConfigReader config(json, "input");
    ReferenceBackend backend;
    DeclaredWeights weights(DType::kBF16);
    read_quantization_config(config);
    check(*make_model(config, weights, backend));
  } catch (const Error&) {
  }
  return 0;
}
