// SPDX-License-Identifier: Apache-2.0
// What a table in Python leaves open: conditions, names and known calls.
//
// `X if self.fused else Y` is settled by the answer `fused=true`
// (RuleReading::answers); `*NAME` and `**NAME` by what they stand for; and
// EasyDeL's get_moe_partition_spec(..) by what that function returns.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "io/load.h"
#include "syntax/python.h"
#include "syntax/python_objects.h"
#include "syntax/python_program.h"

namespace shardplan {

struct PythonChoices {
  const RuleReading& reading;
  // Every name that something depends on, needed or not.
  std::vector<std::string>& questions;
};

// Answers to conditions; each name that is asked for becomes a question.
PythonAnswers python_answers(const PythonChoices& choices);

// An object as a value, with everything in it settled. Empty, with the reason
// reported (SP002), when an answer is lacking or something is not followed.
std::optional<PythonValue> settle_python_value(
    const PythonObject& object, std::span<const PythonToken> tokens,
    const PythonChoices& choices, Diagnostics& diags);

}  // namespace shardplan
