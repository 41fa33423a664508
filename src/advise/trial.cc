// SPDX-License-Identifier: Apache-2.0
#include "advise/trial.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace shardplan {
namespace {

// Parameters for which the same rules are found, and which fold together.
struct Group {
  uint32_t found = 0;            // number of the set of rules found
  uint32_t parameter_class = 0;  // of the folding
  int64_t count = 0;
  bool may_decide = true;
};

// Where every parameter belongs, and which sets of rules there are.
struct Grouping {
  std::vector<std::vector<int>> found;  // 0-based rules, ascending
  std::vector<Group> groups;
  std::vector<uint32_t> group_of;  // per parameter
};

Grouping group(const Planned& planned) {
  Grouping result;
  Diagnostics ignored;
  const auto matcher = Matcher::compile(
      planned.rules, planned.manifest.names_are_plain(), ignored);
  SHARDPLAN_CHECK(matcher);  // the plan was made with it
  std::map<std::vector<int>, uint32_t> sets;
  std::unordered_map<uint64_t, uint32_t> known;
  std::vector<int> found;
  for (size_t i = 0; i < planned.manifest.size(); ++i) {
    matcher->find(planned.manifest.name(i), found);
    const auto [set, is_new_set] =
        sets.try_emplace(found, static_cast<uint32_t>(result.found.size()));
    if (is_new_set) result.found.push_back(found);
    const uint32_t number = planned.folding.class_of[i];
    const auto [entry, is_new] =
        known.try_emplace((uint64_t{set->second} << 32U) | number,
                          static_cast<uint32_t>(result.groups.size()));
    if (is_new) {
      const bool scalar = planned.manifest.type(i).shape.empty();
      result.groups.push_back(
          {set->second, number, 0, !planned.resolving.strict || !scalar});
    }
    ++result.groups[entry->second].count;
    result.group_of.push_back(entry->second);
  }
  return result;
}

// The classes of the folding in which each new pattern is found, as the rules'
// new numbers. Empty when a pattern cannot be compiled.
using FoundByClass = std::vector<std::vector<int>>;
std::optional<FoundByClass> find_new(const Planned& planned,
                                     const ChangedRules& change) {
  FoundByClass result(planned.folding.classes.size());
  RuleSet fresh;
  std::vector<int> numbers;
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] >= 0) continue;
    fresh.rules.push_back(change.rules.rules[i]);
    numbers.push_back(static_cast<int>(i));
  }
  if (fresh.rules.empty()) return result;
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

// What resolve/match.h would say of the changed rules.
std::optional<Matches> rematch(const Planned& planned, const Grouping& grouping,
                               const ChangedRules& change) {
  const std::optional<FoundByClass> added = find_new(planned, change);
  if (!added) return std::nullopt;
  std::vector<int> now(planned.rules.rules.size(), -1);  // old to new numbers
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] < 0) continue;
    now[static_cast<size_t>(change.origin[i])] = static_cast<int>(i);
  }
  Matches matches;
  matches.rules.resize(change.origin.size());
  std::vector<std::vector<bool>> winners(change.origin.size());
  std::vector<int32_t> winner_of(grouping.groups.size(), -1);
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& members = grouping.groups[g];
    std::vector<int> found = (*added)[members.parameter_class];
    for (const int rule : grouping.found[members.found]) {
      if (now[static_cast<size_t>(rule)] >= 0) {
        found.push_back(now[static_cast<size_t>(rule)]);
      }
    }
    for (const int rule : found) {
      matches.rules[static_cast<size_t>(rule)].found += members.count;
    }
    if (found.empty() || !members.may_decide) continue;
    const int winner = *std::min_element(found.begin(), found.end());
    winner_of[g] = winner;
    matches.rules[static_cast<size_t>(winner)].won += members.count;
    for (const int rule : found) {
      if (rule == winner) continue;
      std::vector<bool>& all = winners[static_cast<size_t>(rule)];
      all.resize(change.origin.size());
      all[static_cast<size_t>(winner)] = true;
    }
  }
  for (size_t rule = 0; rule < winners.size(); ++rule) {
    for (size_t other = 0; other < winners[rule].size(); ++other) {
      if (winners[rule][other]) {
        matches.rules[rule].winners.push_back(static_cast<int>(other));
      }
    }
  }
  matches.winner.reserve(grouping.group_of.size());
  for (const uint32_t g : grouping.group_of) {
    matches.winner.push_back(winner_of[g]);
  }
  return matches;
}

// fold(), given how the names fold.
Folding refold(const Folding& folding, const std::vector<uint32_t>& kinds) {
  Folding result;
  result.folded_names = folding.folded_names;
  result.class_of.reserve(kinds.size());
  std::unordered_map<uint64_t, uint32_t> known;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const uint32_t folded = folding.classes[folding.class_of[i]].folded;
    const auto [entry, is_new] =
        known.try_emplace((uint64_t{folded} << 32U) | kinds[i],
                          static_cast<uint32_t>(result.classes.size()));
    if (is_new) result.classes.push_back({folded, kinds[i], i, 0});
    ++result.classes[entry->second].count;
    result.class_of.push_back(entry->second);
  }
  return result;
}

// The model with one dimension of some parameters padded. Empty when that
// exceeds 63 bits.
std::optional<Manifest> padded(const Manifest& manifest,
                               const Padding& padding) {
  Manifest result;
  result.facts = manifest.facts;
  size_t next = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    TensorType type = manifest.type(i);
    if (next < padding.parameters.size() && padding.parameters[next] == i) {
      type.shape[static_cast<size_t>(padding.dim)] = padding.size;
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

}  // namespace

struct Trial::Impl {
  const Planned planned;
  Diagnostics severities;
  FindingCounts counts;
  std::unordered_map<std::string, std::unordered_set<std::string_view>> errors;
  Grouping grouping;
  std::unordered_map<std::string_view, uint32_t> number_of;  // when asked for

  bool brings_new_error(const Diagnostics& diags, const Plan& plan) const {
    for (const Diagnostic& diagnostic : diags.all()) {
      if (diagnostic.severity != Severity::Error) continue;
      const auto before = errors.find(error_key(diagnostic, plan));
      if (before == errors.end()) return true;
      for (const std::string& name : diagnostic.parameters) {
        if (!before->second.contains(name)) return true;
      }
    }
    return false;
  }

  int64_t bytes_of(const Plan& plan, std::span<const uint32_t> some) const {
    int64_t bytes = 0;
    for (const uint32_t i : some) bytes += plan.of(i).bytes_per_device;
    return bytes;
  }
};

Trial::Trial(const Planned& planned,
             std::span<const Diagnostic* const> findings,
             const Diagnostics& severities)
    : impl_(new Impl{planned, severities.fresh(), {}, {}, group(planned), {}}) {
  for (const Diagnostic* finding : findings) {
    FindingCounts& counts = impl_->counts;
    (finding->severity == Severity::Error     ? counts.errors
     : finding->severity == Severity::Warning ? counts.warnings
                                              : counts.notes) +=
        finding->findings;
    if (finding->severity != Severity::Error) continue;
    auto& names = impl_->errors[error_key(*finding, planned.plan)];
    names.insert(finding->parameters.begin(), finding->parameters.end());
  }
}

Trial::~Trial() = default;

std::vector<uint32_t> Trial::parameters_of(const Diagnostic& finding) {
  auto& number_of = impl_->number_of;
  const Manifest& manifest = impl_->planned.manifest;
  if (number_of.empty()) {
    number_of.reserve(manifest.size());
    for (size_t i = 0; i < manifest.size(); ++i) {
      number_of.emplace(manifest.name(i), static_cast<uint32_t>(i));
    }
  }
  std::vector<uint32_t> result;
  for (const std::string& name : finding.parameters) {
    const auto found = number_of.find(name);
    if (found != number_of.end()) result.push_back(found->second);
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::optional<Effect> Trial::effect(const Change& change,
                                    const Diagnostic& finding,
                                    std::span<const uint32_t> parameters) {
  const Planned& p = impl_->planned;
  RuleChange nothing;
  nothing.kind = RuleChange::Kind::Insert;
  const ChangedRules rules =
      changed(p.rules, change.rules ? *change.rules : nothing);
  const auto matches = rematch(p, impl_->grouping, rules);
  const auto mesh = change.axis ? resized(p.plan.mesh, *change.axis)
                                : std::optional<Mesh>(p.plan.mesh);
  std::optional<Manifest> other;
  if (change.padding) other = padded(p.manifest, *change.padding);
  if (!matches || !mesh || (change.padding && !other)) return std::nullopt;
  const Manifest& manifest = other ? *other : p.manifest;

  ResolveOptions how = p.resolving;
  if (change.declared) how.declarations = *change.declared;
  Diagnostics diags = impl_->severities.fresh();
  const std::optional<Plan> made =
      resolve(manifest, rules.rules, *matches, *mesh, how, diags);
  if (!made) return std::nullopt;
  const Plan& plan = *made;
  const Folding folding = refold(p.folding, plan.placement_of);
  const auto memory = device_memory(manifest, plan, diags);
  if (!memory) return std::nullopt;
  lint(make_lint_input(manifest, plan, folding, &rules.rules, *memory,
                       p.linting),
       diags);
  if (finding_counts(diags) >= impl_->counts ||
      !is_gone(finding, p.plan, diags, plan) ||
      impl_->brings_new_error(diags, plan)) {
    return std::nullopt;
  }
  return Effect{
      memory->max - p.memory.max,
      impl_->bytes_of(plan, parameters) - impl_->bytes_of(p.plan, parameters)};
}

bool is_gone(const Diagnostic& finding, const Plan& before,
             const Diagnostics& diags, const Plan& after) {
  const std::string key = error_key(finding, before);
  const std::unordered_set<std::string_view> names(finding.parameters.begin(),
                                                   finding.parameters.end());
  return std::none_of(
      diags.all().begin(), diags.all().end(), [&](const Diagnostic& other) {
        if (other.code != finding.code || error_key(other, after) != key) {
          return false;
        }
        return names.empty() ||
               std::any_of(
                   other.parameters.begin(), other.parameters.end(),
                   [&](const std::string& n) { return names.contains(n); });
      });
}

FindingCounts finding_counts(const Diagnostics& diags) {
  return {diags.count(Severity::Error), diags.count(Severity::Warning),
          diags.count(Severity::Note)};
}

}  // namespace shardplan
