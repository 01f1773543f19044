// Arithmetic on one row of logits [V].
#pragma once

#include <cstdint>
#include <span>

namespace switchyard {

// The id of the largest logit; of equal ones the lowest.
int32_t most_likely(std::span<const float> logits);

// log(sum_i exp(logits[i])), in double. Throws Error when a logit is NaN or none is finite.
double log_sum_exp(std::span<const float> logits);

}  // namespace switchyard
