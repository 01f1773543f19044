#include "engine/logits.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace switchyard {

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double log_sum_exp(std::span<const float> logits) {
  const double largest = logits[static_cast<size_t>(most_likely(logits))];
  double sum = 0;
  for (const float z : logits)
    sum += std::exp(z - largest);
  const double result = largest + std::log(sum);
  if (!std::isfinite(result)) {
    throw Error("model", "logits", "numbers", "NaN or infinity: the weights are broken");
  }
  return result;
}

}  // namespace switchyard
