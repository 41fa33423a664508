// SPDX-License-Identifier: Apache-2.0
// Tables of pairs in Python source: where they are and what they are called.
//
// A table is found by its looks: a bracket, a bracket or two, and a string with
// a comma behind it. So a module may hold any Python around it. Its name is
// what it is assigned to, or the function that returns it.
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
  size_t at = 0;     // its first token
  // By the look of its pairs: patterns with a spec; names, which may be logical
  // axes, with None, a string or strings; patterns with the name of a strategy.
  enum class Kind : uint8_t { Rules, Logical, Strategy } kind = Kind::Rules;
};

// Tables of one name are numbered: `rules#1`, `rules#2`.
std::vector<PythonTable> find_python_tables(
    std::span<const PythonToken> tokens);

// The table named `name`, or the only one, as a value; without a name, tables
// that may be of logical axis rules count only where there are no others.
// Empty, with the reason reported (SP002), when there is none, there are
// several to choose from, or it is more than literals and what io/python/
// choices.h settles.
std::optional<PythonValue> read_python_table(const SourceFile& source,
                                             const PythonChoices& choices,
                                             Diagnostics& diags);

// Specs, axes and PartitionAxis as Python values.

// PartitionSpec("fsdp", ("sp", "tp")), a preset such as ColumnWise, or
// `..resolve(ColumnWise)`, into the rule's spec.
bool read_python_spec(const PythonValue& value, Rule& rule, Diagnostics& diags);
// None, a string, or several strings. What a spec's entry or a logical axis
// rule may be.
std::optional<AxisNames> read_python_axes(const PythonValue& value,
                                          Diagnostics& diags);
// Whether a dotted name is that of PartitionSpec: `jax.sharding.PartitionSpec`.
bool is_python_spec_name(std::string_view name);
// Whether it could only be meant as a spec: a call, or a name.
bool is_python_spec(const PythonValue& value);

// PartitionAxis(head_axis="tp", ..), with what it does not give derived.
std::optional<PartitionAxis> read_python_partition_axis(
    const PythonValue& value, Diagnostics& diags);

}  // namespace shardplan
