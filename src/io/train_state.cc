// SPDX-License-Identifier: Apache-2.0
#include "io/train_state.h"

#include <algorithm>

namespace shardplan {

StatePart state_part(std::string_view name) {
  const size_t end = std::min(name.find_first_of("./"), name.size());
  const std::string_view first = name.substr(0, end);
  if (first == "opt_state" || first == "opt_states" || first == "optimizer") {
    return StatePart::Optimizer;
  }
  if (first == "step" || first == "rng") return StatePart::Counter;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t cut = std::min(name.find_first_of("./", begin), name.size());
    if (name.substr(begin, cut - begin) == "rngs") return StatePart::Counter;
    begin = cut + 1;
  }
  return StatePart::Parameter;
}

}  // namespace shardplan
