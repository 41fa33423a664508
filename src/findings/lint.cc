// SPDX-License-Identifier: Apache-2.0
#include "findings/lint.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/fold.h"
#include "resolve/correct.h"

namespace shardplan {

void lint(const LintInput& input, Diagnostics& diags) {
  lint_meeting(input, diags);
  lint_mesh_axes(input, diags);
  lint_rules(input, diags);
  lint_names(input, diags);
  lint_folding(input, diags);
  lint_specs(input, diags);
  lint_units(input, diags);
  lint_costs(input, diags);
}

LintInput make_lint_input(const Manifest& manifest, const Plan& plan,
                          const Folding& folding, const RuleSet* rules,
                          const DeviceMemory& memory,
                          const LintOptions& options) {
  LintInput input{manifest,
                  plan,
                  folding,
                  rules,
                  memory,
                  options,
                  Members(plan.placement_of, plan.placements.size()),
                  Members(folding.class_of, folding.classes.size()),
                  {}};
  input.meeting = meeting_of(input);
  return input;
}

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

// Rules from tables in which digits of names stand as `*`.

namespace {

// The names, with the numbers between dots folded, that one name with every
// digit folded stands for, each with the number of its first class.
using Merged = std::map<std::string, std::map<std::string, uint32_t>>;

}  // namespace

void lint_folding(const LintInput& input, Diagnostics& diags) {
  std::map<int, std::vector<uint32_t>> classes_of;
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    const int rule = input.plan.placements[input.folding.classes[i].kind].rule;
    if (rule > 0) classes_of[rule].push_back(static_cast<uint32_t>(i));
  }
  for (const auto& [rule, classes] : classes_of) {
    const auto key =
        key_of_pattern(input.plan.rules[static_cast<size_t>(rule) - 1].pattern);
    if (!key || key->find('*') == std::string::npos) continue;
    Merged merged;
    for (const uint32_t number : classes) {
      const std::string& name =
          input.folding.folded_names[input.folding.classes[number].folded];
      merged[fold_digits(name, DigitFolding::EveryRun)].emplace(name, number);
    }
    for (const auto& [folded, kinds] : merged) {
      const auto type_of = [&](uint32_t number) -> const TensorType& {
        return input.plan.placements[input.folding.classes[number].kind].type;
      };
      const Shape& first = type_of(kinds.begin()->second).shape;
      const bool differ =
          std::any_of(kinds.begin(), kinds.end(), [&](const auto& kind) {
            return type_of(kind.second).shape != first;
          });
      if (!differ) continue;
      auto report = diags.report(
          Code::MergedLayouts, rule_span(input, rule),
          "`" + printable(*key) + "` stands for parameters of different kinds");
      std::vector<std::string> names;
      constexpr size_t kShown = 4;
      size_t shown = 0;
      for (const auto& [name, number] : kinds) {
        if (shown++ < kShown) {
          report.fact("`" + printable(name) + "` is " +
                      type_text(type_of(number)));
        }
        for (std::string& member :
             names_of(input.manifest, input.of_class.of(number))) {
          names.push_back(std::move(member));
        }
      }
      report.fact(
          "all are cut as " +
          spec_text(input.plan.rules[static_cast<size_t>(rule) - 1].spec) +
          ", since every digit of a name is `*` there");
      report.help(
          "transformers 5.2 and later keep such names apart: give each an "
          "entry, and say `\"transformers_version\": \"5.2.0\"` beside the "
          "plan");
      report.about({rule, -1, ""});
      report.parameters(std::move(names)).findings(1);
    }
  }
}

}  // namespace shardplan
