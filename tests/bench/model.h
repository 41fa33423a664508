// SPDX-License-Identifier: Apache-2.0
// Synthetic models and rules of realistic shape, the same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardplan::bench {

// `count` names as a mixture-of-experts checkpoint has them, about 50 bytes.
std::vector<std::string> model_names(size_t count);
// A flat native manifest with those names.
std::string manifest_text(const std::vector<std::string>& names);
// `count` patterns; the last is `.*`.
std::vector<std::string> patterns(size_t count);
std::string rules_text(const std::vector<std::string>& patterns);

}  // namespace shardplan::bench
