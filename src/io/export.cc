// SPDX-License-Identifier: Apache-2.0
#include "io/export.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "core/partition_axis.h"

namespace shardplan {

std::span<const ExportTarget> export_targets() {
  static const std::array<ExportTarget, 9> kTargets = {
      kYamlTarget,     kJsonTarget,    kPythonTarget,
      kJaxTarget,      kFlaxTarget,    kMaxTextTarget,
      kHfTpPlanTarget, kDtensorTarget, kShardyTarget,
  };
  return kTargets;
}

const ExportTarget* find_export_target(std::string_view name) {
  return find_named(export_targets(), name);
}

namespace {

constexpr std::string_view kOfHooks =
    "the collectives that the hooks of the plan run";

using Reason = std::function<std::string(const Placement&)>;

// The first dimension that its axes do not divide, with the numbers.
std::string uneven_text(const Plan& plan, const Placement& placement) {
  const Shape shape = stored_shape(placement);
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const AxisNames& axes = placement.spec.dims[dim];
    const int64_t shards = shard_count(plan.mesh, axes);
    if (shape[dim] % shards == 0) continue;
    const std::string sizes = joined_of(axes, ",", [&](const AxisName& axis) {
      return axis + "=" + std::to_string(plan.mesh.size_of(axis));
    });
    return "dimension " + std::to_string(dim) + " is " +
           std::to_string(shape[dim]) + ", which " + sizes + " does not divide";
  }
  return "";
}

bool names_unconstrained(const PartitionSpec& spec) {
  return std::ranges::any_of(spec.dims, [](const AxisNames& axes) {
    return contains(axes, kUnconstrained);
  });
}

// One diagnostic for all parameters that have the reason; false when there are
// any.
bool report_those_with(const ExportInput& input, const Reason& reason,
                       const std::string& message, const std::string& help,
                       Diagnostics& diags) {
  std::vector<std::string> why;
  why.reserve(input.plan.placements.size());
  for (const Placement& placement : input.plan.placements) {
    why.push_back(reason(placement));
  }
  std::vector<std::string> names;
  size_t first = 0;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (why[input.plan.placement_of[i]].empty()) continue;
    if (names.empty()) first = i;
    names.emplace_back(input.manifest.name(i));
  }
  if (names.empty()) return true;
  std::string who = in_backticks(names.front());
  if (names.size() > 1) {
    who += " and " + count_text(std::ssize(names) - 1) + " more";
  }
  diags
      .error(Code::Inexpressible, input.manifest.where(first),
             message + " " + who)
      .fact(why[input.plan.placement_of[first]])
      .help(help)
      .parameters(std::move(names));
  return false;
}

bool is_logical_name(const AxisName& name, const RuleSet& rules) {
  return std::ranges::any_of(rules.logical_rules, [&](const LogicalRule& rule) {
    return rule.name == name;
  });
}

// Whether a spec names a mesh axis twice. What logical and semantic names
// become is seen in the placements.
bool repeats_axis(const PartitionSpec& spec, const RuleSet& rules,
                  const Mesh& mesh) {
  constexpr std::string_view kMesh = "mesh:";
  std::set<AxisName> seen;
  for (const AxisNames& axes : spec.dims) {
    for (const AxisName& axis : axes) {
      const bool marked = axis.text().starts_with(kMesh);
      const AxisName name =
          marked ? AxisName(axis.text().substr(kMesh.size())) : axis;
      const AxisNames& declared = rules.declared_axes;
      const bool known = marked || mesh.find(name) || contains(declared, name);
      if (!known && (!is_axis_name(name) || is_logical_name(name, rules) ||
                     find_semantic_token(name, true))) {
        continue;
      }
      if (!seen.insert(name).second) return true;
    }
  }
  return false;
}

// Whether an axis was taken away because it was there twice.
bool dropped_repeat(const Placement& placement) {
  return std::ranges::any_of(placement.corrections, [](const Correction& c) {
    return c.code == Code::RepeatedAxis;
  });
}

// Whether rules, as they are written, would have their reader use an axis
// twice: a plan does not, and JAX refuses it.
bool rules_repeat_axes(const ExportInput& input) {
  const RuleSet& rules = *input.rules;
  const auto repeats = [&](const Rule& rule) {
    return repeats_axis(rule.spec, rules, input.plan.mesh);
  };
  return std::ranges::any_of(rules.rules, repeats) ||
         std::ranges::any_of(rules.activations, repeats) ||
         std::ranges::any_of(input.plan.placements, dropped_repeat);
}

// Prefix keeps axes of a dimension that other policies leave whole.
bool policy_decides(const Plan& plan) {
  if (plan.on_indivisible != OnIndivisible::Prefix) return false;
  for (const Placement& placement : plan.placements) {
    for (const Correction& c : placement.corrections) {
      const auto dim = static_cast<size_t>(c.dim);
      if (c.code == Code::IndivisibleDimension &&
          dim < placement.spec.dims.size() &&
          !placement.spec.dims[dim].empty()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool specs_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  const std::string cannot = "`" + std::string(target) + "` cannot say ";
  bool good = report_those_with(
      input,
      [](const Placement& p) {
        return p.stored_dims.empty() ? ""
                                     : "stored by " + p.stored_dims.front().why;
      },
      cannot + "what `--declare` changes of", "export without `--declare`",
      diags);
  good =
      report_those_with(
          input, [&](const Placement& p) { return uneven_text(input.plan, p); },
          cannot + "how `--on-indivisible " +
              std::string(policy_name(input.plan.on_indivisible)) + "` cuts",
          "pad the dimension, or export with `--on-indivisible drop`", diags) &&
      good;
  return report_those_with(
             input,
             [](const Placement& p) -> std::string {
               if (!p.requested || !names_unconstrained(*p.requested)) {
                 return "";
               }
               return "the rule asks for " + spec_text(*p.requested) +
                      ", where `?` is UNCONSTRAINED";
             },
             cannot + "UNCONSTRAINED, which is asked for",
             "write None, or the axes that are meant", diags) &&
         good;
}

bool views_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  const bool good = report_those_with(
      input,
      [&](const Placement& p) {
        return p.view.empty()
                   ? ""
                   : "its axes are those of view `" + p.view + "`, " +
                         axes_text(input.plan.mesh.axes_of(p.view)) +
                         "; the mesh is " + mesh_text(input.plan.mesh);
      },
      "`" + std::string(target) + "` has one mesh, and no view of it for",
      "`--to yaml` and `--to json` write views", diags);
  return deals_are_expressible(input, target, diags) && good;
}

bool deals_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  return report_those_with(
      input,
      [](const Placement& p) {
        return p.dealt ? "each expert is whole on one rank of `" +
                             p.dealt->axis + "`"
                       : "";
      },
      "`" + std::string(target) + "` cannot deal out experts such as",
      "`--to yaml` and `--to json` write `deal:`", diags);
}

bool names_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const std::string_view name = input.manifest.name(i);
    if (!name.ends_with('\n')) continue;
    diags
        .error(Code::Inexpressible, input.manifest.where(i),
               "`" + std::string(target) + "` cannot tell " +
                   in_backticks(name) + " from the same without the newline")
        .help("`--to jax` names every parameter as it is");
    return false;
  }
  return true;
}

const RuleSet* logical_rules_of(const ExportInput& input,
                                std::string_view target, Diagnostics& diags) {
  const std::string name = "`" + std::string(target) + "`";
  const std::string instead = "`--to jax` writes a spec per parameter";
  if (input.rules == nullptr) {
    diags
        .error(Code::Inexpressible, {},
               name + " needs logical axis rules: " + input.no_rules)
        .help(instead);
    return nullptr;
  }
  const RuleSet& rules = *input.rules;
  if (!rules.rules.empty()) {
    const Rule& first = rules.rules.front();
    std::string message = name + " has no rules by pattern, such as " +
                          in_backticks(first.pattern);
    if (rules.rules.size() > 1) {
      message += " and " + count_text(std::ssize(rules.rules) - 1) + " more";
    }
    diags.error(Code::Inexpressible, first.where, message)
        .help("give logical axis rules alone; " + instead);
    return nullptr;
  }
  if (rules.logical_rules.empty()) {
    diags
        .error(Code::Inexpressible, {},
               name + " needs logical axis rules, and there are none")
        .help(instead);
    return nullptr;
  }
  if (rules.logical_reading == LogicalReading::Mapping) {
    diags
        .error(Code::Inexpressible, rules.logical_rules.front().where,
               name +
                   " gives a mesh axis once, by priority, and this is a "
                   "mapping, which gives it to every name")
        .help(instead);
    return nullptr;
  }
  for (const LogicalRule& rule : rules.logical_rules) {
    if (!repeats_axis(PartitionSpec{{rule.axes}}, rules, input.plan.mesh))
      continue;
    diags
        .error(Code::Inexpressible, rule.axes_where,
               name + " cannot say what the plan makes of " +
                   axes_text(rule.axes) + ", which names an axis twice")
        .help("name every axis once; " + instead);
    return nullptr;
  }
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (!dropped_repeat(input.plan.of(i))) continue;
    diags
        .error(Code::Inexpressible, input.manifest.where(i),
               name + " cannot say that " +
                   in_backticks(input.manifest.name(i)) +
                   " uses an axis once, which its rules use twice")
        .help(instead);
    return nullptr;
  }
  for (const LogicalRule& rule : rules.logical_rules) {
    for (const AxisName& axis : rule.axes) {
      const AxisNames& declared = rules.declared_axes;
      if (input.plan.mesh.find(axis) || !contains(declared, axis)) {
        continue;
      }
      // Left out, it would block no later rule.
      diags
          .error(Code::Inexpressible, rule.axes_where,
                 name + " declares no axes, and the mesh has no `" + axis + "`")
          .help("add the axis with `--mesh " + mesh_text(input.plan.mesh) +
                "," + axis + "=1`");
      return nullptr;
    }
  }
  return &rules;
}

std::string why_no_rules(const ExportInput& input) {
  if (input.rules == nullptr) return input.no_rules;
  if (policy_decides(input.plan)) {
    return "rules do not say `--on-indivisible prefix`";
  }
  for (const Rule& rule : input.rules->rules) {
    if (rule.from_last) return "the rules count dimensions from the last";
    if (names_unconstrained(rule.spec)) return "a rule says UNCONSTRAINED";
    if (rule.decode_dim) return "a rule follows the size of a dimension";
  }
  if (rules_repeat_axes(input)) {
    return "the rules use an axis twice (SP202), which the plan does not";
  }
  return "";
}

void note_activations(const ExportInput& input, std::string_view target,
                      Diagnostics& diags) {
  if (input.rules == nullptr || input.rules->activations.empty()) return;
  diags.report(
      Code::Inexpressible, Severity::Note,
      input.rules->activations.front().where,
      "`" + std::string(target) + "` leaves the specs of activations out");
}

void note_slices(const ExportInput& input, std::string_view target,
                 Diagnostics& diags) {
  if (input.rules == nullptr) return;
  const std::vector<AxisRequest>& slices = input.rules->dcn_mesh;
  if (std::ranges::all_of(
          slices, [](const AxisRequest& axis) { return axis.size == 1; })) {
    return;
  }
  diags.report(
      Code::Inexpressible, Severity::Note, input.rules->mesh_where,
      "`" + std::string(target) + "` does not say which axes span slices");
}

void note_hooks(const ExportInput& input, std::string_view target,
                Diagnostics& diags) {
  if (input.plan.run_as != RunAs::Hooks) return;
  auto report = diags.report(Code::Inexpressible, Severity::Note, {},
                             std::string(kOfHooks) + " are left out: `" +
                                 std::string(target) +
                                 "` says where parameters are stored");
  const bool is_ours = target == kYamlTarget.name || target == kJsonTarget.name;
  report.fact(is_ours ? "`run_as: hooks` keeps that no compiler adds what is "
                        "missing"
                      : "nothing in it says that no compiler adds what is "
                        "missing");
  report.help("run the model from the plan itself");
}

// Of a comment in the file that is written: a line end within a name would end
// the comment, so names are escaped here.
std::vector<std::string> header_lines(const ExportInput& input,
                                      std::string_view what,
                                      std::string_view target) {
  std::vector<std::string> lines = {std::string(what) +
                                    "; `shardplan export --to " +
                                    std::string(target) + "`."};
  for (const std::string& line : input.origin) lines.push_back(line);
  lines.push_back("mesh: " + mesh_text(input.plan.mesh));
  if (input.plan.run_as == RunAs::Hooks) {
    lines.push_back(std::string(kOfHooks) + " are left out");
  }
  return lines;
}

void add_left_out(int64_t count, std::vector<std::string>& lines) {
  if (count == 0) return;
  lines.push_back(plural(count, "parameter") +
                  " that no rule matches (SP101): left out");
}

std::string comment_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "# " + printable(line) + "\n";
  return text;
}

namespace {

bool separates(char c) { return c == '/' || c == '.'; }

bool is_number(std::string_view part) {
  return !part.empty() && std::ranges::all_of(part, is_digit);
}

// The name's pattern with every number in its place. Two names have the same
// one exactly if each is found by it.
std::string numbered_pattern(std::string_view name) {
  std::string pattern = "^";
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = begin;
    while (end < name.size() && !separates(name[end])) ++end;
    const std::string_view part = name.substr(begin, end - begin);
    if (is_number(part)) {
      pattern += "[0-9]+";
    } else {
      const std::string exact = exact_pattern(part);
      pattern.append(exact, 1, exact.size() - 2);
    }
    if (end < name.size()) pattern += name[end] == '.' ? "\\." : "/";
    begin = end + 1;
  }
  return pattern + "$";
}

// Parameters of one pattern.
struct Likes {
  size_t first = 0;
  bool one_spec = true;
};

AxisName dealt_over(const Placement& placement) {
  return placement.dealt ? placement.dealt->axis : AxisName();
}

bool is_placed_alike(const Placement& a, const Placement& b) {
  return a.spec == b.spec && dealt_over(a) == dealt_over(b);
}

}  // namespace

bool is_left_out(const ExportInput& input, size_t parameter) {
  return !input.replicate_unmatched &&
         input.plan.is_unmatched(input.plan.of(parameter));
}

ResolvedTable resolved_table(const ExportInput& input) {
  const Manifest& manifest = input.manifest;
  std::unordered_map<std::string, size_t> number_of;
  std::vector<Likes> groups;
  std::vector<size_t> group_of;
  group_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto [entry, is_new] = number_of.try_emplace(
        numbered_pattern(manifest.name(i)), groups.size());
    if (is_new) groups.push_back({i, true});
    group_of.push_back(entry->second);
    Likes& group = groups[entry->second];
    group.one_spec =
        group.one_spec &&
        is_left_out(input, i) == is_left_out(input, group.first) &&
        is_placed_alike(input.plan.of(i), input.plan.of(group.first));
  }
  std::vector<int64_t> members(groups.size());
  for (const size_t group : group_of) ++members[group];

  ResolvedTable table;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (is_left_out(input, i)) {
      ++table.left_out;
      continue;
    }
    const Likes& group = groups[group_of[i]];
    const bool folded = group.one_spec && members[group_of[i]] > 1;
    if (folded && group.first != i) continue;
    table.entries.push_back({folded ? numbered_pattern(manifest.name(i))
                                    : exact_pattern(manifest.name(i)),
                             input.plan.of(i).spec, input.plan.of(i).view,
                             dealt_over(input.plan.of(i))});
  }
  return table;
}

}  // namespace shardplan
