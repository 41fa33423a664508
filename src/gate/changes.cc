// SPDX-License-Identifier: Apache-2.0
// Compares the two sides of a target: placements with what changed them, memory
// and findings.
#include "gate/changes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "gate/spec_changes.h"
#include "gate/time_changes.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

// A parameter on both sides, or on one.
struct Pair {
  std::optional<size_t> before;
  std::optional<size_t> after;
};

// Returns the parameters that differ: in the order of the first side, then
// those that the second side adds.
std::vector<Pair> different(const Session& before, const Session& after) {
  const Manifest& a = before.model.manifest;
  const Manifest& b = after.model.manifest;
  std::vector<Pair> pairs;
  const auto compare = [&](size_t i, size_t k) {
    const Placement& was = before.plan.of(i);
    const Placement& is = after.plan.of(k);
    if (was.type != is.type || was.spec != is.spec || was.dealt != is.dealt ||
        was.bytes_per_device != is.bytes_per_device) {
      pairs.push_back({i, k});
    }
  };
  bool same_names = a.size() == b.size();
  for (size_t i = 0; same_names && i < a.size(); ++i) {
    same_names = a.name(i) == b.name(i);
  }
  if (same_names) {
    for (size_t i = 0; i < a.size(); ++i) compare(i, i);
    return pairs;
  }
  std::unordered_map<std::string_view, size_t> in_b;
  for (size_t i = 0; i < b.size(); ++i) in_b[b.name(i)] = i;
  std::vector<bool> known(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto found = in_b.find(a.name(i));
    if (found == in_b.end()) {
      pairs.push_back({i, std::nullopt});
      continue;
    }
    known[found->second] = true;
    compare(i, found->second);
  }
  for (size_t i = 0; i < b.size(); ++i) {
    if (!known[i]) pairs.push_back({std::nullopt, i});
  }
  return pairs;
}

// Returns the axes that shard it or place it whole.
AxisNames axes_of(const Placement& placement) {
  AxisNames axes = axes_in(placement.spec);
  if (placement.dealt) axes.push_back(placement.dealt->axis);
  return axes;
}

ChangeLine line_of(Span where, bool before) {
  if (!where) return {};
  return {where.file->name(), where.file->position(where.begin).line, before,
          where};
}

// Returns the line of the rule that decided a placement.
ChangeLine rule_line(const Session& session, const Placement& placement,
                     bool before) {
  const PlanRule* rule = rule_of(session, placement);
  if (rule == nullptr) return {};
  return {rule->file, rule->line, before,
          session.rules ? nth(session.rules->rules, placement.rule - 1).where
                        : Span()};
}

// Returns the logical axis rule that placed a dimension; null if none did.
const LogicalRule* logical_rule(const Session& session,
                                const Placement& placement, size_t dim) {
  if (!session.rules || dim >= placement.logical_rules.size()) return nullptr;
  const int rule = placement.logical_rules[dim];
  if (rule == 0) return nullptr;
  return &nth(session.rules->logical_rules, rule - 1);
}

std::string rule_text(const Placement& placement, const PlanRule& rule) {
  return "rule " + std::to_string(placement.rule) + " `" + rule.pattern + "`";
}

// Returns the name of dimension `dim` in the parameter or its rule.
std::string label_of(const Placement& placement, size_t dim) {
  if (!placement.requested || dim >= placement.requested->dims.size())
    return "";
  const AxisNames& names = placement.requested->dims[dim];
  return names.size() == 1 ? names[0] : "";
}

// Blames a label that now maps to other axes, if that is what changed.
bool blame_label(const Session& before, const Placement& a,
                 const Session& after, const Placement& b, GateChange& change) {
  const size_t dims = std::max(a.spec.dims.size(), b.spec.dims.size());
  for (size_t dim = 0; dim < dims; ++dim) {
    const AxisNames was = axes_at(a.spec, dim);
    const AxisNames is = axes_at(b.spec, dim);
    const std::string label = label_of(b, dim);
    if (was == is || label.empty() || label != label_of(a, dim)) continue;
    const LogicalRule* now = logical_rule(after, b, dim);
    const LogicalRule* then = logical_rule(before, a, dim);
    if (now == nullptr && then == nullptr) continue;
    change.line = now != nullptr ? line_of(now->where, false)
                                 : line_of(then->where, true);
    change.text =
        "`" + label + "` was " + axes_text(was) + ", now " + axes_text(is);
    return true;
  }
  return false;
}

// Returns "placed whole over ep=8, 128 experts".
std::string dealt_text(const Placement& placement) {
  if (!placement.dealt) return "not placed whole";
  const ExpertPlacement& dealt = *placement.dealt;
  return "placed whole over " + dealt.axis + "=" + std::to_string(dealt.size) +
         ", " + plural(dealt.experts, "expert");
}

// Describes the change of the mesh or view that the placement is in.
std::string mesh_change_text(const Session& before, const Placement& a,
                             const Session& after, const Placement& b) {
  const std::string was = axes_text(before.plan.mesh.axes_of(a.view));
  const std::string is = axes_text(after.plan.mesh.axes_of(b.view));
  const auto name = [](const Placement& placement) {
    return placement.view.empty() ? std::string("the mesh")
                                  : "view `" + placement.view + "`";
  };
  if (a.view == b.view) {
    return was == is ? "" : name(a) + " was " + was + ", now " + is;
  }
  return "it moved from " + name(a) + " (" + was + ") to " + name(b) + " (" +
         is + ")";
}

// Sets the line that caused the change, and the reason.
void blame(const Session& before, const Placement& a, const Session& after,
           const Placement& b, GateChange& change) {
  const PlanRule* was = rule_of(before, a);
  const PlanRule* is = rule_of(after, b);
  const bool same_words =
      a.requested == b.requested && (was == nullptr) == (is == nullptr) &&
      (was == nullptr ||
       (was->pattern == is->pattern && was->deal == is->deal));
  change.line =
      is != nullptr ? rule_line(after, b, false) : rule_line(before, a, true);
  if (a.type != b.type) {
    change.text = "it was " + type_text(a.type) + ", now " + type_text(b.type);
    return;
  }
  if (same_words) {
    if (blame_label(before, a, after, b, change)) return;
    change.text = mesh_change_text(before, a, after, b);
    if (change.text.empty() && a.dealt != b.dealt) {
      change.text = "it was " + dealt_text(a) + ", now " + dealt_text(b);
    }
    return;
  }
  if (is == nullptr && was == nullptr) {
    change.text = b.requested
                      ? "its axes " + spec_text(*b.requested) + " now place it"
                  : names_no_axis(b.spec) ? "no rule places it any more"
                                          : "it is now placed by its size";
    if (a.requested) {
      change.text += "; before, its axes " + spec_text(*a.requested) + " did";
    }
  } else if (is == nullptr) {
    change.text = "no rule matches it any more; " + rule_text(a, *was) + " did";
  } else if (was == nullptr) {
    change.text = rule_text(b, *is) + " now matches it";
  } else if (was->pattern != is->pattern) {
    change.text = rule_text(b, *is) + " takes over from " + rule_text(a, *was);
  } else {
    const auto says = [](const Placement& placement, const PlanRule& rule) {
      return spec_text(*placement.requested) +
             (rule.deal.empty() ? "" : " placed whole over " + rule.deal);
    };
    change.text = rule_text(b, *is) + " now says " + says(b, *is) +
                  ", before " + says(a, *was);
  }
}

// Returns the bytes of some parameters on the stage and the expert rank that
// have the most of them. REQUIRES: they are placed alike, except for ranks.
int64_t held_bytes(const Session& side, const std::vector<size_t>& parameters) {
  const ParameterStages* stages = side.lint_how.stages.get();
  constexpr int32_t kAll = -1;                          // stages
  std::map<std::pair<int64_t, int32_t>, int64_t> held;  // rank, stage -> bytes
  for (const size_t i : parameters) {
    const Placement& p = side.plan.of(i);
    const int64_t rank =
        p.dealt ? rank_of(*p.dealt, side.model.manifest.name(i)) : 0;
    if (stages == nullptr || stages->is_on_all(i)) {
      held[{rank, kAll}] += p.bytes_per_device;
      continue;
    }
    const ParameterStages::StagePair& on = stages->of[i];
    held[{rank, on.first}] += p.bytes_per_device;
    if (on.second >= 0) held[{rank, on.second}] += p.bytes_per_device;
  }
  int64_t most = 0;
  for (const auto& [at, bytes] : held) {
    const auto on_all = held.find({at.first, kAll});
    const bool is_staged = at.second != kAll && on_all != held.end();
    most = std::max(most, bytes + (is_staged ? on_all->second : 0));
  }
  return most;
}

GateChange placement_change(const Session& before, const Session& after,
                            const std::vector<Pair>& pairs,
                            std::span<const uint32_t> members,
                            std::string label) {
  const Pair& pair = pairs[members.front()];
  GateChange change = {.kind = GateKind::Placement,
                       .what = std::move(label),
                       .parameters = std::ssize(members)};
  const Placement* a = pair.before ? &before.plan.of(*pair.before) : nullptr;
  const Placement* b = pair.after ? &after.plan.of(*pair.after) : nullptr;
  std::vector<size_t> was;
  std::vector<size_t> is;
  for (const uint32_t member : members) {
    if (pairs[member].before) was.push_back(*pairs[member].before);
    if (pairs[member].after) is.push_back(*pairs[member].after);
  }
  change.bytes_per_device = held_bytes(after, is) - held_bytes(before, was);
  if (a != nullptr) change.before = a->spec;
  if (b != nullptr) change.after = b->spec;
  if (a == nullptr) {
    change.line = rule_line(after, *b, false);
    change.text = "new in the model";
  } else if (b == nullptr) {
    change.line = rule_line(before, *a, true);
    change.text = "no longer in the model";
  } else {
    change.lost = without(axes_of(*a), axes_of(*b));
    change.gained = without(axes_of(*b), axes_of(*a));
    blame(before, *a, after, *b, change);
  }
  return change;
}

std::vector<GateChange> placement_changes(const Session& before,
                                          const Session& after) {
  const std::vector<Pair> pairs = different(before, after);
  const NameOf name = [&](size_t i) {
    return pairs[i].before ? before.model.manifest.name(*pairs[i].before)
                           : after.model.manifest.name(*pairs[i].after);
  };
  std::map<std::pair<int64_t, int64_t>, uint32_t> numbers;
  std::vector<uint32_t> kinds;
  const auto number = [](const Session& side, std::optional<size_t> index) {
    return index ? int64_t{side.plan.placement_of[*index]} : int64_t{-1};
  };
  for (const Pair& pair : pairs) {
    const std::pair kind(number(before, pair.before),
                         number(after, pair.after));
    const auto next = static_cast<uint32_t>(numbers.size());
    kinds.push_back(numbers.emplace(kind, next).first->second);
  }
  const Folding folding = fold(kinds, name);
  std::vector<std::string> labels = class_labels(folding, name);
  std::vector<GateChange> changes;
  const Members members(folding.class_of, folding.classes.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    changes.push_back(placement_change(before, after, pairs, members.of(i),
                                       std::move(labels[i])));
  }
  sort_largest_first(changes);
  return changes;
}

// The quantity to compare, which both sides must request. A step or a state
// that only one side requests is not a growth over the other side.
enum class Compared : uint8_t { Parameters, Stored, Step };

Compared asked_by(const TargetSide& side) {
  if (side.step != nullptr) return Compared::Step;
  const bool stored = side.budget != nullptr && !side.budget->classes.empty();
  return stored ? Compared::Stored : Compared::Parameters;
}

// Returns the bytes of a side by category, the total last.
std::vector<BracketRow> categories_of(const TargetSide& side,
                                      Compared compared) {
  std::vector<BracketRow> rows;
  BracketRow total{"total", "total", {}};
  const auto add = [&](BracketRow row) {
    for (size_t end = 0; end < kSavingModes; ++end) {
      total.bytes[end] += row.bytes[end];
    }
    rows.push_back(std::move(row));
  };
  if (compared == Compared::Step) {
    for (const BracketRow& row : side.step->rows) add(row);
  } else {
    CategoryBytes stored{};
    if (compared == Compared::Stored) {
      stored = side.budget->classes.front().bytes;
    } else {
      nth(stored, Category::Parameters) = side.session.memory.max;
    }
    for (size_t i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      add({std::string(category_name(category)),
           std::string(category_title(category)),
           {stored[i], stored[i], stored[i]}});
    }
  }
  rows.push_back(std::move(total));
  return rows;
}

int64_t fullest(const TargetSide& side, Compared compared) {
  return categories_of(side, compared).back().bytes[1];
}

std::string grown_text(const std::vector<CategoryChange>& categories) {
  std::vector<std::pair<int64_t, std::string_view>> grown;
  bool is_parameters = true;
  for (const CategoryChange& each : categories) {
    const int64_t by = each.after[1] - each.before[1];
    if (each.category == "total" || by == 0) continue;
    grown.emplace_back(by, each.title);
    is_parameters = is_parameters && each.category == "parameters";
  }
  // The line itself already covers parameters.
  if (is_parameters) return "";
  return largest_text(std::move(grown),
                      [](int64_t bytes) { return bytes_text(bytes); });
}

// Returns the bytes of parameters that neither an axis nor a pipeline shards.
int64_t replicated_bytes(const Session& session) {
  const Plan& plan = session.plan;
  const StagedCounts counts = staged_counts(
      plan.placement_of, plan.placements.size(), session.lint_how.stages.get());
  int64_t bytes = 0;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& placement = plan.placements[i];
    if (placement.shards > 1) continue;
    bytes += placement.bytes_per_device * counts.everywhere(i);
  }
  return bytes;
}

void add_memory(const TargetSide& before, const TargetSide& after,
                std::vector<GateChange>& changes) {
  const auto add = [&](const char* what, int64_t was, int64_t is,
                       int64_t of_bytes, std::string text = "") {
    if (was == is) return;
    changes.push_back({.kind = GateKind::Memory,
                       .what = what,
                       .before = ChangeBytes{was},
                       .after = ChangeBytes{is},
                       .text = std::move(text),
                       .bytes_per_device = is - was,
                       .of_bytes = of_bytes});
  };
  const Compared compared = std::min(asked_by(before), asked_by(after));
  const bool steps = compared == Compared::Step;
  const int64_t was = fullest(before, compared);
  const std::string grown = grown_text(category_changes(before, after));
  add("fullest device", was, fullest(after, compared), was,
      steps && !grown.empty()
          ? "at the peak of a training step, estimated: " + grown
          : grown);
  if (steps) {
    add("fullest device, at least", before.step->lower(), after.step->lower(),
        before.step->lower());
    add("fullest device, at most", before.step->upper(), after.step->upper(),
        before.step->upper());
  }
  add("replicated parameters", replicated_bytes(before.session),
      replicated_bytes(after.session),
      after.session.model.manifest.total_bytes());
  if (before.kv_tokens != after.kv_tokens) {
    GateChange& change = changes.emplace_back();
    change.kind = GateKind::Memory;
    change.what = "KV cache tokens";
    if (before.kv_tokens) change.before = *before.kv_tokens;
    if (after.kv_tokens) change.after = *after.kv_tokens;
  }
}

// The findings of one key, over the names that they are about.
struct Found {
  std::set<std::string> names;  // folded
  int64_t count = 0;
  Severity severity = Severity::Off;
  const Diagnostic* first = nullptr;
};

std::map<std::string, Found> found_in(const Diagnostics& diags) {
  std::map<std::string, Found> found;
  for (const Diagnostic& diagnostic : diags.all()) {
    if (diagnostic.severity < Severity::Warning) continue;
    Found& entry = found[finding_key(diagnostic)];
    for (const std::string& name : diagnostic.parameters) {
      entry.names.insert(folded_name(name));
    }
    entry.count += diagnostic.findings;
    entry.severity = std::max(entry.severity, diagnostic.severity);
    if (entry.first == nullptr) entry.first = &diagnostic;
  }
  return found;
}

GateChange finding_change(const std::string& key, const Found& before,
                          const Found& after) {
  const bool is_gone = after.first == nullptr;
  const Diagnostic& shown = is_gone ? *before.first : *after.first;
  GateChange change = {.kind = GateKind::Finding,
                       .what = code_id(shown.code),
                       .before = before.count,
                       .after = after.count,
                       .text = shown.message,
                       .key = key};
  if (const Label* label = main_label(shown)) {
    change.line = line_of(label->where, is_gone);
  }
  const bool has_new_names = !std::ranges::includes(before.names, after.names);
  const bool is_graver = after.severity > before.severity;
  if (!is_gone && (has_new_names || is_graver || before.first == nullptr)) {
    change.severity = after.severity;
  }
  return change;
}

}  // namespace

int64_t rank_of(const ExpertPlacement& dealt, std::string_view name) {
  if (dealt.rank >= 0) return dealt.rank;
  return rank_of_expert(dealt, expert_name(name).number.value_or(0));
}

const PlanRule* rule_of(const Session& session, const Placement& placement) {
  return placement.rule == 0 ? nullptr
                             : &nth(session.plan.rules, placement.rule - 1);
}

void sort_largest_first(std::vector<GateChange>& changes) {
  std::ranges::stable_sort(changes, std::ranges::greater(),
                           [](const GateChange& change) {
                             return std::abs(change.bytes_per_device);
                           });
}

std::string_view gate_kind_name(GateKind kind) {
  constexpr std::array<std::string_view, 9> kNames = {
      "rule",       "label", "placement", "memory",  "finding",
      "collective", "time",  "target",    "baseline"};
  return nth(kNames, kind);
}

ChangeLine deciding_line(const Session& session, const Placement& placement,
                         const AxisNames& axes, bool before) {
  if (placement.rule != 0) return rule_line(session, placement, before);
  const LogicalRule* first = nullptr;
  for (size_t dim = 0; dim < placement.logical_rules.size(); ++dim) {
    const LogicalRule* rule = logical_rule(session, placement, dim);
    if (rule == nullptr) continue;
    if (first == nullptr) first = rule;
    if (dim < placement.spec.dims.size() &&
        without(axes, placement.spec.dims[dim]) != axes) {
      return line_of(rule->where, before);
    }
  }
  return first == nullptr ? ChangeLine() : line_of(first->where, before);
}

std::string finding_key(const Diagnostic& diagnostic) {
  std::string key = code_id(diagnostic.code) + " " + diagnostic.subject.axis +
                    " " + std::to_string(diagnostic.subject.dim);
  if (!diagnostic.parameters.empty()) return key;
  return key + " " + stable_subject(diagnostic);
}

std::vector<GateChange> finding_changes(const Diagnostics& before,
                                        const Diagnostics& after) {
  const auto was = found_in(before);
  const auto is = found_in(after);
  std::vector<GateChange> changes;
  for (const auto& [key, found] : is) {
    const auto entry = was.find(key);
    const Found earlier = entry == was.end() ? Found() : entry->second;
    // A finding without parameters or place states its size only in its
    // message.
    const bool same =
        earlier.count == found.count && earlier.names == found.names &&
        earlier.severity == found.severity &&
        (!found.names.empty() || main_label(*found.first) != nullptr ||
         earlier.first->message == found.first->message);
    if (!same) changes.push_back(finding_change(key, earlier, found));
  }
  for (const auto& [key, found] : was) {
    if (!is.contains(key)) changes.push_back(finding_change(key, found, {}));
  }
  std::ranges::stable_sort(changes, std::ranges::greater(),
                           &GateChange::severity);
  return changes;
}

const GateChange* change_of(const std::vector<GateChange>& changes,
                            const Diagnostic& diagnostic) {
  const auto found =
      std::ranges::find(changes, finding_key(diagnostic), &GateChange::key);
  return found == changes.end() ? nullptr : &*found;
}

std::vector<CategoryChange> category_changes(const TargetSide& before,
                                             const TargetSide& after) {
  const Compared compared = std::min(asked_by(before), asked_by(after));
  std::vector<CategoryChange> all;
  const auto of = [&](const BracketRow& row) -> CategoryChange& {
    const auto found =
        std::ranges::find(all, row.category, &CategoryChange::category);
    if (found != all.end()) return *found;
    return all.emplace_back(CategoryChange{row.category, row.title, {}, {}});
  };
  for (const BracketRow& row : categories_of(after, compared)) {
    of(row).after = row.bytes;
  }
  for (const BracketRow& row : categories_of(before, compared)) {
    of(row).before = row.bytes;
  }
  std::erase_if(all, [](const CategoryChange& change) {
    return change.before == change.after;
  });
  std::stable_partition(all.begin(), all.end(), [](const CategoryChange& c) {
    return c.category != "total";
  });
  return all;
}

std::vector<GateChange> target_changes(const std::string& target,
                                       const TargetSide& before,
                                       const TargetSide& after,
                                       std::vector<GateChange> collectives) {
  std::vector<GateChange> changes =
      placement_changes(before.session, after.session);
  add_memory(before, after, changes);
  add_time_changes(before, after, changes);
  std::ranges::move(collectives, std::back_inserter(changes));
  std::ranges::move(finding_changes(before.diags, after.diags),
                    std::back_inserter(changes));
  for (GateChange& change : changes) change.target = target;
  return changes;
}

bool fails_gate(const FailOn& fail_on, const GateChange& change) {
  if (fail_on.any_change) return true;
  switch (change.kind) {
    case GateKind::Finding:
      return (change.severity == Severity::Error && fail_on.new_errors) ||
             (change.severity >= Severity::Warning && fail_on.new_warnings);
    case GateKind::Memory: {
      const auto grown = static_cast<double>(change.bytes_per_device);
      const auto of = static_cast<double>(change.of_bytes);
      if (change.what == "fullest device") {
        return (fail_on.memory && grown > *fail_on.memory * of) ||
               (fail_on.memory_bytes &&
                change.bytes_per_device > *fail_on.memory_bytes);
      }
      return change.what == "replicated parameters" && fail_on.replicated &&
             grown > *fail_on.replicated * of;
    }
    case GateKind::Placement:
    case GateKind::Label:
    case GateKind::Rule:
      return fail_on.lost_axes && !change.lost.empty();
    case GateKind::Time:
      return takes_too_long(fail_on, change);
    case GateKind::Collective:
    case GateKind::Target:
    case GateKind::Baseline:
      break;
  }
  return false;
}

}  // namespace shardplan
