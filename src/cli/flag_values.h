// SPDX-License-Identifier: Apache-2.0
// Reading the values of flags: numbers, choices, lists and codes. Each function
// reports SP010 when a value is not understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "cli/flags.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/types.h"
#include "io/load.h"
#include "memory/budget.h"

namespace shardplan::cli {

// How a user knows the setting: "`--min-size`", or "`min-size`" in a file.
std::string title_of(const Setting& setting);

// A path, seen from where the setting stands; `-` and `@name` as they are.
std::string path_of(const Setting& setting);

// "a,b" as a and b; "" as nothing, and empty parts are kept.
std::vector<std::string> split_list(std::string_view text, char comma = ',');

// An integer within [least, most].
std::optional<int64_t> integer_of(const Setting& setting, int64_t least,
                                  int64_t most, Diagnostics& diags);
// A finite number >= 0.
// Integers separated by commas, at least one, and no more unless `several`.
// Empty, with the reason reported (SP010).
std::vector<int64_t> integers_of(const Setting& setting, bool several,
                                 int64_t least, int64_t most,
                                 Diagnostics& diags);
// Whether the command tries every remat and number of micro-batches of a list.
bool tries_lists(std::string_view command);
std::optional<double> number_of(const Setting& setting, Diagnostics& diags);

// A size with a unit: "80GiB", "95.7GB", "1048576" (bytes). Positive, rounded
// down to whole bytes.
std::optional<int64_t> bytes_of(const Setting& setting, Diagnostics& diags);
std::optional<DType> dtype_of(const Setting& setting, Diagnostics& diags);
// Names of axes, separated by commas; empty when one is not a name.
AxisNames axes_of(const Setting& setting, Diagnostics& diags);
// "pp", "pp:8,8,6"
std::optional<Stages> stages_of(const Setting& setting, Diagnostics& diags);

// Declarations, separated by commas, added to those before.
void append_declarations(const Setting& setting, Declarations& declarations,
                         Diagnostics& diags);

// "NAME=VALUE", which replaces an earlier one of that name.
void append_answer(const Setting& setting, std::vector<RuleAnswer>& answers,
                   Diagnostics& diags);

// REQUIRES: the flag has choices.
bool is_choice(const Setting& setting, Diagnostics& diags);

// A list of codes, by number or name, checked and appended. To deny, "warnings"
// is accepted too; what prevents running cannot be allowed.
void append_codes(const Setting& setting, bool deny,
                  std::vector<std::string>& codes, Diagnostics& diags);

}  // namespace shardplan::cli
