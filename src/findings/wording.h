// SPDX-License-Identifier: Apache-2.0
// How findings name parameters, rules, values, places and costs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "findings/findings.h"

namespace shardplan {

struct Graph;
struct Value;

// Of plans.

// How many parameters these are.
int64_t count_of(const LintInput& input, std::span<const uint32_t> parameters);
// Says which parameters a finding is about; it counts as many findings.
void name_parameters(Diagnostics::Builder& report,
                     std::vector<std::string> names, int64_t count);

std::vector<std::string> names_of(const Manifest& manifest,
                                  std::span<const uint32_t> parameters);
// "`a`", "`a` and 31 more".
std::string names_text(const std::vector<std::string>& names);
// Bytes that a placement would take on one device if it were as requested:
// under `pad`, once unknown and repeated axes are gone.
int64_t requested_bytes(const Plan& plan, const Placement& placement);
// "15.6 MiB more per device", for all `count` parameters of a placement.
std::string cost_text(const Plan& plan, const Placement& placement,
                      int64_t count);
// The place of a rule's spec entry, or of the whole spec.
Span spec_span(const LintInput& input, int rule, int dim);
Span rule_span(const LintInput& input, int rule);
// The same, or the logical rule that placed the dimension.
Span asked_span(const LintInput& input, const Placement& placement, int dim);
// "rule 3 (rules.yaml:5)"; for 0, what places parameters that no rule does.
std::string rule_text(const Plan& plan, int rule);
// Sizes from 1 up to `limit`, but at most 65536, that divide both numbers.
std::vector<int64_t> common_divisors(int64_t a, int64_t b, int64_t limit);

// Of graphs, programs and runs.

const Value& value_of(const Graph& graph, int number);
// What the graph file calls it: parts of composites go by their result.
std::string shown_name(const Graph& graph, int value);
// "`h` (linear)"
std::string served_by(const Graph& graph, int node);
// Where the graph file has it, or the operation that makes it.
Span place_of_value(const Graph& graph, int number);

}  // namespace shardplan
