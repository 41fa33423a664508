// SPDX-License-Identifier: Apache-2.0
// Writing YAML: strings that every YAML reader reads as strings.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// Returns the text in double quotes, with unprintable characters escaped.
// REQUIRES: valid UTF-8.
std::string yaml_string(std::string_view text);

// Returns a word without quotes if every version of YAML reads it as a string
// (`no` is false in YAML 1.1), else as above.
std::string yaml_word(std::string_view text);

}  // namespace shardplan
