// SPDX-License-Identifier: Apache-2.0
// Evaluates the parts of a Python table that the file leaves open: conditions,
// names and known calls.
//
// `X if self.fused else Y` depends on the answer `fused=true`
// (RuleReading::answers), `*NAME` and `**NAME` on the value of the name, and
// EasyDeL's get_moe_partition_spec(..) on what that function returns
// (io/python/moe_spec.h).
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
  // Every name that something depends on, whether or not it is needed.
  std::vector<std::string>& questions;
};

// Returns answers to conditions; each name asked for becomes a question.
PythonAnswers python_answers(const PythonChoices& choices);

// Returns whether the value is a tuple or a list.
inline bool is_python_sequence(const PythonValue& value) {
  return value.kind == PythonKind::Tuple || value.kind == PythonKind::List;
}

// Evaluates an object and everything in it to a value. Returns nullopt, with
// the reason reported (SP002), when an answer is missing or something cannot be
// evaluated.
std::optional<PythonValue> settle_python_value(
    const PythonObject& object, std::span<const PythonToken> tokens,
    const PythonChoices& choices, Diagnostics& diags);

}  // namespace shardplan
