// SPDX-License-Identifier: Apache-2.0
// Functions that read the values of flags: numbers, choices, lists and codes.
// Each reports SP010 if it does not understand a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/types.h"
#include "memory/budget.h"

namespace shardplan::cli {

// Returns the user's name for the setting: "`--min-size`", or "`min-size`" in a
// file.
std::string title_of(const Setting& setting);

// Returns the setting with another value, such as a part of its own.
Setting with_value(Setting setting, std::string_view value);

// Reports that the value is not `what`: "`--jobs` must be an integer, not `x`".
Diagnostics::Builder must_be(const Setting& setting, const std::string& what,
                             Diagnostics& diags);

// Returns the path relative to the place where the setting is written; `-` and
// `@name` are returned unchanged.
std::string path_of(const Setting& setting);
// Returns the figure and file of `--plot FILE.svg`, `--plot NAME=FILE.svg` or
// `--plot NAME`. A name is a word of letters and dashes.
PlotRequest plot_of(const Setting& setting);

// Returns the value as a text that diagnostics can quote. It is named "--mesh",
// or "shardplan.yaml (mesh)" in a file.
SourcePtr source_of(const Setting& setting);

// Splits "a,b" into "a" and "b". "" has no parts; empty parts between commas
// are returned.
std::vector<std::string> split_list(std::string_view text, char comma = ',');

// Returns an integer within [least, most].
std::optional<int64_t> integer_of(const Setting& setting, int64_t least,
                                  int64_t most, Diagnostics& diags);
// Returns integers separated by commas: one, or at least one if `several`.
// Returns empty, with the reason reported (SP010), otherwise.
std::vector<int64_t> integers_of(const Setting& setting, bool several,
                                 int64_t least, int64_t most,
                                 Diagnostics& diags);
// Returns a finite number >= 0.
std::optional<double> number_of(const Setting& setting, Diagnostics& diags);

// Returns a size with a unit in bytes: "80GiB", "95.7GB", "1048576" (bytes).
// The size is positive and rounded down to whole bytes.
std::optional<int64_t> bytes_of(const Setting& setting, Diagnostics& diags);
std::optional<DType> dtype_of(const Setting& setting, Diagnostics& diags);
// Returns the names of axes, separated by commas; empty if one is not a valid
// name.
AxisNames axes_of(const Setting& setting, Diagnostics& diags);
// Returns the stages of "pp" or "pp:8,8,6".
std::optional<Stages> stages_of(const Setting& setting, Diagnostics& diags);

// Appends declarations, separated by commas, to those already there.
void append_declarations(const Setting& setting, Declarations& declarations,
                         Diagnostics& diags);

// Returns names of a table as choices.
std::vector<std::string> as_choices(std::span<const std::string_view> names);
// Returns whether the value is one of the flag's choices.
//
// REQUIRES: the flag has choices.
bool is_choice(const Setting& setting, Diagnostics& diags);
// Returns the enumerator that the value chooses.
//
// REQUIRES: is_choice(), and the choices are in the order of the enumerators.
template <typename Enum>
Enum chosen(const Setting& setting) {
  const std::vector<std::string> choices = setting.flag->choices();
  return static_cast<Enum>(std::ranges::find(choices, setting.value) -
                           choices.begin());
}

// Returns the codes by number and by name: "SP203", "split-unit", ..
std::vector<std::string> code_words();
// Checks and appends a list of codes, given by number or name. With `deny`,
// "warnings" is also allowed; without it, codes that prevent running are
// errors.
void append_codes(const Setting& setting, bool deny,
                  std::vector<std::string>& codes, Diagnostics& diags);

}  // namespace shardplan::cli
