// SPDX-License-Identifier: Apache-2.0
// Writing Python: strings and PartitionSpecs as literals.
//
// What is written is read back by io/python_literal.h, and by Python.
#pragma once

#include <string>
#include <string_view>

#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

// A string literal in double quotes; raw where that saves backslashes. What
// does not print, or reorders what a reader sees, is escaped. REQUIRES: valid
// UTF-8.
std::string python_string(std::string_view text);

// `None`, `"tp"`, `("fsdp", "tp")`.
std::string python_axes(const AxisNames& axes);

// `PartitionSpec("tp", None)`.
std::string python_spec(const PartitionSpec& spec);

// Names as a tuple: `("a", "b")`, `("a",)`, `()`.
std::string python_names(const AxisNames& names);

}  // namespace shardplan
