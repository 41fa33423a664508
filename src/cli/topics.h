// SPDX-License-Identifier: Apache-2.0
// Words that arguments may be, for help with misspellings and for completion.
#pragma once

#include <string>
#include <vector>

namespace shardplan::cli {

std::vector<std::string> topic_names();  // of `list`
std::vector<std::string> shell_names();  // of `completion`

}  // namespace shardplan::cli
