// SPDX-License-Identifier: Apache-2.0
// The escape of a code point that Python and YAML have in common: \x0a,
// \u202e, and a backslash before a quote or a backslash.
#pragma once

#include <string>

namespace shardplan {

// Empty for what may stand as it is.
std::string text_escape(char32_t code);

}  // namespace shardplan
