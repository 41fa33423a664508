// SPDX-License-Identifier: Apache-2.0
// Python source with a table of rules; docs/formats/python.md.
#include "io/dialects/dialects.h"
#include "io/python_rules.h"

namespace shardplan {
namespace {

bool read(SourcePtr source, const RuleReading& how, RuleSet& rules,
          Diagnostics& diags) {
  return read_python_rules(source, how.table, rules, diags);
}

}  // namespace

const RuleDialect kPythonRules = {
    "python", "tuples in Python source: EasyDeL, EasyLM, JAXSeq, grok-1, flax",
    looks_like_python_rules, read};

}  // namespace shardplan
