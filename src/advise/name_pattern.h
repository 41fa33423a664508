// SPDX-License-Identifier: Apache-2.0
// Name patterns: from names to the shortest rule pattern that matches them and
// no others, and from a pattern that matches nothing to the one that was meant.
//
// Names are folded (core/fold.h): `*` stands for any number and becomes
// `[0-9]+`, so a pattern treats all layers of a model alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardplan {

// Returns a pattern that matches every name of `targets`, with any numbers, and
// none of `others`: a common ending of at least two components, or one in which
// a single component has alternatives. Returns no value if no such ending
// separates them.
std::optional<std::string> pattern_for(
    std::span<const std::string_view> targets,
    std::span<const std::string_view> others);

// Returns the pattern with each word that occurs in no name replaced by the
// nearest word: `embed_token\.weight` becomes `embed_tokens\.weight`. Words of
// up to three letters remain. Returns no value if all words occur, if one has
// no near word, or if the pattern may distinguish numbers, since `names` are
// folded. The caller has to try what the result matches.
std::optional<std::string> spelling_corrected(
    std::string_view pattern, std::span<const std::string> names);

}  // namespace shardplan
