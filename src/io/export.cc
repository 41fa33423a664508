// SPDX-License-Identifier: Apache-2.0
#include "io/export.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/partition_axis.h"
#include "core/views.h"

namespace shardplan {
namespace {

constexpr std::string_view kOfHooks = "the collectives run by the plan's hooks";

// Returns " and 2 more" for three items, of which the first is named.
std::string and_more(int64_t count) {
  return count > 1 ? " and " + count_text(count - 1) + " more" : "";
}

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

// Reports one error for all parameters with a reason; returns false when there
// are any.
bool report_those_with(
    const ExportInput& input,
    const std::function<std::string(const Placement&)>& reason,
    const std::string& message, const std::string& help, Diagnostics& diags) {
  std::vector<std::string> why;
  std::ranges::transform(input.plan.placements, std::back_inserter(why),
                         reason);
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
      const bool known =
          marked || mesh.find(name) || contains(rules.declared_axes, name);
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
  return std::ranges::find(placement.corrections, Code::RepeatedAxis,
                           &Correction::code) != placement.corrections.end();
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
  return std::ranges::any_of(plan.placements, [](const Placement& placement) {
    const std::vector<AxisNames>& dims = placement.spec.dims;
    return std::ranges::any_of(placement.corrections, [&](const Correction& c) {
      return c.code == Code::IndivisibleDimension &&
             to_size(c.dim) < dims.size() && !nth(dims, c.dim).empty();
    });
  });
}

// Returns the name's pattern with `[0-9]+` for every number. Two names share a
// pattern exactly if it matches both.
std::string numbered_pattern(std::string_view name) {
  std::string pattern = "^";
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of("/.", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && std::ranges::all_of(part, is_digit)) {
      pattern += "[0-9]+";
    } else {
      pattern += escape_pattern(part);
    }
    if (end < name.size()) pattern += name[end] == '.' ? "\\." : "/";
    begin = end + 1;
  }
  return pattern + "$";
}

// The parameters that share one numbered pattern.
struct PatternGroup {
  size_t first = 0;
  int64_t members = 0;
  bool one_spec = true;
};

AxisName dealt_over(const Placement& placement) {
  return placement.dealt ? placement.dealt->axis : AxisName();
}

// Targets with one mesh: rewrites a plan and its rules on the sub-axes of the
// mesh and of the views that parameters are placed on.

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
  while (input.plan.mesh.find(name) ||
         (input.rules != nullptr &&
          (contains(input.rules->declared_axes, AxisName(name)) ||
           is_logical_name(name, *input.rules)))) {
    name += "_";
  }
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

// Adds "views: experts ep=4,etp=2 of mesh dp=2,tp=4", and the split axes.
void add_sub_axes_lines(const SubAxes& sub, std::vector<std::string>& lines) {
  if (sub.before.views().empty()) return;
  const auto text = [](const MeshView& view) {
    return view.name + " " + axes_text(view.axes);
  };
  lines.push_back("views: " + joined_of(sub.before.views(), ", ", text) +
                  " of mesh " + mesh_text(sub.before));
  std::string cut;
  for (const Axis& axis : sub.before.all_axes()) {
    const AxisNames& parts = sub.parts.at(axis.name);
    if (parts.empty() || parts == AxisNames{axis.name}) continue;
    cut += (cut.empty() ? "sub-axes: " : "; ") + axis.name + " is " +
           joined(texts_of(parts), ",");
  }
  if (!cut.empty()) lines.push_back(cut);
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

bool names_unconstrained(const PartitionSpec& spec) {
  return std::ranges::any_of(spec.dims, [](const AxisNames& axes) {
    return contains(axes, kUnconstrained);
  });
}

void report_inexpressible(const ExportInput& input,
                          const std::vector<size_t>& parameters,
                          const std::string& message, const std::string& why,
                          const std::string& help, Diagnostics& diags) {
  std::vector<std::string> names;
  for (const size_t i : parameters) names.emplace_back(input.manifest.name(i));
  diags
      .error(Code::Inexpressible, input.manifest.where(parameters.front()),
             message + " " + in_backticks(names.front()) +
                 and_more(std::ssize(names)))
      .fact(why)
      .help(help)
      .parameters(std::move(names));
}

bool specs_are_expressible(const ExportInput& input, std::string_view target,
                           Diagnostics& diags) {
  const std::string cannot = in_backticks(target) + " cannot express ";
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
             [](const Placement& p) {
               return !p.requested || !names_unconstrained(*p.requested)
                          ? ""
                          : "the rule requests " + spec_text(*p.requested) +
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
               in_backticks(target) + " cannot distinguish " +
                   in_backticks(name) + " from the name without the newline")
        .help("`--to jax` writes every name unchanged");
    return false;
  }
  return true;
}

const RuleSet* logical_rules_of(const ExportInput& input,
                                std::string_view target, Diagnostics& diags) {
  const Mesh& mesh = input.plan.mesh;
  const std::string instead = "`--to jax` writes a spec per parameter";
  const auto refuse = [&](Span where, const std::string& why,
                          const std::string& help) {
    diags.error(Code::Inexpressible, where, in_backticks(target) + why)
        .help(help);
    return nullptr;
  };
  if (input.rules == nullptr) {
    return refuse({}, " needs logical axis rules: " + input.no_rules, instead);
  }
  const RuleSet& rules = *input.rules;
  if (!rules.rules.empty()) {
    const Rule& first = rules.rules.front();
    return refuse(first.where,
                  " cannot express pattern rules such as " +
                      in_backticks(first.pattern) +
                      and_more(std::ssize(rules.rules)),
                  "give only logical axis rules; " + instead);
  }
  if (rules.logical_rules.empty()) {
    return refuse({}, " needs logical axis rules, but there are none", instead);
  }
  if (rules.logical_reading == LogicalReading::Mapping) {
    return refuse(rules.logical_rules.front().where,
                  " assigns each mesh axis once, by priority, but this is a "
                  "mapping, which assigns it to every name",
                  instead);
  }
  for (const LogicalRule& rule : rules.logical_rules) {
    if (!repeats_axis(PartitionSpec{{rule.axes}}, rules, mesh)) continue;
    return refuse(rule.axes_where,
                  " cannot express how the plan resolves " +
                      axes_text(rule.axes) + ", which names an axis twice",
                  "name every axis once; " + instead);
  }
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (!dropped_repeat(input.plan.of(i))) continue;
    return refuse(input.manifest.where(i),
                  " cannot express that " +
                      in_backticks(input.manifest.name(i)) +
                      " uses an axis once, although its rules use it twice",
                  instead);
  }
  for (const LogicalRule& rule : rules.logical_rules) {
    for (const AxisName& axis : rule.axes) {
      if (mesh.find(axis) || !contains(rules.declared_axes, axis)) continue;
      // Without the axis, the rule would no longer block later rules.
      return refuse(
          rule.axes_where,
          " cannot declare axes, and the mesh has no `" + axis + "`",
          "add the axis with `--mesh " + mesh_text(mesh) + "," + axis + "=1`");
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
               in_backticks(target) + " leaves out activation specs");
}

void note_slices(const ExportInput& input, std::string_view target,
                 Diagnostics& diags) {
  if (input.rules == nullptr) return;
  if (std::ranges::all_of(input.rules->dcn_mesh, [](const AxisRequest& axis) {
        return axis.size == 1;
      })) {
    return;
  }
  diags.report(
      Code::Inexpressible, Severity::Note, input.rules->mesh_where,
      in_backticks(target) + " does not record which axes span slices");
}

void note_hooks(const ExportInput& input, std::string_view target,
                Diagnostics& diags) {
  if (input.plan.run_as != RunAs::Hooks) return;
  auto report = diags.report(Code::Inexpressible, Severity::Note, {},
                             std::string(kOfHooks) +
                                 " are left out: " + in_backticks(target) +
                                 " records only where parameters are stored");
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
  lines.insert(lines.end(), input.origin.begin(), input.origin.end());
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
    if (is_new) groups.push_back({i});
    group_of.push_back(entry->second);
    PatternGroup& group = groups[entry->second];
    ++group.members;
    const Placement& own = input.plan.of(i);
    const Placement& first = input.plan.of(group.first);
    group.one_spec = group.one_spec && own.spec == first.spec &&
                     dealt_over(own) == dealt_over(first) &&
                     is_left_out(input, i) == is_left_out(input, group.first);
  }
  ResolvedTable table;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (is_left_out(input, i)) {
      ++table.left_out;
      continue;
    }
    const PatternGroup& group = groups[group_of[i]];
    const bool folded = group.one_spec && group.members > 1;
    if (folded && group.first != i) continue;
    const Placement& own = input.plan.of(i);
    table.entries.push_back({folded ? numbered_pattern(manifest.name(i))
                                    : exact_pattern(manifest.name(i)),
                             own.spec, own.view, dealt_over(own)});
  }
  return table;
}

std::optional<std::string> export_text(const ExportTarget& target,
                                       const ExportInput& input,
                                       Diagnostics& diags) {
  const std::string name = in_backticks(target.name);
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
  if (input.rules != nullptr) {
    rules = on_sub_axes(*input.rules, input.plan.mesh, *sub);
  }
  ExportInput one{
      input.manifest, plan, nullptr, input.no_rules, input.replicate_unmatched,
      input.origin};
  if (rules && (!input.suffice || input.suffice(*rules, plan))) {
    one.rules = &*rules;
  } else if (input.rules != nullptr) {
    one.no_rules = rules ? "on sub-axes the rules would give a different plan"
                         : "slices do not split axes along sub-axis boundaries";
  }
  add_sub_axes_lines(*sub, one.origin);
  return target.write(one, diags);
}

}  // namespace shardplan
