// SPDX-License-Identifier: Apache-2.0
#include "advise/what_if.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

// Parameters that are tried as one.
struct Group {
  uint32_t found = 0;            // number of the set of rules found
  uint32_t parameter_class = 0;  // of the folding
  uint32_t first = 0;            // its first parameter, which stands for all
  int64_t count = 0;
  bool may_decide = true;
};

// Where every parameter belongs, and which sets of rules there are.
struct Grouping {
  std::vector<std::vector<int>> found;  // 0-based rules, ascending
  std::vector<Group> groups;            // by first parameter
  std::vector<uint32_t> group_of;       // per parameter
};

// Which rules are found in each parameter, as numbers of sets that are listed
// in the order of their first parameters.
struct FoundSets {
  std::vector<std::vector<int>> sets;
  std::vector<uint32_t> of;  // per parameter
};

FoundSets found_sets(const Matcher& matcher, const Manifest& manifest) {
  const std::optional<NameGroups> groups = matcher.groups_of(manifest);
  FoundSets result;
  result.of.reserve(manifest.size());
  std::map<std::vector<int>, uint32_t> numbers;
  std::vector<uint32_t> of_group;
  std::vector<int> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    // The first name of a group stands for the others, and comes before them.
    if (groups && groups->first[groups->of[i]] != i) {
      result.of.push_back(of_group[groups->of[i]]);
      continue;
    }
    matcher.find(manifest.name(i), found);
    const auto [set, is_new] =
        numbers.try_emplace(found, static_cast<uint32_t>(result.sets.size()));
    if (is_new) result.sets.push_back(found);
    if (groups) of_group.push_back(set->second);
    result.of.push_back(set->second);
  }
  return result;
}

Grouping group(const Planned& planned) {
  Grouping result;
  const Manifest& manifest = planned.manifest;
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(planned.rules, manifest.names_are_plain(), ignored);
  SHARDPLAN_CHECK(matcher);  // the plan was made with it
  FoundSets found = found_sets(*matcher, manifest);
  result.found = std::move(found.sets);
  std::map<AxisLabels, uint32_t> labels;  // 0 stands for none
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> known;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const uint32_t set = found.of[i];
    uint32_t label = 0;
    if (const AxisLabels* axes = manifest.axes(i)) {
      label =
          labels.try_emplace(*axes, static_cast<uint32_t>(labels.size() + 1))
              .first->second;
    }
    const uint32_t number = planned.folding.class_of[i];
    const auto [entry, is_new] = known.try_emplace(
        {set, number, label}, static_cast<uint32_t>(result.groups.size()));
    if (is_new) {
      const bool scalar = manifest.type(i).shape.empty();
      result.groups.push_back({set, number, static_cast<uint32_t>(i), 0,
                               !planned.resolving.strict || !scalar});
    }
    ++result.groups[entry->second].count;
    result.group_of.push_back(entry->second);
  }
  return result;
}

// The first parameter of every group.
Manifest firsts_of(const Manifest& manifest, const Grouping& grouping) {
  Manifest result;
  result.facts = manifest.facts;
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    const size_t first = grouping.groups[g].first;
    SHARDPLAN_CHECK(result.add(manifest.name(first), manifest.type(first), {}));
    if (const AxisLabels* axes = manifest.axes(first)) {
      result.set_axes(g, *axes);
    }
  }
  return result;
}

// Rules without their places: nobody reads where the findings of a trial are,
// and finding a line costs time.
RuleSet without_places(const RuleSet& rules) {
  RuleSet result = rules;
  result.sources.clear();
  for (Rule& rule : result.rules) {
    rule.where = rule.spec_where = rule.item_where = {};
    rule.dim_where.clear();
  }
  for (LogicalRule& rule : result.logical_rules) {
    rule.where = rule.axes_where = {};
  }
  return result;
}

// Changed rules, with what resolve/match.h would say of the groups.
struct Rematched {
  ChangedRules rules;
  Matches matches;
};

// The rules without some of them (1-based).
ChangedRules without(const RuleSet& rules, const std::set<int>& removed) {
  ChangedRules result;
  const int count = static_cast<int>(rules.rules.size());
  RuleSet others = rules;
  others.rules.clear();
  for (int number = 1; number <= count; ++number) {
    if (removed.contains(number)) continue;
    others.rules.push_back(rules.rules[static_cast<size_t>(number) - 1]);
    result.origin.push_back(number - 1);
  }
  result.rules = std::move(others);
  return result;
}

// The classes of the folding in which each new pattern is found, as the rules'
// new numbers; no entries where no pattern is new. Empty when a pattern cannot
// be compiled.
using FoundByClass = std::vector<std::vector<int>>;
std::optional<FoundByClass> find_new(const Planned& planned,
                                     const ChangedRules& change,
                                     int64_t& work) {
  FoundByClass result;
  RuleSet fresh;
  std::vector<int> numbers;
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] >= 0) continue;
    fresh.rules.push_back(change.rules.rules[i]);
    numbers.push_back(static_cast<int>(i));
  }
  if (fresh.rules.empty()) return result;
  result.resize(planned.folding.classes.size());
  work += static_cast<int64_t>(result.size());
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(fresh, planned.manifest.names_are_plain(), ignored);
  if (!matcher) return std::nullopt;
  std::vector<int> found;
  for (size_t i = 0; i < result.size(); ++i) {
    matcher->find(planned.manifest.name(planned.folding.classes[i].first),
                  found);
    for (const int rule : found) {
      result[i].push_back(numbers[static_cast<size_t>(rule)]);
    }
  }
  return result;
}

std::optional<Matches> rematch(const Planned& planned, const Grouping& grouping,
                               const ChangedRules& change, int64_t& work) {
  const std::optional<FoundByClass> added = find_new(planned, change, work);
  if (!added) return std::nullopt;
  std::vector<int> now(planned.rules.rules.size(), -1);  // old to new numbers
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] < 0) continue;
    now[static_cast<size_t>(change.origin[i])] = static_cast<int>(i);
  }
  Matches matches;
  matches.rules.resize(change.origin.size());
  matches.winner.reserve(grouping.groups.size());
  for (const Group& members : grouping.groups) {
    std::vector<int> found;
    if (!added->empty()) found = (*added)[members.parameter_class];
    for (const int rule : grouping.found[members.found]) {
      if (now[static_cast<size_t>(rule)] >= 0) {
        found.push_back(now[static_cast<size_t>(rule)]);
      }
    }
    work += static_cast<int64_t>(found.size());
    for (const int rule : found) {
      matches.rules[static_cast<size_t>(rule)].found += members.count;
    }
    if (found.empty() || !members.may_decide) {
      matches.winner.push_back(-1);
      continue;
    }
    const int winner = *std::min_element(found.begin(), found.end());
    matches.winner.push_back(winner);
    matches.rules[static_cast<size_t>(winner)].won += members.count;
    for (const int rule : found) {
      std::vector<int>& winners =
          matches.rules[static_cast<size_t>(rule)].winners;
      if (rule != winner && (winners.empty() || winners.back() != winner)) {
        winners.push_back(winner);
      }
    }
  }
  for (RuleUse& use : matches.rules) {
    std::sort(use.winners.begin(), use.winners.end());
    use.winners.erase(std::unique(use.winners.begin(), use.winners.end()),
                      use.winners.end());
  }
  return matches;
}

// fold() of the groups, given how the names of all parameters fold; classes
// count parameters.
Folding refold(const Folding& folding, const Grouping& grouping,
               const std::vector<uint32_t>& kinds) {
  Folding result;
  result.folded_names = folding.folded_names;
  result.class_of.reserve(kinds.size());
  std::unordered_map<uint64_t, uint32_t> known;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const Group& members = grouping.groups[i];
    const uint32_t folded = folding.classes[members.parameter_class].folded;
    const auto [entry, is_new] =
        known.try_emplace((uint64_t{folded} << 32U) | kinds[i],
                          static_cast<uint32_t>(result.classes.size()));
    if (is_new) result.classes.push_back({folded, kinds[i], i, 0});
    result.classes[entry->second].count += members.count;
    result.class_of.push_back(entry->second);
  }
  return result;
}

// The model with one dimension of some parameters padded. Empty when that
// exceeds 63 bits.
std::optional<Manifest> padded(const Manifest& manifest,
                               std::span<const uint32_t> parameters, int dim,
                               int64_t size) {
  Manifest result;
  result.facts = manifest.facts;
  size_t next = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    TensorType type = manifest.type(i);
    if (next < parameters.size() && parameters[next] == i) {
      type.shape[static_cast<size_t>(dim)] = size;
      ++next;
    }
    if (!result.add(manifest.name(i), type, manifest.where(i))) {
      return std::nullopt;
    }
    if (const AxisLabels* axes = manifest.axes(i)) result.set_axes(i, *axes);
  }
  return result;
}

// What an error is, apart from the parameters: its code, dimension, axis, and
// the pattern where it names no parameter.
std::string error_key(const Diagnostic& diagnostic, const Plan& plan) {
  std::string key = code_id(diagnostic.code) + '\n' +
                    std::to_string(diagnostic.subject.dim) + '\n' +
                    diagnostic.subject.axis + '\n';
  const int rule = diagnostic.subject.rule;
  if (diagnostic.parameters.empty() && rule > 0) {
    key += plan.rules[static_cast<size_t>(rule) - 1].pattern;
  }
  return key;
}

std::optional<Mesh> resized(const Mesh& mesh, const Axis& wanted) {
  std::vector<Axis> axes = mesh.axes();
  int64_t devices = 1;
  for (Axis& axis : axes) {
    if (axis.name == wanted.name) axis.size = wanted.size;
    if (axis.size > kMaxDevices / devices) return std::nullopt;
    devices *= axis.size;
  }
  return Mesh(std::move(axes));
}

// The groups that findings are about, ascending, by what the findings are
// otherwise. Those that name no parameter have an entry too.
using Findings = std::unordered_map<std::string, std::vector<uint32_t>>;

// Whether all findings are among others.
bool are_among(const Findings& some, const Findings& others) {
  return std::all_of(some.begin(), some.end(), [&](const auto& finding) {
    const auto other = others.find(finding.first);
    return other != others.end() &&
           std::includes(other->second.begin(), other->second.end(),
                         finding.second.begin(), finding.second.end());
  });
}

void sort_groups(Findings& findings) {
  for (auto& [key, groups] : findings) {
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  }
}

// What a change makes of the plan.
struct Outcome {
  int64_t fullest = 0;         // bytes of the fullest device
  std::vector<int64_t> bytes;  // of one parameter on one device, per group
  Findings findings;
  bool is_better = false;  // fewer findings, and no new error
};

// A finding, as trials see it.
struct Sought {
  const Diagnostic* finding = nullptr;
  std::string key;
  std::vector<std::pair<uint32_t, int64_t>> groups;  // with their parameters
};

// A change of the model as a whole, which several findings may ask for.
std::string shared_key(const Change& change) {
  if (change.axis) {
    return change.axis->name + "=" + std::to_string(change.axis->size);
  }
  if (!change.declared) return "";
  std::string key = "declare";
  for (const std::string& text : declaration_texts(*change.declared)) {
    key += " " + text;
  }
  return key;
}

}  // namespace

struct WhatIf::Impl {
  Impl(const Planned& made, std::span<const Diagnostic* const> findings,
       const Diagnostics& how)
      : planned(made),
        severities(how.fresh()),
        grouping(group(made)),
        model(firsts_of(made.manifest, grouping)),
        known(unit_facts(made.manifest, made.folding)),
        rules(without_places(made.rules)) {
    for (const Group& members : grouping.groups) {
      counts_of_groups.push_back(members.count);
    }
    number_of.reserve(made.manifest.size());
    for (size_t i = 0; i < made.manifest.size(); ++i) {
      number_of.emplace(made.manifest.name(i), static_cast<uint32_t>(i));
    }
    for (const Diagnostic* finding : findings) {
      (finding->severity == Severity::Error     ? counts.errors
       : finding->severity == Severity::Warning ? counts.warnings
                                                : counts.notes) +=
          finding->findings;
      add_finding(*finding, planned.plan, before);
      if (finding->severity != Severity::Error) continue;
      add_finding(*finding, planned.plan, errors_before);
    }
    sort_groups(before);
    sort_groups(errors_before);
    RuleChange nothing;
    nothing.kind = RuleChange::Kind::Insert;
    // What is copied and gone through for each change.
    size = static_cast<int64_t>(rules.logical_rules.size());
    for (const Rule& rule : rules.rules) {
      size += 1 + static_cast<int64_t>(rule.spec.dims.size());
    }
    for (size_t g = 0; g < model.size(); ++g) {
      size += 1 + static_cast<int64_t>(model.type(g).shape.size());
    }
    unchanged.rules = changed(rules, nothing);
    unchanged.matches = *rematch(planned, grouping, unchanged.rules, work);
    work += static_cast<int64_t>(made.manifest.size());
  }

  void add_finding(const Diagnostic& diagnostic, const Plan& plan,
                   Findings& findings) const {
    std::vector<uint32_t>& groups = findings[error_key(diagnostic, plan)];
    for (const std::string& name : diagnostic.parameters) {
      const auto found = number_of.find(name);
      if (found == number_of.end()) continue;
      const uint32_t g = grouping.group_of[found->second];
      if (groups.empty() || groups.back() != g) groups.push_back(g);
    }
  }

  // The groups, with the parameters of `padding` padded. Empty when that
  // exceeds 63 bits, or pads a part of a group.
  std::optional<Manifest> padded_model(const Padding& padding) const {
    std::vector<int64_t> some(grouping.groups.size());
    for (const uint32_t i : padding.parameters) ++some[grouping.group_of[i]];
    std::vector<uint32_t> whole;
    Int128 elements = 0;
    Int128 bytes = 0;
    for (uint32_t g = 0; g < some.size(); ++g) {
      if (some[g] == 0) continue;
      if (some[g] != counts_of_groups[g]) return std::nullopt;
      whole.push_back(g);
    }
    auto result = padded(model, whole, padding.dim, padding.size);
    if (!result) return std::nullopt;
    for (size_t g = 0; g < some.size(); ++g) {
      const TensorType& type = result->type(g);
      elements += static_cast<Int128>(type.elements()) * counts_of_groups[g];
      bytes += static_cast<Int128>(type.bytes()) * counts_of_groups[g];
    }
    if (elements > INT64_MAX || bytes > INT64_MAX) return std::nullopt;
    return result;
  }

  int64_t bytes_of_all(const Manifest& firsts) const {
    int64_t bytes = 0;
    for (size_t g = 0; g < firsts.size(); ++g) {
      bytes += firsts.type(g).bytes() * counts_of_groups[g];
    }
    return bytes;
  }

  // What lints make of a plan of the groups.
  std::optional<Outcome> judged(const Manifest& firsts, const UnitFacts& facts,
                                const RuleSet& by, const Plan& plan,
                                Diagnostics& diags) {
    Outcome outcome;
    PlacementCounts placed(plan.placements.size());
    for (size_t g = 0; g < firsts.size(); ++g) {
      placed[plan.placement_of[g]] += counts_of_groups[g];
      outcome.bytes.push_back(plan.of(g).bytes_per_device);
    }
    const auto memory = device_memory(plan, placed, diags, &work);
    if (!memory) return std::nullopt;
    outcome.fullest = memory->max;
    const Folding folding =
        refold(planned.folding, grouping, plan.placement_of);
    const Summary summary = {
        counts_of_groups, bytes_of_all(firsts), facts,
        [this](const std::string& pattern) { return catches_all(pattern); }};
    LintInput input =
        make_lint_input(firsts, plan, folding, &by, *memory, planned.linting);
    input.summary = &summary;
    lint(input, diags);
    // Visits that resolving and telling one are worth.
    constexpr int64_t kPlacement = 4;
    constexpr int64_t kFinding = 8;
    // Where no rule that shards is found, lints ask all for names of others.
    constexpr int64_t kPattern = 40;  // to compile one, of a thousand at most
    const bool is_sought = std::none_of(
        plan.rules.begin(), plan.rules.end(), [](const auto& rule) {
          return rule.found > 0 && !names_no_axis(rule.spec);
        });
    if (is_sought) {
      work += kPattern *
              static_cast<int64_t>(std::min<size_t>(1000, plan.rules.size()));
    }
    const size_t axes = plan.mesh.axes().size();
    for (const Placement& placement : plan.placements) {
      const size_t entries = placement.requested
                                 ? placement.requested->dims.size()
                                 : placement.spec.dims.size();
      work += kPlacement + static_cast<int64_t>(axes + entries);
    }
    Findings errors;
    for (const Diagnostic& diagnostic : diags.all()) {
      work += kFinding + static_cast<int64_t>(diagnostic.parameters.size());
      add_finding(diagnostic, plan, outcome.findings);
      if (diagnostic.severity != Severity::Error) continue;
      add_finding(diagnostic, plan, errors);
    }
    sort_groups(outcome.findings);
    sort_groups(errors);
    outcome.is_better =
        finding_counts(diags) < counts && are_among(errors, errors_before);
    return outcome;
  }

  // Empty where the change cannot be made at all.
  std::optional<Outcome> outcome_of(const Change& change,
                                    const Rematched& rematched) {
    work += size;
    std::optional<Manifest> other;
    std::optional<UnitFacts> other_facts;
    if (change.padding) {
      other = padded_model(*change.padding);
      if (!other) return std::nullopt;
      // Shapes tell facts: those of all parameters, numbers included.
      const Padding& padding = *change.padding;
      const auto all = padded(planned.manifest, padding.parameters, padding.dim,
                              padding.size);
      work += static_cast<int64_t>(planned.manifest.size());
      if (!all) return std::nullopt;
      other_facts = unit_facts(*all);
    }
    const Manifest& firsts = other ? *other : model;
    const UnitFacts& facts = other_facts ? *other_facts : known;
    const auto mesh = change.axis ? resized(planned.plan.mesh, *change.axis)
                                  : std::optional<Mesh>(planned.plan.mesh);
    if (!mesh) return std::nullopt;
    ResolveOptions how = planned.resolving;
    if (change.declared) how.declarations = *change.declared;
    Diagnostics diags = severities.fresh();
    const std::optional<Plan> plan =
        resolve(firsts, rematched.rules.rules, rematched.matches, *mesh, how,
                facts, diags);
    if (!plan) return std::nullopt;
    return judged(firsts, facts, rematched.rules.rules, *plan, diags);
  }

  std::optional<Outcome> outcome_of(const RuleChange& change) {
    Rematched rematched{changed(rules, change), {}};
    auto matches = rematch(planned, grouping, rematched.rules, work);
    if (!matches) return std::nullopt;
    rematched.matches = *std::move(matches);
    return outcome_of(Change{}, rematched);
  }

  // The same, remembered where other findings may ask for the same change.
  const Outcome* tried(const Change& change) {
    constexpr size_t kRemembered = 64;
    const std::string key = shared_key(change);
    if (!key.empty()) {
      const auto known_one = remembered.find(key);
      if (known_one != remembered.end()) {
        return known_one->second ? &*known_one->second : nullptr;
      }
    }
    std::optional<Outcome> outcome = change.rules
                                         ? outcome_of(*change.rules)
                                         : outcome_of(change, unchanged);
    if (!key.empty() && remembered.size() < kRemembered) {
      const auto entry = remembered.emplace(key, std::move(outcome)).first;
      return entry->second ? &*entry->second : nullptr;
    }
    last = std::move(outcome);
    return last ? &*last : nullptr;
  }

  const Sought& seek(const Diagnostic& finding,
                     std::span<const uint32_t> parameters) {
    if (sought.finding == &finding) return sought;
    sought = {&finding, error_key(finding, planned.plan), {}};
    std::map<uint32_t, int64_t> groups;
    for (const uint32_t i : parameters) ++groups[grouping.group_of[i]];
    sought.groups.assign(groups.begin(), groups.end());
    work += static_cast<int64_t>(parameters.size());
    return sought;
  }

  static bool is_gone(const Sought& wanted, const Outcome& outcome) {
    const auto found = outcome.findings.find(wanted.key);
    if (found == outcome.findings.end()) return true;
    if (wanted.groups.empty()) return false;
    const std::vector<uint32_t>& groups = found->second;
    return std::none_of(
        wanted.groups.begin(), wanted.groups.end(), [&](const auto& group) {
          return std::binary_search(groups.begin(), groups.end(), group.first);
        });
  }

  bool catches_all(const std::string& pattern) {
    const auto [entry, is_new] = catch_all.try_emplace(pattern, false);
    if (is_new) entry->second = is_catch_all(pattern);
    return entry->second;
  }

  const Planned planned;
  const Diagnostics severities;
  int64_t work = 0;
  int64_t size = 0;  // of the rules and groups
  const Grouping grouping;
  const Manifest model;  // of the groups' firsts
  const UnitFacts known;
  const RuleSet rules;
  std::vector<int64_t> counts_of_groups;
  FindingCounts counts;
  Findings before;
  Findings errors_before;
  Rematched unchanged;
  std::map<std::string, std::optional<Outcome>> remembered;
  std::optional<Outcome> last;
  Sought sought;
  std::unordered_map<std::string, bool> catch_all;
  std::unordered_map<std::string_view, uint32_t> number_of;  // by name
};

WhatIf::WhatIf(const Planned& planned,
               std::span<const Diagnostic* const> findings,
               const Diagnostics& severities)
    : impl_(std::make_unique<Impl>(planned, findings, severities)) {}

WhatIf::~WhatIf() = default;

int64_t WhatIf::work() const { return impl_->work; }

std::vector<uint32_t> WhatIf::parameters_of(const Diagnostic& finding) {
  const auto& number_of = impl_->number_of;
  std::vector<uint32_t> result;
  for (const std::string& name : finding.parameters) {
    const auto found = number_of.find(name);
    if (found != number_of.end()) result.push_back(found->second);
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::optional<Effect> WhatIf::effect(const Change& change,
                                     const Diagnostic& finding,
                                     std::span<const uint32_t> parameters) {
  const Sought& sought = impl_->seek(finding, parameters);
  const Outcome* outcome = impl_->tried(change);
  impl_->work += static_cast<int64_t>(sought.groups.size()) + 1;
  if (outcome == nullptr || !outcome->is_better ||
      !Impl::is_gone(sought, *outcome)) {
    return std::nullopt;
  }
  const Plan& before = impl_->planned.plan;
  Effect effect{outcome->fullest - impl_->planned.memory.max, 0};
  for (const auto& [g, count] : sought.groups) {
    const size_t first = impl_->grouping.groups[g].first;
    effect.finding_bytes_per_device +=
        count * (outcome->bytes[g] - before.of(first).bytes_per_device);
  }
  return effect;
}

bool WhatIf::can_all_go(std::span<const Diagnostic* const> findings) {
  const Plan& plan = impl_->planned.plan;
  std::set<int> removed;
  for (const Diagnostic* finding : findings) {
    const int rule = finding->subject.rule;
    if (rule < 1) return false;
    const PlanRule& idle = plan.rules[static_cast<size_t>(rule) - 1];
    // What a rule takes from others that decide nothing either is reported of
    // them.
    if (idle.won > 0 || !idle.shadowed_by.empty()) return false;
    removed.insert(rule);
  }
  if (removed.size() != findings.size()) return false;
  // Whether rules are for other names (SP115) is reported of all together,
  // unless one that shards is found and stays.
  bool stays = false;
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    const PlanRule& rule = plan.rules[i];
    stays =
        stays || (rule.won > 0 && !rule.shipped && !names_no_axis(rule.spec) &&
                  !removed.contains(static_cast<int>(i) + 1));
  }
  if (!stays) return false;
  Rematched rematched{without(impl_->rules, removed), {}};
  auto matches =
      rematch(impl_->planned, impl_->grouping, rematched.rules, impl_->work);
  if (!matches) return false;
  rematched.matches = *std::move(matches);
  const auto outcome = impl_->outcome_of(Change{}, rematched);
  if (!outcome || !outcome->is_better ||
      !are_among(outcome->findings, impl_->before)) {
    return false;
  }
  return std::none_of(
      findings.begin(), findings.end(), [&](const Diagnostic* finding) {
        return outcome->findings.contains(error_key(*finding, plan));
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
         std::none_of(names.begin(), names.end(), [&](const std::string& n) {
           return found->second.contains(n);
         });
}

FindingCounts finding_counts(const Diagnostics& diags) {
  return {diags.count(Severity::Error), diags.count(Severity::Warning),
          diags.count(Severity::Note)};
}

}  // namespace shardplan
