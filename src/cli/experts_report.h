// Which experts answered: the text and JSON that `run --show-experts` prints.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/session.h"

namespace switchyard {

// One line per token: the text it shows and, by layer, the ids of its experts, best first.
std::string experts_by_token(const std::vector<GeneratedToken>& tokens, const Tokenizer& tokenizer);

// One line per layer: the load figures of docs/moe.md and the busiest experts; then, where there are any, the
// assignments that a capacity or a policy touched.
std::string load_summary(const RoutingStatistics& statistics);

Json experts_json(const GeneratedToken& token);       // {"0": [3, 1], ...} by layer
Json load_json(const RoutingStatistics& statistics);  // figures, hits and effects by layer

}  // namespace switchyard
