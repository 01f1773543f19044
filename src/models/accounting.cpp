#include "models/accounting.h"

#include <cmath>

#include "base/bytes.h"
#include "base/error.h"

namespace switchyard {

Accounting account(const Model& model) {
  Accounting result;
  const ModelShape& shape = model.shape();
  for (const Parameter& parameter : model.parameters()) {
    const int64_t count = parameter.elements;
    double share = 1.0;
    if (parameter.component == Component::kExperts) {
      share = static_cast<double>(shape.top_k) / static_cast<double>(shape.experts);
    }
    const auto bytes = checked_add(result.stored_bytes, parameter.bytes);
    if (!bytes) throw Error("config.json", "", "weights of less than 2^63 bytes together", "more");
    result.stored_bytes = *bytes;
    for (ParameterCount* sum :
         {&result.by_component[static_cast<size_t>(parameter.component)], &result.sum}) {
      sum->total += count;
      sum->active += share * static_cast<double>(count);
    }
  }
  return result;
}

double expected_distinct_experts(int64_t experts, int64_t top_k, int64_t tokens) {
  if (experts == 0) return 0;
  const auto E = static_cast<double>(experts);
  return E * (1 - std::pow(1 - static_cast<double>(top_k) / E, static_cast<double>(tokens)));
}

double parameters_read_per_step(const Model& model, const Accounting& accounting, int64_t sequences) {
  const ModelShape& shape = model.shape();
  const auto total = [&](Component c) {
    return static_cast<double>(accounting.by_component[static_cast<size_t>(c)].total);
  };
  double read = static_cast<double>(accounting.sum.total) - total(Component::kExperts);
  if (!shape.tied_embeddings) {  // a tied matrix is read whole as the output
    read -= total(Component::kEmbedding);
    read += static_cast<double>(sequences * shape.hidden);
  }
  if (shape.experts > 0) {
    const double touched = expected_distinct_experts(shape.experts, shape.top_k, sequences);
    read += total(Component::kExperts) * touched / static_cast<double>(shape.experts);
  }
  return read;
}

}  // namespace switchyard
