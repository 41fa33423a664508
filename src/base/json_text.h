// SPDX-License-Identifier: Apache-2.0
// Strings as JSON spells them.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// Appends `text`, which must be valid UTF-8, in quotes and as RFC 8785 section
// 3.2.2.2 has it: only what must be escaped is.
void append_json_string(std::string& out, std::string_view text);

}  // namespace shardplan
