// SPDX-License-Identifier: Apache-2.0
// Sums over groups of parameters: by dtype, by top-level module, by rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "core/fold.h"
#include "core/plan.h"

namespace shardplan {

struct Group {
  std::string name;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;             // logical
  int64_t bytes_per_device = 0;  // of the largest shards
};

// In order of first appearance. `folding` is by placement.
std::vector<Group> by_dtype(const Plan& plan, const Folding& folding);
// By the path in front of the first number, at most two components and never
// the leaf: `model.layers.0.mlp.w` belongs to `model.layers`.
std::vector<Group> by_module(const Plan& plan, const Folding& folding);
// `1`, `2`, ... ; `none` for parameters that no rule decided.
std::vector<Group> by_rule(const Plan& plan, const Folding& folding);

std::string module_of(std::string_view folded_name);

}  // namespace shardplan
