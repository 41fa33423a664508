// SPDX-License-Identifier: Apache-2.0
// Finds tables of pairs in Python source, and the names of these tables.
//
// A table is recognised by its form: a bracket, one or two more brackets, and a
// string followed by a comma. So a module may have any Python around it. Its
// name is the variable that it is assigned to, or the function that returns it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/rules.h"
#include "io/python/choices.h"
#include "syntax/python.h"

namespace shardplan {

struct PythonTable {
  std::string name;  // "partition_rules", "LlamaConfig.get_partition_rules", ""
  size_t at = 0;     // first token
  // By the form of the pairs: Rules are patterns with specs; Logical are names,
  // possibly of logical axes, with None, a string or strings; Strategy are
  // patterns with the name of a strategy.
  enum class Kind : uint8_t { Rules, Logical, Strategy } kind = Kind::Rules;
};

// Finds all tables. Tables with the same name are numbered: `rules#1`,
// `rules#2`.
std::vector<PythonTable> find_python_tables(
    std::span<const PythonToken> tokens);

// Returns the table named `name`, or the only one, as a value. Without a name,
// tables that may be logical axis rules count only if there are no others.
// Returns nullopt, with the reason reported (SP002), if there is no table, if
// there are several to choose from, or if the table has more than literals and
// what io/python/choices.h evaluates.
std::optional<PythonValue> read_python_table(const SourceFile& source,
                                             const PythonChoices& choices,
                                             Diagnostics& diags);

// Reads specs, axes and PartitionAxis from Python values.

// Reads PartitionSpec("fsdp", ("sp", "tp")), a preset such as ColumnWise, or
// `..resolve(ColumnWise)` into the rule's spec.
bool read_python_spec(const PythonValue& value, Rule& rule, Diagnostics& diags);
// Reads None, a string, or several strings: an entry of a spec or the axes of a
// logical axis rule.
std::optional<AxisNames> read_python_axes(const PythonValue& value,
                                          Diagnostics& diags);
// Returns whether a dotted name means PartitionSpec:
// `jax.sharding.PartitionSpec`.
bool is_python_spec_name(std::string_view name);
// Returns whether the value can only be meant as a spec: a call, or a name.
bool is_python_spec(const PythonValue& value);

// Reads PartitionAxis(head_axis="tp", ..) and derives the fields that are
// absent.
std::optional<PartitionAxis> read_python_partition_axis(
    const PythonValue& value, Diagnostics& diags);

}  // namespace shardplan
