// SPDX-License-Identifier: Apache-2.0
// Writing YAML: strings that every reader takes for strings.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// In double quotes; what does not print is escaped. REQUIRES: valid UTF-8.
std::string yaml_string(std::string_view text);

// A word without quotes where no version of YAML takes it for anything else
// (`no` is false in YAML 1.1), else as above.
std::string yaml_word(std::string_view text);

}  // namespace shardplan
