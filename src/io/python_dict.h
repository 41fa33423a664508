// SPDX-License-Identifier: Apache-2.0
// Dictionaries in Python source whose keys are strings:
//
//   base_model_tp_plan = {"layers.*.mlp.up_proj": "colwise", ..}
//
// They are found by their looks, so a module may hold any Python around them.
// What a value is, is the reader's business.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/source.h"
#include "io/python_tokens.h"

namespace shardplan {

struct PythonEntry {
  std::string key;
  Span where;        // the key
  size_t begin = 0;  // tokens of the value
  size_t end = 0;
};

struct PythonDict {
  std::string name;  // what it is assigned to, or empty
  Span where;        // its opening bracket
  std::vector<PythonEntry> entries;
  // An entry that has no literal key, and all behind it, are not read.
  Span problem = {};
};

// The outermost ones: braces around a string and a colon, or assigned empty
// ones. A bracket that is never closed ends with the tokens.
std::vector<PythonDict> python_dicts(std::span<const PythonToken> tokens);

}  // namespace shardplan
