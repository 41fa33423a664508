// SPDX-License-Identifier: Apache-2.0
// Judges changes of a plan, and compares their findings by parameter group.
#include "advise/what_if.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/checked.h"
#include "evaluate/evaluate.h"

namespace shardplan {
namespace {

// Returns the identity of a finding apart from its parameters: its code,
// dimension, axis, and the rule's pattern if it names no parameter.
std::string error_key(const Diagnostic& diagnostic, const Plan& plan) {
  std::string key = code_id(diagnostic.code) + '\n' +
                    std::to_string(diagnostic.subject.dim) + '\n' +
                    diagnostic.subject.axis + '\n';
  const int rule = diagnostic.subject.rule;
  if (diagnostic.parameters.empty() && rule > 0) {
    key += nth(plan.rules, rule - 1).pattern;
  }
  return key;
}

// The numbers of parameters by name. Findings have the names of a class or of a
// placement, or of several of these, each in the order of the model. So the
// next name is mostly the expected one, and a table of all names is rarely
// needed.
class NumbersByName {
 public:
  // REQUIRES: both outlive this object.
  NumbersByName(const Manifest& all, const Folding& folding)
      : all_(all), folding_(folding) {}
  // Returns no value if no parameter has this name.
  std::optional<uint32_t> find(std::string_view name);

 private:
  uint32_t go_to(uint32_t number);
  void order();

  const Manifest& all_;
  const Folding& folding_;
  // The next parameter of the same class, and of the same placement; the number
  // of parameters if there is none.
  std::vector<uint32_t> behind_in_class_;
  std::vector<uint32_t> behind_in_placement_;
  std::array<uint32_t, 3> expected_ = {};
  std::unordered_map<std::string_view, uint32_t> numbers_;  // filled on first
                                                            // use
};

std::optional<uint32_t> NumbersByName::find(std::string_view name) {
  if (behind_in_class_.empty()) order();
  for (const uint32_t number : expected_) {
    if (number < all_.size() && all_.name(number) == name) return go_to(number);
  }
  if (numbers_.empty()) {
    for (uint32_t i = 0; i < all_.size(); ++i)
      numbers_.emplace(all_.name(i), i);
  }
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return go_to(found->second);
}

uint32_t NumbersByName::go_to(uint32_t number) {
  // The third candidate is the first parameter of the next class.
  const size_t behind = folding_.class_of[number] + size_t{1};
  const size_t next = behind == folding_.classes.size() ? 0 : behind;
  expected_ = {behind_in_class_[number], behind_in_placement_[number],
               static_cast<uint32_t>(folding_.classes[next].first)};
  return number;
}

void NumbersByName::order() {
  const auto count = static_cast<uint32_t>(all_.size());
  std::vector<uint32_t> of_class(folding_.classes.size(), count);
  uint32_t placements = 0;
  for (const ParameterClass& c : folding_.classes) {
    placements = std::max(placements, c.kind + 1);
  }
  std::vector<uint32_t> of_placement(placements, count);
  behind_in_class_.assign(count, count);
  behind_in_placement_.assign(count, count);
  for (uint32_t i = count; i-- > 0;) {
    const uint32_t number = folding_.class_of[i];
    behind_in_class_[i] = std::exchange(of_class[number], i);
    behind_in_placement_[i] =
        std::exchange(of_placement[folding_.classes[number].kind], i);
  }
}

// The groups that findings are about, ascending, keyed by the findings' other
// properties. Findings that name no parameter have an entry as well.
struct Sighting {
  std::vector<uint32_t> groups;
  Severity worst = Severity::Off;
};
using Findings = std::unordered_map<std::string, Sighting>;

// Returns whether all findings are among `others`.
bool are_among(const Findings& some, const Findings& others) {
  return std::ranges::all_of(some, [&](const auto& finding) {
    const auto other = others.find(finding.first);
    return other != others.end() &&
           std::ranges::includes(other->second.groups, finding.second.groups);
  });
}

void sort_groups(Findings& findings) {
  for (auto& [key, sighting] : findings) {
    std::vector<uint32_t>& groups = sighting.groups;
    std::ranges::sort(groups);
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  }
}

// The bytes that a device holds of parameters that are alike: those of all or,
// of experts that are placed whole, of `held` in each `among`.
struct HeldBytes {
  int64_t each = 0;
  int64_t held = 1;
  int64_t among = 1;

  int64_t of(int64_t count) const {
    return ceil_div(count * held, among) * each;
  }
};

HeldBytes held_of_placement(const Placement& placement) {
  const int64_t each = placement.bytes_per_device;
  const auto& dealt = placement.dealt;
  if (!dealt || dealt->rank >= 0) return {each};
  return {each, ceil_div(dealt->experts, dealt->size), dealt->experts};
}

// The result of a change to the plan.
struct Outcome {
  int64_t fullest = 0;           // bytes of the fullest device
  std::vector<HeldBytes> bytes;  // per group
  Findings findings;
  bool is_better = false;  // fewer findings, and no new error
};

// A finding to look up in the results of trials.
struct TargetFinding {
  const Diagnostic* finding = nullptr;
  std::string key;
  std::vector<std::pair<uint32_t, int64_t>> groups;  // each with its number of
                                                     // parameters
};

// Returns the key of a change of the whole model, which several findings may
// share; "" for changes of rules and paddings, which belong to one finding.
std::string shared_key(const Placing& change) {
  if (change.mesh) {
    std::string key = mesh_text(*change.mesh);
    for (const MeshView& view : change.mesh->views()) {
      key += " " + view.name + ":" + axes_text(view.axes);
    }
    return key;
  }
  if (!change.declared) return "";
  std::string key = "declare";
  for (const std::string& text : declaration_texts(*change.declared)) {
    key += " " + text;
  }
  return key;
}

Groundwork groundwork_of(const Planned& planned) {
  Diagnostics ignored;
  auto found = planned.found != nullptr
                   ? std::optional<FoundSets>(*planned.found)
                   : find_rules(planned.manifest, planned.rules,
                                planned.resolving, ignored);
  SHARDPLAN_CHECK(found);  // the plan was made with these rules
  return groundwork_of_rules(
      planned.manifest, planned.rules, *std::move(found), planned.folding,
      planned.model != nullptr ? planned.model->units(planned.folding)
                               : unit_facts(planned.manifest, planned.folding),
      planned.resolving, planned.linting, Places::LeftOut);
}

}  // namespace

struct WhatIf::Impl {
  Impl(const Planned& made, std::span<const Diagnostic* const> findings,
       const Diagnostics& how)
      : planned(made),
        severities(how.fresh()),
        ground(groundwork_of(made)),
        evaluator(ground),
        numbers(made.manifest, made.folding) {
    const Manifest& firsts = ground.groups.firsts;
    for (uint32_t g = 0; g < firsts.size(); ++g) {
      group_named.emplace(firsts.name(g), g);
    }
    for (const Diagnostic* finding : findings) {
      (finding->severity == Severity::Error     ? counts.errors
       : finding->severity == Severity::Warning ? counts.warnings
                                                : counts.notes) +=
          finding->findings;
      add_finding(*finding, before);
      if (finding->severity != Severity::Error) continue;
      add_finding(*finding, errors_before);
    }
    sort_groups(before);
    sort_groups(errors_before);
    // The size of the data that each change copies and visits.
    const RuleSet& rules = made.rules;
    size = std::ssize(rules.logical_rules);
    for (const Rule& rule : rules.rules) size += 1 + std::ssize(rule.spec.dims);
    for (size_t g = 0; g < firsts.size(); ++g) {
      size += 1 + static_cast<int64_t>(firsts.type(g).shape.size());
    }
    visited += std::ssize(made.manifest);
  }

  void add_group(uint32_t g, std::vector<uint32_t>& groups) const {
    if (groups.empty() || groups.back() != g) groups.push_back(g);
  }

  // Adds a finding of the unchanged model.
  void add_finding(const Diagnostic& diagnostic, Findings& findings) {
    Sighting& sighting = findings[error_key(diagnostic, planned.plan)];
    sighting.worst = std::max(sighting.worst, diagnostic.severity);
    for (const std::string& name : diagnostic.parameters) {
      const auto number = numbers.find(name);
      if (number) add_group(ground.groups.group_of[*number], sighting.groups);
    }
  }

  // Adds a finding of a trial, in which the first parameter represents a group.
  void add_tried(const Diagnostic& diagnostic, const Plan& plan,
                 Findings& findings) const {
    Sighting& sighting = findings[error_key(diagnostic, plan)];
    sighting.worst = std::max(sighting.worst, diagnostic.severity);
    for (const std::string& name : diagnostic.parameters) {
      const auto found = group_named.find(name);
      if (found != group_named.end()) add_group(found->second, sighting.groups);
    }
  }

  // Returns how many of `count` parameters of a group are on the stage that
  // holds the most, assuming that a part of a group is distributed as the whole
  // group is.
  int64_t held_of(size_t g, int64_t count) const {
    const Int128 most = ground.counts.most_of(g);
    return static_cast<int64_t>(count * most / ground.counts.all[g]);
  }

  // Returns the outcome of a change: its bytes, its findings and their
  // comparison.
  Outcome outcome_of(const Plan& plan, const DeviceMemory& memory,
                     const Diagnostics& diags) {
    Outcome outcome;
    for (const uint32_t placement : plan.placement_of) {
      outcome.bytes.push_back(held_of_placement(plan.placements[placement]));
    }
    outcome.fullest = memory.max;
    // Visits that are charged for a placement and for a finding.
    constexpr int64_t kPlacement = 4;
    constexpr int64_t kFinding = 8;
    // If no rule that shards matches, the findings search for other naming
    // schemes.
    constexpr int64_t kPattern = 40;  // to compile one, for at most 1000
    if (std::ranges::none_of(plan.rules, [](const PlanRule& rule) {
          return rule.matched > 0 && !names_no_axis(rule.spec);
        })) {
      visited += kPattern * std::min<int64_t>(1000, std::ssize(plan.rules));
    }
    const int64_t axes = std::ssize(plan.mesh.all_axes());
    for (const Placement& placement : plan.placements) {
      const PartitionSpec& spec =
          placement.requested ? *placement.requested : placement.spec;
      visited += kPlacement + axes + std::ssize(spec.dims);
    }
    Findings errors;
    for (const Diagnostic& diagnostic : diags.all()) {
      visited += kFinding + std::ssize(diagnostic.parameters);
      add_tried(diagnostic, plan, outcome.findings);
      if (diagnostic.severity != Severity::Error) continue;
      add_tried(diagnostic, plan, errors);
    }
    sort_groups(outcome.findings);
    sort_groups(errors);
    outcome.is_better =
        finding_counts(diags) < counts && are_among(errors, errors_before);
    return outcome;
  }

  // Returns no value if the change cannot be made at all.
  struct Made {
    PlacedGroups judgement;
    Outcome outcome;
  };
  std::optional<Made> made(const Placing& change) {
    visited += size;
    Diagnostics diags = severities.fresh();
    auto judgement =
        evaluator.place(change, planned.plan.mesh, kPlanSides, diags);
    if (!judgement) return std::nullopt;
    Outcome outcome = outcome_of(judgement->plan, judgement->memory, diags);
    return Made{*std::move(judgement), std::move(outcome)};
  }

  // Returns the outcome of a change; those that other findings may share are
  // cached.
  const std::optional<Outcome>& tried(const Placing& change) {
    constexpr size_t kRemembered = 64;
    const std::string key = shared_key(change);
    const auto known = remembered.find(key);
    if (known != remembered.end()) return known->second;
    std::optional<Outcome> outcome;
    if (auto one = made(change)) outcome = std::move(one->outcome);
    const bool is_kept = !key.empty() && remembered.size() < kRemembered;
    return (is_kept ? remembered[key] : last) = std::move(outcome);
  }

  const TargetFinding& find_target(const Diagnostic& finding,
                                   std::span<const uint32_t> parameters) {
    if (last_target.finding == &finding) return last_target;
    last_target = {&finding, error_key(finding, planned.plan), {}};
    const size_t all = ground.groups.groups.size();
    if (parameters.size() >= all) {
      std::vector<int64_t> of_groups(all);
      for (const uint32_t i : parameters)
        ++of_groups[ground.groups.group_of[i]];
      for (uint32_t g = 0; g < all; ++g) {
        if (of_groups[g] > 0) last_target.groups.emplace_back(g, of_groups[g]);
      }
    } else {
      std::map<uint32_t, int64_t> of_groups;
      for (const uint32_t i : parameters)
        ++of_groups[ground.groups.group_of[i]];
      last_target.groups.assign(of_groups.begin(), of_groups.end());
    }
    visited += std::ssize(parameters);
    return last_target;
  }

  static bool is_gone(const TargetFinding& target, const Outcome& outcome) {
    const auto found = outcome.findings.find(target.key);
    if (found == outcome.findings.end()) return true;
    if (target.groups.empty()) return false;
    const std::vector<uint32_t>& groups = found->second.groups;
    return std::ranges::none_of(target.groups, [&](const auto& group) {
      return std::ranges::binary_search(groups, group.first);
    });
  }

  // The change that decides each group, before or after; and the changes that
  // decide a group together with another one.
  static constexpr int kNone = -1;
  static constexpr int kSeveral = -2;
  struct Deciders {
    std::vector<int> decider;  // per group
    std::vector<bool> is_entangled;
  };
  Deciders deciders(std::span<const RequestedChange> requested,
                    const Groundwork::Matched& after) const {
    std::vector<int> of_rule(planned.rules.rules.size(), kNone);
    for (size_t i = 0; i < requested.size(); ++i) {
      const RuleChange& change = *requested[i].change;
      if (change.kind == RuleChange::Kind::Insert) continue;
      nth(of_rule, change.rule - 1) = static_cast<int>(i);
    }
    const auto at = [](const std::vector<int>& of, int winner) {
      return winner < 0 ? kNone : nth(of, winner);
    };
    Deciders result{{}, std::vector<bool>(requested.size())};
    for (size_t g = 0; g < ground.groups.groups.size(); ++g) {
      const int then = at(of_rule, ground.unchanged->matches.winner[g]);
      const int now = at(after.rules.by, after.matches.winner[g]);
      const bool is_one = then == now || then == kNone || now == kNone;
      result.decider.push_back(is_one ? std::max(then, now) : kSeveral);
      if (is_one) continue;
      nth(result.is_entangled, then) = true;
      nth(result.is_entangled, now) = true;
    }
    return result;
  }

  // Returns whether the properties of the rules as a whole hold without the
  // changed rules: some rule shards (SP115), each axis is named (SP208), and
  // each shards something (SP204). Otherwise one change could depend on
  // another.
  bool is_independent(std::span<const RuleChange> changes,
                      const Deciders& by) const {
    const RuleSet& rules = planned.rules;
    std::vector<bool> is_changed(rules.rules.size());
    for (const RuleChange& change : changes) {
      if (change.kind == RuleChange::Kind::Insert) continue;
      nth(is_changed, change.rule - 1) = true;
    }
    using Axes = std::set<std::string_view>;
    const auto add = [](const PartitionSpec& spec, Axes& axes) {
      for (const AxisNames& dim : spec.dims)
        axes.insert(dim.begin(), dim.end());
    };
    Axes named;
    Axes still_named;
    bool one_stays = false;
    for (size_t i = 0; i < rules.rules.size(); ++i) {
      const Rule& rule = rules.rules[i];
      add(rule.spec, named);
      if (is_changed[i]) continue;
      add(rule.spec, still_named);
      one_stays = one_stays || (planned.plan.rules[i].decided > 0 &&
                                !rule.shipped && !names_no_axis(rule.spec));
    }
    Axes used;
    Axes still_used;
    for (size_t g = 0; g < ground.groups.groups.size(); ++g) {
      const PartitionSpec& spec =
          planned.plan.of(ground.groups.groups[g].first).spec;
      add(spec, used);
      if (by.decider[g] == kNone) add(spec, still_used);
    }
    return one_stays && named == still_named && used == still_used;
  }

  // Returns the worst new finding of each change; Severity::Off if there is
  // none. No value if a new finding belongs to none of the changes.
  std::optional<std::vector<Severity>> new_findings(const Outcome& outcome,
                                                    const Deciders& by) const {
    std::vector<Severity> worst(by.is_entangled.size(), Severity::Off);
    for (const auto& [key, now] : outcome.findings) {
      const auto then = before.find(key);
      const bool is_known = then != before.end();
      if (!is_known && now.groups.empty()) return std::nullopt;
      for (const uint32_t g : now.groups) {
        if (is_known && std::ranges::binary_search(then->second.groups, g)) {
          continue;
        }
        if (by.decider[g] == kNone) return std::nullopt;
        if (by.decider[g] == kSeveral) continue;  // these are entangled
        Severity& of = nth(worst, by.decider[g]);
        of = std::max(of, now.worst);
      }
    }
    return worst;
  }

  int64_t work() const { return visited + evaluator.work(); }

  const Planned planned;
  const Diagnostics severities;
  int64_t visited = 0;  // in addition to the evaluator's visits
  int64_t size = 0;     // of the rules and groups
  const Groundwork ground;
  Evaluator evaluator;
  FindingCounts counts;
  Findings before;
  Findings errors_before;
  std::map<std::string, std::optional<Outcome>> remembered;
  std::optional<Outcome> last;
  TargetFinding last_target;
  NumbersByName numbers;
  std::unordered_map<std::string_view, uint32_t> group_named;  // by its first
                                                               // parameter
};

WhatIf::WhatIf(const Planned& planned,
               std::span<const Diagnostic* const> findings,
               const Diagnostics& severities)
    : impl_(std::make_unique<Impl>(planned, findings, severities)) {}

WhatIf::~WhatIf() = default;

int64_t WhatIf::work() const { return impl_->work(); }

std::vector<uint32_t> WhatIf::parameters_of(const Diagnostic& finding) {
  std::vector<uint32_t> result;
  result.reserve(finding.parameters.size());
  for (const std::string& name : finding.parameters) {
    if (const auto number = impl_->numbers.find(name)) {
      result.push_back(*number);
    }
  }
  const size_t all = impl_->planned.manifest.size();
  if (result.size() < all / 16) {
    std::ranges::sort(result);
    return result;
  }
  // For that many, one pass over the whole model is faster than sorting.
  std::vector<bool> named(all);
  for (const uint32_t number : result) named[number] = true;
  result.clear();
  for (uint32_t i = 0; i < all; ++i) {
    if (named[i]) result.push_back(i);
  }
  return result;
}

std::optional<Effect> WhatIf::effect(const Placing& change,
                                     const Diagnostic& finding,
                                     std::span<const uint32_t> parameters) {
  const TargetFinding& target = impl_->find_target(finding, parameters);
  const std::optional<Outcome>& outcome = impl_->tried(change);
  impl_->visited += std::ssize(target.groups) + 1;
  if (!outcome || !outcome->is_better || !Impl::is_gone(target, *outcome)) {
    return std::nullopt;
  }
  const Plan& before = impl_->planned.plan;
  Effect effect{outcome->fullest - impl_->planned.memory.max, 0};
  for (const auto& [g, count] : target.groups) {
    const size_t first = impl_->ground.groups.groups[g].first;
    effect.finding_bytes_per_device +=
        outcome->bytes[g].of(impl_->held_of(g, count)) -
        held_of_placement(before.of(first)).of(impl_->held_of(g, count));
  }
  return effect;
}

std::optional<std::vector<std::optional<Effect>>> WhatIf::effects_together(
    std::span<const RequestedChange> requested) {
  Placing together;
  for (const RequestedChange& each : requested)
    together.rules.push_back(*each.change);
  const auto made = impl_->made(together);
  if (!made) return std::nullopt;
  const Outcome& outcome = made->outcome;
  const Impl::Deciders by =
      impl_->deciders(requested, *made->judgement.matched);
  if (!impl_->is_independent(together.rules, by)) return std::nullopt;
  const auto news = impl_->new_findings(outcome, by);
  if (!news) return std::nullopt;

  // If all devices hold the same, a change adds exactly what its groups add.
  const Planned& planned = impl_->planned;
  const std::vector<ParameterGroup>& groups = impl_->ground.groups.groups;
  std::vector<int64_t> added(requested.size());
  int64_t of_all = 0;
  const auto more = [&](uint32_t g, int64_t count) {
    return outcome.bytes[g].of(count) -
           held_of_placement(planned.plan.of(groups[g].first)).of(count);
  };
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const int64_t bytes = more(g, groups[g].count);
    of_all += bytes;
    const int change = by.decider[g];
    if (change >= 0) nth(added, change) += bytes;
  }
  if (of_all != outcome.fullest - planned.memory.max) return std::nullopt;

  // Findings that name no parameter are distinguished by patterns. Among equal
  // patterns, a change removes only its own finding.
  std::unordered_map<std::string, int> findings_with_key;
  for (const RequestedChange& each : requested) {
    if (!each.parameters.empty()) continue;
    ++findings_with_key[error_key(*each.finding, planned.plan)];
  }
  std::vector<std::optional<Effect>> effects(requested.size());
  for (size_t i = 0; i < requested.size(); ++i) {
    const Diagnostic& finding = *requested[i].finding;
    const RuleChange& change = *requested[i].change;
    const TargetFinding& target =
        impl_->find_target(finding, requested[i].parameters);
    impl_->visited += std::ssize(target.groups) + 1;
    // The change itself must have removed the finding.
    const bool is_own =
        target.groups.empty()
            ? change.kind != RuleChange::Kind::Insert &&
                  change.rule == finding.subject.rule &&
                  findings_with_key[target.key] == 1
            : std::ranges::all_of(target.groups, [&](const auto& group) {
                return by.decider[group.first] == static_cast<int>(i);
              });
    if (!is_own || by.is_entangled[i] || (*news)[i] >= finding.severity ||
        !Impl::is_gone(target, outcome)) {
      continue;
    }
    effects[i] = Effect{added[i], 0};
    for (const auto& [g, count] : target.groups) {
      effects[i]->finding_bytes_per_device += more(g, impl_->held_of(g, count));
    }
  }
  return effects;
}

bool WhatIf::can_all_go(std::span<const Diagnostic* const> findings) {
  const Plan& plan = impl_->planned.plan;
  std::set<int> removed;
  Placing without;
  for (const Diagnostic* finding : findings) {
    const int rule = finding->subject.rule;
    if (rule < 1) return false;
    const PlanRule& idle = nth(plan.rules, rule - 1);
    // If the rule shadows others that decide nothing either, removing it
    // changes the findings about those.
    if (idle.decided > 0 || !idle.shadowed_by.empty()) return false;
    if (!removed.insert(rule).second) return false;
    RuleChange& change = without.rules.emplace_back();
    change.kind = RuleChange::Kind::Remove;
    change.rule = rule;
  }
  // SP115 is reported for all rules together, unless a rule that shards matches
  // and remains. The removed rules decide nothing.
  if (std::ranges::none_of(plan.rules, [](const PlanRule& rule) {
        return rule.decided > 0 && !rule.shipped && !names_no_axis(rule.spec);
      })) {
    return false;
  }
  const auto made = impl_->made(without);
  if (!made || !made->outcome.is_better ||
      !are_among(made->outcome.findings, impl_->before)) {
    return false;
  }
  return std::ranges::none_of(findings, [&](const Diagnostic* finding) {
    return made->outcome.findings.contains(error_key(*finding, plan));
  });
}

FindingsLeft::FindingsLeft(const Diagnostics& diags, const Plan& plan) {
  for (const Diagnostic& finding : diags.all()) {
    names_[error_key(finding, plan)].insert(finding.parameters.begin(),
                                            finding.parameters.end());
  }
}

bool FindingsLeft::is_gone(const Diagnostic& finding,
                           const Plan& before) const {
  const auto found = names_.find(error_key(finding, before));
  if (found == names_.end()) return true;
  const std::vector<std::string>& names = finding.parameters;
  return !names.empty() &&
         std::ranges::none_of(names, [&](const std::string& n) {
           return found->second.contains(n);
         });
}

FindingCounts finding_counts(const Diagnostics& diags) {
  return {diags.count(Severity::Error), diags.count(Severity::Warning),
          diags.count(Severity::Note)};
}

}  // namespace shardplan
