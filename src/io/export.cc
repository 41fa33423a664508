// SPDX-License-Identifier: Apache-2.0
#include "io/export.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "core/partition_axis.h"
#include "core/views.h"

namespace shardplan {

std::span<const ExportTarget> export_targets() {
  static const std::array<ExportTarget, 10> kTargets = {
      kYamlTarget,   kJsonTarget,     kPythonTarget,   kJaxTarget,
      kFlaxTarget,   kMaxTextTarget,  kHfTpPlanTarget, kDtensorTarget,
      kShardyTarget, kMegatronTarget,
  };
  return kTargets;
}

const ExportTarget* find_export_target(std::string_view name) {
  return find_named(export_targets(), name);
}

namespace {

constexpr std::string_view kOfHooks = "the collectives run by the plan's hooks";

using Reason = std::function<std::string(const Placement&)>;

// Describes the first dimension that its axes do not divide, with the sizes.
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
           std::to_string(shape[dim]) + ", not divisible by " + sizes;
  }
  return "";
}

bool names_unconstrained(const PartitionSpec& spec) {
  return std::ranges::any_of(spec.dims, [](const AxisNames& axes) {
    return contains(axes, kUnconstrained);
  });
}

// Reports one error for all parameters with a reason; returns false when there
// are any.
bool report_those_with(const ExportInput& input, const Reason& reason,
                       const std::string& message, const std::string& help,
                       Diagnostics& diags) {
  std::vector<std::string> why;
  why.reserve(input.plan.placements.size());
  for (const Placement& placement : input.plan.placements) {
    why.push_back(reason(placement));
  }
  std::vector<size_t> parameters;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (!why[input.plan.placement_of[i]].empty()) parameters.push_back(i);
  }
  if (parameters.empty()) return true;
  report_inexpressible(input, parameters, message,
                       why[input.plan.placement_of[parameters.front()]], help,
                       diags);
  return false;
}

bool is_logical_name(const AxisName& name, const RuleSet& rules) {
  return std::ranges::any_of(rules.logical_rules, [&](const LogicalRule& rule) {
    return rule.name == name;
  });
}

// Returns whether a spec names a mesh axis twice. Logical and semantic names
// are skipped: the placements show what they resolve to.
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

// Returns whether an axis was dropped because a spec names it twice.
bool dropped_repeat(const Placement& placement) {
  return std::ranges::any_of(placement.corrections, [](const Correction& c) {
    return c.code == Code::RepeatedAxis;
  });
}

// Returns whether a reader of the rules as written would use an axis twice,
// which a plan never does and JAX rejects.
bool rules_repeat_axes(const ExportInput& input) {
  const RuleSet& rules = *input.rules;
  const auto repeats = [&](const Rule& rule) {
    return repeats_axis(rule.spec, rules, input.plan.mesh);
  };
  return std::ranges::any_of(rules.rules, repeats) ||
         std::ranges::any_of(rules.activations, repeats) ||
         std::ranges::any_of(input.plan.placements, dropped_repeat);
}

// Returns whether `prefix` shards a dimension that `drop` would replicate.
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

void report_inexpressible(const ExportInput& input,
                          const std::vector<size_t>& parameters,
                          const std::string& message, const std::string& why,
                          const std::string& help, Diagnostics& diags) {
  std::vector<std::string> names;
  for (const size_t i : parameters) names.emplace_back(input.manifest.name(i));
  std::string who = in_backticks(names.front());
  if (names.size() > 1) {
    who += " and " + count_text(std::ssize(names) - 1) + " more";
  }
  diags
      .error(Code::Inexpressible, input.manifest.where(parameters.front()),
             message + " " + who)
      .fact(why)
      .help(help)
      .parameters(std::move(names));
}

bool specs_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  const std::string cannot = "`" + std::string(target) + "` cannot express ";
  bool good = report_those_with(
      input,
      [](const Placement& p) {
        return p.stored_dims.empty()
                   ? ""
                   : "changed by " + p.stored_dims.front().why;
      },
      cannot + "the `--declare` change to", "export without `--declare`",
      diags);
  good =
      report_those_with(
          input, [&](const Placement& p) { return uneven_text(input.plan, p); },
          cannot + "the `--on-indivisible " +
              std::string(policy_name(input.plan.on_indivisible)) +
              "` split of",
          "pad the dimension, or export with `--on-indivisible drop`", diags) &&
      good;
  return report_those_with(
             input,
             [](const Placement& p) -> std::string {
               if (!p.requested || !names_unconstrained(*p.requested)) {
                 return "";
               }
               return "the rule requests " + spec_text(*p.requested) +
                      "; `?` means UNCONSTRAINED";
             },
             cannot + "UNCONSTRAINED, requested for",
             "write None, or name the axes", diags) &&
         good;
}

bool names_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const std::string_view name = input.manifest.name(i);
    if (!name.ends_with('\n')) continue;
    diags
        .error(Code::Inexpressible, input.manifest.where(i),
               "`" + std::string(target) + "` cannot distinguish " +
                   in_backticks(name) + " from the name without the newline")
        .help("`--to jax` writes every name unchanged");
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
    std::string message = name + " cannot express pattern rules such as " +
                          in_backticks(first.pattern);
    if (rules.rules.size() > 1) {
      message += " and " + count_text(std::ssize(rules.rules) - 1) + " more";
    }
    diags.error(Code::Inexpressible, first.where, message)
        .help("give only logical axis rules; " + instead);
    return nullptr;
  }
  if (rules.logical_rules.empty()) {
    diags
        .error(Code::Inexpressible, {},
               name + " needs logical axis rules, but there are none")
        .help(instead);
    return nullptr;
  }
  if (rules.logical_reading == LogicalReading::Mapping) {
    diags
        .error(Code::Inexpressible, rules.logical_rules.front().where,
               name +
                   " assigns each mesh axis once, by priority, but this is a "
                   "mapping, which assigns it to every name")
        .help(instead);
    return nullptr;
  }
  for (const LogicalRule& rule : rules.logical_rules) {
    if (!repeats_axis(PartitionSpec{{rule.axes}}, rules, input.plan.mesh))
      continue;
    diags
        .error(Code::Inexpressible, rule.axes_where,
               name + " cannot express how the plan resolves " +
                   axes_text(rule.axes) + ", which names an axis twice")
        .help("name every axis once; " + instead);
    return nullptr;
  }
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (!dropped_repeat(input.plan.of(i))) continue;
    diags
        .error(Code::Inexpressible, input.manifest.where(i),
               name + " cannot express that " +
                   in_backticks(input.manifest.name(i)) +
                   " uses an axis once, although its rules use it twice")
        .help(instead);
    return nullptr;
  }
  for (const LogicalRule& rule : rules.logical_rules) {
    for (const AxisName& axis : rule.axes) {
      const AxisNames& declared = rules.declared_axes;
      if (input.plan.mesh.find(axis) || !contains(declared, axis)) {
        continue;
      }
      // Without the axis, the rule would no longer block later rules.
      diags
          .error(
              Code::Inexpressible, rule.axes_where,
              name + " cannot declare axes, and the mesh has no `" + axis + "`")
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
    return "rules cannot express `--on-indivisible prefix`";
  }
  for (const Rule& rule : input.rules->rules) {
    if (rule.from_last) return "the rules count dimensions from the end";
    if (names_unconstrained(rule.spec)) return "a rule uses UNCONSTRAINED";
    if (rule.decode_dim) return "a rule depends on the size of a dimension";
  }
  if (rules_repeat_axes(input)) {
    return "the rules use an axis twice (SP202), which the plan does not";
  }
  return "";
}

void note_activations(const ExportInput& input, std::string_view target,
                      Diagnostics& diags) {
  if (input.rules == nullptr || input.rules->activations.empty()) return;
  diags.report(Code::Inexpressible, Severity::Note,
               input.rules->activations.front().where,
               "`" + std::string(target) + "` leaves out activation specs");
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
      "`" + std::string(target) + "` does not record which axes span slices");
}

void note_hooks(const ExportInput& input, std::string_view target,
                Diagnostics& diags) {
  if (input.plan.run_as != RunAs::Hooks) return;
  auto report = diags.report(Code::Inexpressible, Severity::Note, {},
                             std::string(kOfHooks) + " are left out: `" +
                                 std::string(target) +
                                 "` records only where parameters are stored");
  const bool is_ours = target == kYamlTarget.name || target == kJsonTarget.name;
  report.fact(
      is_ours ? "`run_as: hooks` still records that no compiler adds missing "
                "collectives"
              : "it does not record that no compiler adds missing collectives");
  report.help("run the model from the plan itself");
}

// The lines become a comment in the written file. A line break within a name
// would end that comment, so comment_text() escapes names.
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
                  " left out: no matching rule (SP101)");
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

// Returns the name's pattern with `[0-9]+` for every number. Two names share a
// pattern exactly if it matches both.
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

// The parameters that share one numbered pattern.
struct PatternGroup {
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
  std::vector<PatternGroup> groups;
  std::vector<size_t> group_of;
  group_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto [entry, is_new] = number_of.try_emplace(
        numbered_pattern(manifest.name(i)), groups.size());
    if (is_new) groups.push_back({i, true});
    group_of.push_back(entry->second);
    PatternGroup& group = groups[entry->second];
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
    const PatternGroup& group = groups[group_of[i]];
    const bool folded = group.one_spec && members[group_of[i]] > 1;
    if (folded && group.first != i) continue;
    table.entries.push_back({folded ? numbered_pattern(manifest.name(i))
                                    : exact_pattern(manifest.name(i)),
                             input.plan.of(i).spec, input.plan.of(i).view,
                             dealt_over(input.plan.of(i))});
  }
  return table;
}

// Targets with one mesh: rewrites a plan and its rules on the sub-axes of the
// mesh and of the views that parameters are placed on.

namespace {

bool deals_are_expressible(const ExportInput& input, const std::string& target,
                           Diagnostics& diags) {
  return report_those_with(
      input,
      [](const Placement& p) {
        return p.dealt ? "each expert is stored whole on one rank of `" +
                             p.dealt->axis + "`"
                       : "";
      },
      target + " cannot place whole experts such as",
      "use `--to yaml` or `--to json`, which write `deal:`, or a checkpoint "
      "with experts stacked in one tensor",
      diags);
}

// Returns whether the mesh or a rule has views, which other tools lack.
bool has_views(const ExportInput& input) {
  const auto is_of_view = [](const auto& rule) { return !rule.view.empty(); };
  return !input.plan.mesh.views().empty() ||
         (input.rules != nullptr &&
          (std::ranges::any_of(input.rules->rules, is_of_view) ||
           std::ranges::any_of(input.rules->logical_rules, is_of_view)));
}

struct SubAxes {
  Mesh before;  // with only the views that parameters use
  Mesh mesh;    // the mesh of sub-axes, without views
  std::map<AxisName, AxisNames> parts;  // sub-axes by axis
  AxisNames absent;  // declared by rules, not in the mesh: size 1

  AxisNames of(const AxisNames& axes) const {
    AxisNames result;
    for (const AxisName& axis : axes) {
      const auto found = parts.find(axis);
      if (found == parts.end()) {
        result.push_back(axis);
      } else {
        result.insert(result.end(), found->second.begin(), found->second.end());
      }
    }
    return result;
  }
  // `axes` belong to a rule of `view`; empty if no parameter uses the view.
  AxisNames of(AxisNames axes, std::string_view view) const {
    if (!before.has_view(view)) return {};
    erase_if(axes, [&](const AxisName& axis) {
      return contains(absent, axis) && !before.has(view, axis);
    });
    return of(axes);
  }
  PartitionSpec of(const PartitionSpec& spec, std::string_view view) const {
    PartitionSpec result;
    for (const AxisNames& axes : spec.dims) {
      result.dims.push_back(of(axes, view));
    }
    return result;
  }
};

// Renames the part `tp:(1)2` of an axis to `tp_1x2`, because other tools accept
// no other punctuation.
std::string part_name(std::string name, const ExportInput& input) {
  const size_t at = name.find(":(");
  if (at == std::string::npos) return name;
  name.replace(at, 2, "_").replace(name.find(')'), 1, "x");
  const auto is_taken = [&] {
    return input.plan.mesh.find(name) ||
           (input.rules != nullptr &&
            (contains(input.rules->declared_axes, AxisName(name)) ||
             is_logical_name(name, *input.rules)));
  };
  while (is_taken()) name += "_";
  return name;
}

// Returns nullopt if the mesh and its views have no common sub-axes.
std::optional<SubAxes> find_sub_axes(const ExportInput& input) {
  std::vector<MeshView> views = input.plan.mesh.views();
  std::erase_if(views, [&](const MeshView& view) {
    return std::ranges::find(input.plan.placements, view.name,
                             &Placement::view) == input.plan.placements.end();
  });
  const Mesh before(input.plan.mesh.axes(), std::move(views));
  const std::optional<Mesh> mesh = sub_axes(before);
  if (!mesh) return std::nullopt;
  std::vector<Axis> axes = mesh->axes();
  for (Axis& axis : axes) axis.name = part_name(axis.name, input);
  SubAxes result{before, Mesh(std::move(axes)), {}, {}};
  for (const Axis& axis : before.all_axes()) {
    AxisNames& parts = result.parts[axis.name];
    parts = parts_of(*mesh, axis.name);
    for (AxisName& part : parts) part = part_name(part, input);
  }
  if (input.rules == nullptr) return result;
  result.absent = input.rules->declared_axes;
  erase_if(result.absent,
           [&](const AxisName& axis) { return before.has({}, axis); });
  return result;
}

Plan on_sub_axes(const Plan& plan, const SubAxes& sub) {
  Plan result = plan;
  result.mesh = sub.mesh;
  for (Placement& placement : result.placements) {
    placement.spec = sub.of(placement.spec, placement.view);
    placement.view.clear();
    for (Correction& c : placement.corrections) c.dropped = sub.of(c.dropped);
  }
  return result;
}

// Drops the rules of views that the mesh lacks, which place nothing. Returns
// nullopt if slices split an axis within one of its parts.
std::optional<RuleSet> on_sub_axes(const RuleSet& rules, const Mesh& mesh,
                                   const SubAxes& sub) {
  RuleSet result = rules;
  std::erase_if(result.rules,
                [&](const Rule& rule) { return !mesh.has_view(rule.view); });
  std::erase_if(result.logical_rules, [&](const LogicalRule& rule) {
    return !sub.before.has_view(rule.view);
  });
  for (Rule& rule : result.rules) {
    rule.spec = sub.of(rule.spec, rule.view);
    rule.view.clear();
  }
  for (LogicalRule& rule : result.logical_rules) {
    rule.axes = sub.of(std::move(rule.axes), rule.view);
    rule.view.clear();
  }
  // Slices split an axis along its first parts.
  result.dcn_mesh.clear();
  for (const AxisRequest& axis : rules.dcn_mesh) {
    AxisRequest part = axis;
    int64_t left = std::max<int64_t>(axis.size, 1);
    for (const AxisName& name : sub.of(AxisNames{axis.name})) {
      const int64_t size = sub.mesh.size_of(name);
      part.name = name;
      part.size = std::gcd(left, size);
      if (part.size != std::min(left, size)) return std::nullopt;
      left /= part.size;
      result.dcn_mesh.push_back(part);
    }
  }
  return result;
}

// Returns "views: experts ep=4,etp=2 of mesh dp=2,tp=4", and the split axes.
std::vector<std::string> sub_axes_lines(const SubAxes& sub) {
  if (sub.before.views().empty()) return {};
  std::vector<std::string> lines = {"views: " +
                                    joined_of(sub.before.views(), ", ",
                                              [](const MeshView& view) {
                                                return view.name + " " +
                                                       axes_text(view.axes);
                                              }) +
                                    " of mesh " + mesh_text(sub.before)};
  std::string cut;
  for (const Axis& axis : sub.before.all_axes()) {
    const AxisNames& parts = sub.parts.at(axis.name);
    if (parts.empty() || parts == AxisNames{axis.name}) continue;
    cut += (cut.empty() ? "sub-axes: " : "; ") + axis.name + " is " +
           joined(texts_of(parts), ",");
  }
  if (!cut.empty()) lines.push_back(cut);
  return lines;
}

// Refuses views without common sub-axes, and rows that torch.chunk, which
// splits axis by axis, would place elsewhere if an axis is split into parts.
bool fits_one_mesh(const ExportInput& input, const std::optional<SubAxes>& sub,
                   const std::string& target, Diagnostics& diags) {
  const bool chunks = cut_of(input.plan.on_indivisible) == Cut::Chunked;
  return report_those_with(
      input,
      [&](const Placement& p) -> std::string {
        if (!sub) {
          return p.view.empty()
                     ? ""
                     : "it uses the axes of view `" + p.view + "`, " +
                           axes_text(input.plan.mesh.axes_of(p.view)) +
                           "; these have no common sub-axes with " +
                           mesh_text(input.plan.mesh);
        }
        if (!chunks) return "";
        Placement split = p;
        for (AxisNames& axes : split.spec.dims) {
          if (std::ranges::none_of(axes, [&](const AxisName& axis) {
                return sub->parts.at(axis).size() > 1;
              })) {
            axes.clear();
          }
        }
        return uneven_text(input.plan, split);
      },
      target + (sub ? " cannot chunk over only part of an axis in"
                    : " has a single mesh and cannot express the view of"),
      sub ? "pad the dimension, or export with `--on-indivisible drop`"
          : "`--to yaml`, `--to json` and `--to jax` write views",
      diags);
}

}  // namespace

std::optional<std::string> export_text(const ExportTarget& target,
                                       const ExportInput& input,
                                       Diagnostics& diags) {
  const std::string name = "`" + std::string(target.name) + "`";
  if (target.views != ExportViews::Deals &&
      target.views != ExportViews::DealsOnly &&
      !deals_are_expressible(input, name, diags)) {
    return std::nullopt;
  }
  if (target.views > ExportViews::DealsOnly || !has_views(input)) {
    return target.write(input, diags);
  }
  const std::optional<SubAxes> sub = find_sub_axes(input);
  if (!fits_one_mesh(input, sub, name, diags)) return std::nullopt;
  const Plan plan = on_sub_axes(input.plan, *sub);
  std::optional<RuleSet> rules;
  if (input.rules != nullptr)
    rules = on_sub_axes(*input.rules, input.plan.mesh, *sub);
  ExportInput one{
      input.manifest, plan, nullptr, input.no_rules, input.replicate_unmatched,
      input.origin};
  if (rules && (!input.suffice || input.suffice(*rules, plan))) {
    one.rules = &*rules;
  } else if (input.rules != nullptr) {
    one.no_rules = rules ? "on sub-axes the rules would give a different plan"
                         : "slices do not split axes along sub-axis boundaries";
  }
  for (std::string& line : sub_axes_lines(*sub)) {
    one.origin.push_back(std::move(line));
  }
  return target.write(one, diags);
}

}  // namespace shardplan
