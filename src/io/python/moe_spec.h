// SPDX-License-Identifier: Apache-2.0
// Evaluates the call of EasyDeL's `get_moe_partition_spec(..)` in a table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "syntax/python.h"
#include "syntax/python_program.h"

namespace shardplan {

// Returns whether a call of this name is one.
bool is_moe_spec_call(std::string_view callee);

// Called for a name without an answer, with the specs that it decides between.
using AskForSpec =
    std::function<void(const PythonValue& name, const std::string& if_true,
                       const std::string& if_false)>;

// Returns the PartitionSpec(..) that the call returns. Where an answer is
// missing, asks for it and takes some value. Returns nullopt, with the reason
// reported (SP002), if the arguments are not literals or names.
std::optional<PythonValue> moe_partition_spec(const PythonValue& call,
                                              const PythonAnswers& answers,
                                              const AskForSpec& ask,
                                              Diagnostics& diags);

}  // namespace shardplan
