// SPDX-License-Identifier: Apache-2.0
// Specs, axes and PartitionAxis as Python values.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "core/rules.h"
#include "io/python_literal.h"

namespace shardplan {

// PartitionSpec("fsdp", ("sp", "tp")), a preset such as ColumnWise, or
// `..resolve(ColumnWise)`, into the rule's spec.
bool read_python_spec(const PythonValue& value, Rule& rule, Diagnostics& diags);
// None, a string, or several strings. What a spec's entry or a logical axis
// rule may be.
std::optional<AxisNames> read_python_axes(const PythonValue& value,
                                          Diagnostics& diags);
// Whether it could only be meant as a spec: a call, or a name.
bool is_python_spec(const PythonValue& value);

// PartitionAxis(head_axis="tp", ..), with what it does not give derived.
std::optional<PartitionAxis> read_python_partition_axis(
    const PythonValue& value, Diagnostics& diags);

}  // namespace shardplan
