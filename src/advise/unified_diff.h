// SPDX-License-Identifier: Apache-2.0
// Unified diff, as `diff -u` writes it and `patch -p0` reads it.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// Empty for equal texts. Three lines of context; a last line without an end is
// marked as diff marks it.
std::string unified_diff(std::string_view path, std::string_view before,
                         std::string_view after);

}  // namespace shardplan
