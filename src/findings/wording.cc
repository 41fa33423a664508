// SPDX-License-Identifier: Apache-2.0
#include "findings/wording.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "graph/graph.h"
#include "resolve/correct.h"

namespace shardplan {

int64_t count_of(const LintInput& input, std::span<const uint32_t> parameters) {
  if (input.summary == nullptr) return static_cast<int64_t>(parameters.size());
  int64_t count = 0;
  for (const uint32_t i : parameters) count += input.summary->counts[i];
  return count;
}

void name_parameters(Diagnostics::Builder& report,
                     std::vector<std::string> names, int64_t count) {
  report.parameters(std::move(names)).findings(count);
}

std::vector<std::string> names_of(const Manifest& manifest,
                                  std::span<const uint32_t> parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const uint32_t i : parameters) names.emplace_back(manifest.name(i));
  return names;
}

std::string names_text(const std::vector<std::string>& names) {
  if (names.empty()) return "no parameter";
  return some_names(names, 1);
}

int64_t requested_bytes(const Plan& plan, const Placement& placement) {
  if (!placement.requested) return placement.bytes_per_device;
  Placement asked = placement;
  asked.spec = correct(placement.asked(), stored_shape(placement), plan.mesh,
                       plan.declared_axes, OnIndivisible::Pad)
                   .spec;
  measure(asked, plan.mesh, OnIndivisible::Pad);
  return asked.bytes_per_device;
}

std::string cost_text(const Plan& plan, const Placement& placement,
                      int64_t count) {
  const int64_t extra =
      placement.bytes_per_device - requested_bytes(plan, placement);
  const double bytes = static_cast<double>(extra) * static_cast<double>(count);
  if (extra <= 0) return "no more bytes per device than asked for";
  return bytes_text(bytes) + " more per device";
}

Span rule_span(const LintInput& input, int rule) {
  if (input.rules == nullptr || rule < 1) return {};
  return input.rules->rules[static_cast<size_t>(rule) - 1].where;
}

Span spec_span(const LintInput& input, int rule, int dim) {
  if (input.rules == nullptr || rule < 1) return {};
  const Rule& found = input.rules->rules[static_cast<size_t>(rule) - 1];
  const auto index = static_cast<size_t>(dim);
  return index < found.dim_where.size() && !found.from_last
             ? found.dim_where[index]
             : found.spec_where;
}

Span asked_span(const LintInput& input, const Placement& placement, int dim) {
  const auto index = static_cast<size_t>(dim);
  if (input.rules != nullptr && index < placement.logical_rules.size() &&
      placement.logical_rules[index] > 0) {
    const auto rule = static_cast<size_t>(placement.logical_rules[index]) - 1;
    return input.rules->logical_rules[rule].axes_where;
  }
  return spec_span(input, placement.rule, dim);
}

std::string rule_text(const Plan& plan, int rule) {
  if (rule < 1) return "the logical axis rules";
  std::string text = "rule " + std::to_string(rule);
  const PlanRule& found = plan.rules[static_cast<size_t>(rule) - 1];
  if (!found.file.empty()) {
    text += " (" + found.file + ":" + std::to_string(found.line) + ")";
  }
  return text;
}

std::vector<int64_t> common_divisors(int64_t a, int64_t b, int64_t limit) {
  // Divisors come in pairs around the root: a model may have as many different
  // sizes as parameters, so trying every number would take too long.
  const int64_t both = std::gcd(a, b);
  const int64_t most = std::min({both, limit, int64_t{65536}});
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= most && i <= both / i; ++i) {
    if (both % i != 0) continue;
    divisors.push_back(i);
    if (both / i != i && both / i <= most) divisors.push_back(both / i);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

const Value& value_of(const Graph& graph, int number) {
  return graph.values[static_cast<size_t>(number)];
}

std::string shown_name(const Graph& graph, int value) {
  const std::string& name = value_of(graph, value).name;
  return name.substr(0, name.find(':'));
}

std::string served_by(const Graph& graph, int node) {
  if (node < 0) return "the output";
  const GraphNode& by = graph.nodes[static_cast<size_t>(node)];
  return "`" + shown_name(graph, by.result) + "` (" + by.label + ")";
}

Span place_of_value(const Graph& graph, int number) {
  const Value& value = value_of(graph, number);
  return value.node < 0 ? value.where
                        : graph.nodes[static_cast<size_t>(value.node)].where;
}

}  // namespace shardplan
