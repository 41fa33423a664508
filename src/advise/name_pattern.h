// SPDX-License-Identifier: Apache-2.0
// Patterns for parameters: from names to the shortest rule pattern that is
// found in them and in no others, and from a pattern that matches nothing to
// the one that was meant.
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

// The pattern with each word that is in no name replaced by the one that it is
// nearest to: `embed_token\.weight` is `embed_tokens\.weight`. Words of up to
// three letters stay. Empty where all are known, where one is near to none, and
// where the pattern may tell numbers apart, since `names` are folded. What it
// matches is to be tried.
std::optional<std::string> respelled(std::string_view pattern,
                                     std::span<const std::string> names);

}  // namespace shardplan
