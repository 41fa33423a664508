// SPDX-License-Identifier: Apache-2.0
// Patterns for parameters: from names to the shortest rule pattern that is
// found in them and in no others.
//
// Names are folded (core/fold.h): `*` stands for any number, and becomes
// `[0-9]+`, so a pattern treats the layers of a model alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardplan {

// A pattern that matches every name of `targets`, whatever their numbers,
// and in none of `others`: a common ending of at least two components, or one
// in which a single component has alternatives. Empty where no such ending
// tells them apart.
std::optional<std::string> pattern_for(
    std::span<const std::string_view> targets,
    std::span<const std::string_view> others);

}  // namespace shardplan
