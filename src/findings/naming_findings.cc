// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/from_config.h"
#include "resolve/correct.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {
namespace {

using UnmentionedAxis = NamingMismatch::UnmentionedAxis;

// Returns "`tp`, `fsdp`, .."; the first five.
std::string quoted_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + in_backticks(names[i]);
  }
  return names.size() > kShown ? text + ", .." : text;
}

// Names for the same kind of parallelism, one kind per row.
constexpr std::array<std::array<std::string_view, 6>, 6> kAlike = {{
    {"tp", "tensor", "model", "mp", "tensor_parallel", "mdl"},
    {"dp", "data", "replica", "batch", "data_parallel", "ddp"},
    {"fsdp", "data", "zero", "shard", "dp_shard", "fully_sharded"},
    {"ep", "expert", "experts", "expert_parallel", "moe", "ep_shard"},
    {"sp", "seq", "sequence", "context", "cp", "context_parallel"},
    {"pp", "stage", "pipe", "pipeline", "pipeline_parallel", "stages"},
}};

// Returns the axis of the rules that the mesh seems to name differently; or "".
AxisName meant_axis(const AxisNames& absent, const AxisName& axis) {
  constexpr size_t kShortest = 3;  // any two letters are near any others
  bool is_word = false;
  for (const auto& words : kAlike) {
    if (!contains(words, axis)) continue;
    is_word = true;
    for (const AxisName& name : absent) {
      if (contains(words, name)) return name;
    }
  }
  if (is_word || axis.text().size() < kShortest) return "";
  return nearest(axis, texts_of(absent)).value_or("");
}

// Returns whether one of the unknown axes may be a misspelling of `axis`. That
// is reported as an unknown axis (SP201), with the nearest name.
bool is_misspelled(const AxisName& axis, const AxisNames& unknown) {
  const std::vector<std::string> known = {axis};
  return !meant_axis(unknown, axis).empty() ||
         std::ranges::any_of(unknown, [&](const AxisName& name) {
           return nearest(name, known).has_value();
         });
}

// Returns the names that the mesh lacks.
AxisNames lacking(const Mesh& mesh, AxisNames names) {
  erase_if(names, [&](const AxisName& name) { return mesh.find(name); });
  return names;
}

std::string renamed_mesh(const Mesh& mesh, const AxisName& from,
                         const AxisName& to) {
  std::vector<Axis> axes = mesh.axes();
  for (Axis& axis : axes) {
    if (axis.name == from) axis.name = to;
  }
  return mesh_text(Mesh(std::move(axes)));
}

// Adds facts and help about an axis of a view.
void report_unmentioned_of_view(const LintInput& input,
                                const UnmentionedAxis& unmentioned,
                                Diagnostics::Builder& report) {
  const auto& [axis, meant] = unmentioned;
  const std::string name = view_with_axis(input.plan.mesh, axis);
  const auto& views = input.plan.mesh.views();
  MeshView view = *std::ranges::find(views, name, &MeshView::name);
  const bool is_used = is_placed_over(input.plan, name);
  report.fact(is_used ? "parameters placed over the view are replicated " +
                            std::to_string(input.plan.mesh.size_of(axis)) +
                            " times over " + in_backticks(axis)
                      : "no parameter is placed over the view");
  if (!meant.empty()) {
    for (Axis& each : view.axes) {
      if (each.name == axis) each.name = meant;
    }
    report.help("write `--view " + name + ":" + axes_text(view.axes) + "`");
  } else if (!is_used) {
    help_with_view(input, view, report);
  } else {
    report.help("use " + in_backticks(axis) + " in a rule with `view: " + name +
                "`, or declare it with `--axes " + axis +
                "` if it only holds replicas");
  }
  report.about({0, -1, ""});
}

void report_unmentioned(const LintInput& input,
                        const UnmentionedAxis& unmentioned,
                        Diagnostics& diags) {
  const auto& [axis, meant] = unmentioned;
  const Mesh& mesh = input.plan.mesh;
  const AxisNames named = axes_in_specs(input.plan);
  const std::string used =
      named.empty() ? "the rules declare " +
                          quoted_list(texts_of(input.plan.declared_axes))
                    : "the rules use " + quoted_list(texts_of(named));
  const std::string view = view_with_axis(mesh, axis);
  const std::string who =
      view.empty() ? std::string("the mesh") : "view " + in_backticks(view);
  auto report = diags.report(
      Code::UnmentionedAxis, {},
      !meant.empty() ? used + "; " + who + " has " + in_backticks(axis) +
                           ": did you mean " + in_backticks(meant) + "?"
                     : who + " has axis " + in_backticks(axis) +
                           ", which the rules neither use nor declare");
  if (meant.empty()) report.fact(used);
  if (!view.empty())
    return report_unmentioned_of_view(input, unmentioned, report);
  report.fact("every parameter is replicated " +
              std::to_string(mesh.size_of(axis)) + " times over " +
              in_backticks(axis) + ": " + bytes_text(input.memory.max) +
              " per device");
  report.bytes(static_cast<double>(input.memory.max));
  if (!meant.empty()) {
    report.help("write `--mesh " + renamed_mesh(mesh, axis, meant) + "`");
  } else if (!is_data_axis(axis)) {
    report.help(help_to_name(input, axis));
  }
  const bool is_ours = form_of(input) == nullptr;
  report.help("declare it with `--axes " + axis + "`" +
              (is_ours ? " or under `axes:` in the rules" : "") +
              " if it is only for data parallelism");
  const bool is_free = meant.empty() && !is_data_axis(axis);
  report.about({0, -1, is_free ? axis : ""});
}

// Reports declared axes that a spec names and the mesh lacks, what they count
// as, and what other frameworks do.
void report_absent(const LintInput& input, bool misnamed, Diagnostics& diags) {
  const Plan& plan = input.plan;
  const RuleForm* const form = form_of(input);
  const bool is_sized = form != nullptr && form->sizes_declared;
  if (is_sized && !input.options.verbose) return;
  AxisNames present = plan.declared_axes;
  erase_if(present,
           [&](const AxisName& axis) { return !plan.mesh.find(axis); });
  const bool labels_are_shipped =
      input.rules != nullptr &&
      std::ranges::all_of(input.rules->logical_rules, &LogicalRule::shipped);
  AxisNames absent;
  int64_t parameters = 0;
  Int128 more = 0;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& placement = plan.placements[i];
    const bool in_view = !requested_view(plan, placement).empty();
    if (in_view || !placement.requested) continue;  // eFormer, JAX: no views
    // Shipped rules name axes for every mesh.
    const bool is_shipped =
        placement.rule > 0
            ? plan.rules[static_cast<size_t>(placement.rule) - 1].shipped
            : labels_are_shipped;
    if (is_shipped && !input.options.verbose) continue;
    const auto& dims = placement.requested_spec().dims;
    const size_t rank = placement.type.shape.size();
    bool lacks = false;
    for (size_t dim = 0; dim < std::min(rank, dims.size()); ++dim) {
      for (const AxisName& axis : dims[dim]) {
        if (plan.mesh.find(axis) || !contains(plan.declared_axes, axis)) {
          continue;
        }
        lacks = true;
        if (!contains(absent, axis)) absent.push_back(axis);
      }
    }
    if (!lacks) continue;
    Placement other = placement;
    other.spec =
        corrected_again(plan, placement, present, plan.on_indivisible).spec;
    measure(other, plan.mesh, plan.on_indivisible);
    const auto count = static_cast<int64_t>(input.of_placement.of(i).size());
    parameters += count;
    more += static_cast<Int128>(other.bytes_per_device -
                                placement.bytes_per_device) *
            most_held(placement.dealt, count);
  }
  if (absent.empty()) return;
  auto report =
      diags.report(Code::AbsentAxis, {},
                   "the mesh lacks " + quoted_list(texts_of(absent)) +
                       ", which the rules declare: counted as size 1");
  report.fact(
      (parameters == 1
           ? std::string("the spec of 1 parameter names ")
           : "the specs of " + plural(parameters, "parameter") + " name ") +
      (absent.size() == 1 ? "it" : "them") +
      "; eFormer would replicate these dimensions" +
      (more == 0 ? "" : " (+" + bytes_text(more) + " per device)") +
      "; JAX would reject the specs");
  report.findings(1);
  if (misnamed) return;  // the mesh has to be changed anyway
  std::string mesh = mesh_text(plan.mesh);
  for (const AxisName& axis : absent) mesh += "," + axis + "=1";
  report.help("`--mesh " + mesh +
              "` is the same plan, and every tool reads it alike");
}

// Returns axes of the mesh, larger than 1, that shard nothing and that neither
// the rules nor the options mention; none if the rules shard nothing at all.
// Omits axes that the rules misspell, which are SP201.
std::vector<UnmentionedAxis> unmentioned_axes(const LintInput& input) {
  std::vector<UnmentionedAxis> all;
  const Plan& plan = input.plan;
  const LintOptions& options = input.options;
  const AxisNames named = axes_in_specs(plan);
  // Rules that shard nothing at all leave every axis unused.
  if (named.empty() && plan.declared_axes.empty()) return all;
  const AxisNames declared = lacking(plan.mesh, plan.declared_axes);
  AxisNames unknown = lacking(plan.mesh, named);
  erase_if(unknown, [&](const AxisName& axis) {
    return contains(plan.declared_axes, axis);
  });
  for (const Axis& axis : plan.mesh.all_axes()) {
    if (axis.size == 1 || contains(named, axis.name) ||
        contains(plan.declared_axes, axis.name) ||
        contains(options.named_axes, axis.name) ||
        contains(options.zero_axes, axis.name) ||
        axis.name == options.pipeline_axis) {
      continue;
    }
    const bool shards =
        std::ranges::any_of(plan.placements, [&](const auto& p) {
          return std::ranges::any_of(p.spec.dims, [&](const AxisNames& axes) {
            return contains(axes, axis.name);
          });
        });
    if (shards || is_misspelled(axis.name, unknown)) continue;
    // A view that places nothing is one finding, not one for each axis, unless
    // the rules use another name for the axis.
    const std::string view = view_with_axis(plan.mesh, axis.name);
    const AxisName meant = view.empty() || is_view_of_rules(input, view)
                               ? meant_axis(declared, axis.name)
                               : AxisName();
    const bool is_said =
        !view.empty() && meant.empty() && !is_placed_over(plan, view) &&
        std::ranges::any_of(all, [&](const UnmentionedAxis& each) {
          return view_with_axis(plan.mesh, each.axis) == view;
        });
    if (!is_said) all.push_back({axis.name, meant});
  }
  return all;
}

}  // namespace

void check_mesh_axes(const LintInput& input, Diagnostics& diags) {
  bool misnamed = false;
  for (const auto& unmentioned : input.naming.axes) {
    report_unmentioned(input, unmentioned, diags);
    misnamed = misnamed || !unmentioned.in_rules.empty();
  }
  report_absent(input, misnamed, diags);
  report_axes_of_views(input, diags);
}

// Naming mismatches: rules for the names of another scheme, or for logical axes
// that the model lacks.

namespace {

// Names of parameters in several schemes.

enum class Scheme : uint8_t { Dots, Slashes, KeyPath };

struct SplitName {
  Scheme scheme = Scheme::Dots;
  std::vector<std::string> parts;
};

SplitName split_at(Scheme scheme, std::string_view text,
                   std::string_view separator) {
  SplitName split{scheme, {}};
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    split.parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  return split;
}

SplitName split_name(std::string_view name) {
  if (name.size() > 4 && name.starts_with("['") && name.ends_with("']")) {
    return split_at(Scheme::KeyPath, name.substr(2, name.size() - 4), "']['");
  }
  return !contains(name, '/') ? split_at(Scheme::Dots, name, ".")
                              : split_at(Scheme::Slashes, name, "/");
}

std::string joined(Scheme scheme, const std::vector<std::string>& parts) {
  std::string name;
  for (const std::string& part : parts) {
    if (scheme == Scheme::KeyPath) {
      name += "['" + part + "']";
    } else {
      if (!name.empty()) name += scheme == Scheme::Dots ? "." : "/";
      name += part;
    }
  }
  return name;
}

// Flax's names for what PyTorch calls a weight.
constexpr std::array<std::string_view, 3> kFlaxLeaves = {"kernel", "embedding",
                                                         "scale"};

// Returns the names that other schemes give to the same parameter.
std::vector<std::string> other_names(std::string_view name) {
  const SplitName split = split_name(name);
  const std::string& leaf = split.parts.back();
  std::vector<std::string> leaves;
  if (leaf == "weight") {
    leaves.assign(kFlaxLeaves.begin(), kFlaxLeaves.end());
  } else if (contains(kFlaxLeaves, leaf)) {
    leaves.emplace_back("weight");
  }
  leaves.push_back(leaf);
  std::vector<std::string> names;
  for (const Scheme scheme : {Scheme::Slashes, Scheme::Dots, Scheme::KeyPath}) {
    for (const std::string& other : leaves) {
      std::vector<std::string> parts = split.parts;
      parts.back() = other;
      std::string text = joined(scheme, parts);
      if (text != name) names.push_back(std::move(text));
    }
  }
  return names;
}

std::string scheme_word(std::string_view name) {
  const SplitName split = split_name(name);
  const std::string& leaf = split.parts.back();
  switch (split.scheme) {
    case Scheme::KeyPath:
      return "JAX key paths";
    case Scheme::Slashes:
      return contains(kFlaxLeaves, leaf) ? "Flax names" : "names with `/`";
    case Scheme::Dots:
      break;
  }
  return leaf == "weight" ? "Hugging Face names" : "names with `.`";
}

// Returns the last parts, which patterns refer to: "self_attn/q_proj/kernel".
std::string end_of(std::string_view name) {
  constexpr size_t kParts = 3;
  SplitName split = split_name(name);
  if (split.parts.size() > kParts) {
    split.parts.erase(split.parts.begin(), split.parts.end() - kParts);
  }
  return joined(split.scheme, split.parts);
}

// Rules.

// Returns the rules (1-based) that shard, except those that match every name.
std::vector<int> sharding_rules(const LintInput& input) {
  const Plan& plan = input.plan;
  std::vector<int> numbers;
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    if (!names_no_axis(plan.rules[i].spec) &&
        plan.mesh.has_view(plan.rules[i].view) &&
        !matches_every_name(input, plan.rules[i])) {
      numbers.push_back(static_cast<int>(i) + 1);
    }
  }
  return numbers;
}

const PlanRule& rule_of(const Plan& plan, int number) {
  return plan.rules[static_cast<size_t>(number) - 1];
}

bool asks_for_shards(const Plan& plan) {
  return std::ranges::any_of(plan.placements, [](const Placement& placement) {
    return placement.requested && !names_no_axis(placement.requested_spec());
  });
}

bool has_unmatched(const Plan& plan) {
  return std::ranges::any_of(plan.placements, [&](const Placement& placement) {
    return plan.is_unmatched(placement);
  });
}

// Finds a parameter that one of the rules would match under its name in another
// scheme. Called only if no rule matches, and limited to some names and rules,
// since one match is enough.
void find_other_scheme(const LintInput& input, const std::vector<int>& rules,
                       NamingMismatch& naming) {
  constexpr size_t kMaxRules = 1000;
  constexpr size_t kMaxClasses = 1000;
  RuleSet few;
  for (size_t i = 0; i < std::min(kMaxRules, rules.size()); ++i) {
    Rule& rule = few.rules.emplace_back();
    rule.pattern = rule_of(input.plan, rules[i]).pattern;
  }
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(few, input.manifest.names_are_plain(), ignored);
  if (!matcher) return;
  std::vector<int> found;
  const auto& classes = input.folding.classes;
  for (size_t i = 0; i < std::min(kMaxClasses, classes.size()); ++i) {
    const size_t parameter = classes[i].first;
    for (std::string& name : other_names(input.manifest.name(parameter))) {
      matcher->find(name, found);
      if (found.empty()) continue;
      naming.other_rule = rules[static_cast<size_t>(found.front())];
      naming.other_parameter = parameter;
      naming.other_name = std::move(name);
      return;
    }
  }
}

// Returns whether no entry of a tensor-parallel plan for layers (with a `*`)
// matches. Other entries do not count: heads have the same name in all models.
bool misses_layers(const Plan& plan, const std::vector<int>& rules) {
  bool any = false;
  for (const int number : rules) {
    const PlanRule& rule = rule_of(plan, number);
    const auto key = key_of_pattern(rule.pattern);
    if (!key || key->find('*') == std::string::npos) continue;
    if (rule.matched > 0) return false;
    any = true;
  }
  return any;
}

// Finds rules for other names: no rule that shards matches anything. Three
// signs show that they were meant for this model: they would match the names of
// another scheme; or nothing is sharded although every parameter has a rule; or
// there are more of them than slips would explain.
void find_name_mismatch(const LintInput& input, NamingMismatch& naming) {
  constexpr size_t kSlips = 2;
  const Plan& plan = input.plan;
  const std::vector<int> rules = sharding_rules(input);
  const auto is_found = [&](int r) { return rule_of(plan, r).matched > 0; };
  if (rules.empty() || input.manifest.size() == 0) return;
  if (misses_layers(plan, rules)) {
    naming.of_names = true;
    return;
  }
  if (std::ranges::any_of(rules, is_found)) return;
  find_other_scheme(input, rules, naming);
  if (naming.other_rule > 0) {
    naming.of_names = true;
    return;
  }
  const bool any_found =
      std::ranges::any_of(plan.rules, [&](const PlanRule& r) {
        return r.matched > 0 && !matches_every_name(input, r);
      });
  if (any_found || asks_for_shards(plan)) return;
  naming.of_names = !has_unmatched(plan) || rules.size() > kSlips;
}

// Finds logical axis rules that do not apply to any label of the model.
void find_label_mismatch(const LintInput& input, NamingMismatch& naming) {
  if (input.rules == nullptr || asks_for_shards(input.plan)) return;
  std::set<std::string_view> placed;
  bool shards = false;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (rule.name) placed.insert(*rule.name);
    shards = shards || !rule.axes.empty();
  }
  if (!shards || input.manifest.size() == 0) return;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const AxisLabels* labels = input.manifest.axes(i);
    if (labels == nullptr) continue;
    for (const auto& label : *labels) {
      if (label && placed.contains(*label)) return;
    }
  }
  const bool any_found =
      std::ranges::any_of(input.plan.rules, [&](const PlanRule& r) {
        return r.matched > 0 && !matches_every_name(input, r);
      });
  naming.of_labels = !any_found && !naming.of_names;
}

// Reporting of the mismatches.

void help_with_other_set(const LintInput& input, Diagnostics::Builder& report) {
  if (input.options.other_set.empty()) return;
  report.help("use `--rules " + input.options.other_set +
              "`, the shipped set for this model type");
}

// Adds facts about the parameters that are placed by none of the rules that
// shard.
void report_outcome(const LintInput& input, Diagnostics::Builder& report) {
  struct Share {
    int64_t parameters = 0;
    PerDevice bytes;
  };
  std::map<int, Share> shares;  // by catch-all; 0: no rule
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const bool caught =
        placement.rule > 0 &&
        matches_every_name(input, rule_of(input.plan, placement.rule));
    if (!caught && !input.plan.is_unmatched(placement)) continue;
    const auto count = static_cast<int64_t>(input.of_placement.of(i).size());
    Share& share =
        shares.try_emplace(placement.rule, Share{0, PerDevice(input)})
            .first->second;
    share.parameters += count;
    share.bytes.add(input.of_placement.of(i), placement.bytes_per_device);
  }
  double bytes = 0;
  for (const auto& [rule, share] : shares) {
    const auto held = static_cast<double>(share.bytes.most());
    bytes += held;
    report.fact((rule > 0 ? "only the catch-all " +
                                rule_text(input.plan, rule) + " matches "
                          : std::string("no rule matches ")) +
                plural(share.parameters, "parameter") + ": " +
                bytes_text(held) + " per device");
  }
  report.bytes(bytes);
}

std::string rules_found_nowhere(const LintInput& input) {
  int64_t count = 0;
  for (const PlanRule& rule : input.plan.rules) {
    const bool is_active = input.plan.mesh.has_view(rule.view);
    count += is_active && rule.matched == 0 && !matches_every_name(input, rule)
                 ? 1
                 : 0;
  }
  return plural(count, "rule") + (count == 1 ? " matches" : " match") +
         " no name";
}

void report_other_scheme(const LintInput& input, Diagnostics& diags) {
  const NamingMismatch& naming = input.naming;
  const std::string_view name = input.manifest.name(naming.other_parameter);
  const std::string theirs = scheme_word(naming.other_name);
  const std::string ours = scheme_word(name);
  auto report = diags.report(Code::RulesForOtherNames, {},
                             "these rules are for " + theirs + " (" +
                                 in_backticks(end_of(naming.other_name)) +
                                 "), but the model has " + ours + " (" +
                                 in_backticks(end_of(name)) + ")");
  report.label(rule_span(input, naming.other_rule),
               "would match " + in_backticks(end_of(naming.other_name)));
  report.fact(rules_found_nowhere(input) + ", among them " +
              rule_text(input.plan, naming.other_rule));
  report_outcome(input, report);
  help_with_other_set(input, report);
  report.help("rewrite the rules for " + ours +
              ", or rename the model's parameters to those of the rules");
  // With a config, `--scheme` selects the names.
  if (input.manifest.format == kConfigFormat) {
    report.help(
        "`--scheme` gives them another framework's names and shapes: "
        "`shardplan list schemes`");
    return;
  }
  const auto is_flax = [](std::string_view text) {
    return text == "Flax names";
  };
  if (is_flax(theirs) != is_flax(ours)) {
    report.help(
        "renaming is not enough: a Flax kernel is [in, out] and a PyTorch "
        "weight [out, in], so swap the entries of each spec");
    report.help("the shipped sets handle both: `shardplan list rules`");
  }
}

void report_missed_names(const LintInput& input, Diagnostics& diags) {
  const std::vector<int> rules = sharding_rules(input);
  const int first = *std::ranges::find_if(
      rules, [&](int rule) { return rule_of(input.plan, rule).matched == 0; });
  auto report =
      diags.report(Code::RulesForOtherNames, {},
                   "the rules are for different names than the model's");
  report.label(rule_span(input, first), "matches no name");
  report.fact(rules_found_nowhere(input) + "; " + rule_text(input.plan, first) +
              " looks for " + in_backticks(rule_of(input.plan, first).pattern) +
              ", the model's first name is " +
              in_backticks(input.manifest.name(0)));
  report_outcome(input, report);
  help_with_other_set(input, report);
  report.help("`shardplan inspect` lists the model's names");
}

// Returns whether a logical axis has several mesh axes, as a spec's entries
// have.
bool has_many_axes(const RuleSet& rules) {
  return std::ranges::any_of(rules.logical_rules, [](const LogicalRule& rule) {
    return rule.axes.size() > 1;
  });
}

void report_missed_labels(const LintInput& input, Diagnostics& diags) {
  std::set<std::string> labels;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const AxisLabels* axes = input.manifest.axes(i);
    if (axes == nullptr) continue;
    for (const auto& label : *axes) {
      if (label) labels.insert(*label);
    }
  }
  std::vector<std::string> placed;
  Span where;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (!rule.name || contains(placed, *rule.name)) continue;
    if (placed.empty()) where = rule.where;
    placed.push_back(*rule.name);
  }
  auto report = diags.report(
      Code::RulesForOtherNames, where,
      labels.empty() ? "the rules place logical axes, but the model has none"
                     : "the rules and the model use different logical axes");
  report.fact("the rules place " + quoted_list(placed));
  if (labels.empty()) {
    report.fact("no parameter of the model has `axes` (dimension labels)");
  } else {
    report.fact("the model has " + quoted_list({labels.begin(), labels.end()}));
  }
  report_outcome(input, report);
  const RuleForm* const form = form_of(input);
  if (labels.empty() && form != nullptr && !form->scheme.empty() &&
      input.manifest.format == kConfigFormat) {
    report.help("`--scheme " + std::string(form->scheme) +
                "` gives the parameters the names and logical axes that these "
                "rules expect; in `shardplan.yaml`, `scheme: " +
                std::string(form->scheme) + "`");
    return;
  }
  if (labels.empty() && has_many_axes(*input.rules)) {
    report.help(
        "if the names are patterns and each axis shards one dimension, write "
        "the second part of a rule as PartitionSpec(\"axis\", ..)");
  }
  if (labels.empty() && input.manifest.kinds != nullptr) {
    report.help("add `labels: architecture` to " +
                std::string(form_of(input) == nullptr
                                ? "the rules"
                                : "a second, YAML rules file") +
                " to label them by the model's architecture; `--rules "
                "@all_models` places all such labels");
    return;
  }
  report.help(labels.empty()
                  ? "give the parameters `axes` in a manifest, or write rules "
                    "for their names"
                  : "use the model's logical axes in the rules");
}

}  // namespace

NamingMismatch naming_mismatch(const LintInput& input) {
  NamingMismatch naming;
  find_name_mismatch(input, naming);
  find_label_mismatch(input, naming);
  naming.axes = unmentioned_axes(input);
  return naming;
}

void check_other_names(const LintInput& input, Diagnostics& diags) {
  const NamingMismatch& naming = input.naming;
  if (naming.other_rule > 0) {
    report_other_scheme(input, diags);
  } else if (naming.of_names) {
    report_missed_names(input, diags);
  }
  if (naming.of_labels) report_missed_labels(input, diags);
}

}  // namespace shardplan
