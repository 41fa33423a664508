// SPDX-License-Identifier: Apache-2.0
// Attributes: what an operation is told besides its operands.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/spec.h"

namespace shardplan {

using AttributeValue =
    std::variant<double, std::string, std::vector<int64_t>, PartitionSpec>;
using Attributes = std::map<std::string, AttributeValue, std::less<>>;

// The attribute, or a default where it is not given. REQUIRES: if given, it is
// of that kind; building a graph checks the kinds (graph/build.h).
double number_of(const Attributes& attributes, std::string_view name,
                 double otherwise);
std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view otherwise);
std::span<const int64_t> integers_of(const Attributes& attributes,
                                     std::string_view name);

}  // namespace shardplan
