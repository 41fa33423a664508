// SPDX-License-Identifier: Apache-2.0
// Operations whose result is their operand, or a part of it, seen in another
// way: they compute nothing, and whoever holds the result holds the operand's
// storage. A program may copy all the same where strides do not allow a view
// (graph/tensor.h); what is counted as held takes them to be views.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace shardplan {

inline constexpr std::array<std::string_view, 5> kViewOps = {
    "reshape", "transpose", "slice", "expand", "constraint"};

inline bool is_view_op(std::string_view op) {
  return std::find(kViewOps.begin(), kViewOps.end(), op) != kViewOps.end();
}

}  // namespace shardplan
