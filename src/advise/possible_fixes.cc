// SPDX-License-Identifier: Apache-2.0
// The helpers of all fixes; and fixes for dimensions that their axes do not
// divide: another axis size, padding, or another dimension for the axes.
#include "advise/possible_fixes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "advise/name_pattern.h"
#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/findings.h"
#include "resolve/correct.h"

namespace shardplan {
namespace {

// Returns whether no rule of the user's own is next to the place of a new rule.
bool is_of_shipped_set(const RuleSet& rules, int rule) {
  const Rule& next = nth(rules.rules, rule - 1);
  return next.shipped && next.form == nullptr &&
         (rule == 1 || nth(rules.rules, rule - 2).shipped);
}

// Returns "" if the file that has to contain the rules cannot express them.
std::string added_text(const Planned& planned, const RuleChange& change) {
  const RuleForm* form = form_at(planned.rules, change.rule);
  const bool is_unordered = form != nullptr && !form->unordered.empty();
  std::string text = is_unordered ? "add " : "put ";
  for (size_t i = 0; i < change.added.size(); ++i) {
    const NewRule& rule = change.added[i];
    if (i > 0) text += i + 1 == change.added.size() ? " and " : ", ";
    std::optional<std::string> written;
    if (form == nullptr) {
      written = rule_source(rule.pattern, rule.spec, false);
    } else if (form->rule != nullptr) {
      written = form->rule(planned.rules, {rule.pattern, rule.spec, rule.names,
                                           planned.plan.mesh});
    }
    if (!written) return "";
    text += "`" + *written + "`";
  }
  if (is_unordered) return text + " to " + std::string(form->unordered);
  if (change.rule > std::ssize(planned.rules.rules)) {
    return text + " after the last rule";
  }
  if (!is_of_shipped_set(planned.rules, change.rule)) {
    return text + " before " + rule_text(planned.plan, change.rule);
  }
  const std::string& file = nth(planned.plan.rules, change.rule - 1).file;
  const size_t begin = file.rfind('/') + 1;  // npos + 1 is 0
  return text + " in your own rules file, given before `@" +
         file.substr(begin, file.rfind('.') - begin) + "`";
}

std::string text_of(const Planned& planned, const RuleChange& change) {
  switch (change.kind) {
    case RuleChange::Kind::SetSpec:
      return "write `" + spec_source(change.spec, false) + "` as the spec of " +
             rule_text(planned.plan, change.rule);
    case RuleChange::Kind::SetPattern:
      return "write " + in_backticks(change.pattern) + " as the pattern of " +
             rule_text(planned.plan, change.rule);
    case RuleChange::Kind::Remove:
      return "remove " + rule_text(planned.plan, change.rule);
    case RuleChange::Kind::Move:
      return "move rule " + std::to_string(change.rule) + " above rule " +
             std::to_string(change.before);
    default:
      return added_text(planned, change);
  }
}

// Advances to the next way of putting several things into one of `choices`
// places each. Returns false after the last one.
bool next_choice(std::vector<size_t>& chosen, size_t choices) {
  for (size_t& choice : chosen) {
    if (++choice < choices) return true;
    choice = 0;
  }
  return false;
}

// Sizes of an axis are searched up to the number of devices, or this if larger.
constexpr int64_t kLeastLimit = 64;

// Proposes, for each axis, the `tried` nearest smaller and larger sizes that
// divide the dimension. If a unit is split, sizes that split none are among its
// divisors; the trial determines which.
void add_axis_sizes(const Found& found, int64_t size, const AxisNames& axes,
                    size_t tried, PossibleFixes& all) {
  const Mesh& mesh = found.planned.plan.mesh;
  for (const AxisName& axis : axes) {
    const int64_t now = mesh.size_of(axis);
    const int64_t others = shard_count(mesh, axes) / now;
    if (others == 0 || size % others != 0) continue;
    const std::vector<int64_t> legal =
        common_divisors(size / others, size / others,
                        std::max<int64_t>(mesh.devices(), kLeastLimit));
    std::vector<int64_t> near;
    const auto above = std::ranges::upper_bound(legal, now);
    for (auto it = above; it != legal.end() && near.size() < tried; ++it) {
      near.push_back(*it);
    }
    auto below = std::ranges::lower_bound(legal, now);
    for (size_t i = 0; i < tried && below != legal.begin(); ++i) {
      near.push_back(*--below);
    }
    for (const int64_t other : near) {
      PossibleFix possible;
      possible.tier = 1;
      possible.change.mesh = resized(mesh, {axis, other});
      if (!possible.change.mesh) continue;
      possible.fix.kind = FixKind::AxisSize;
      possible.fix.axis = axis;
      possible.fix.size = other;
      possible.fix.text = "use `" + axis + "=" + std::to_string(other) + "`";
      for (const MeshView& view : possible.change.mesh->views()) {
        // Another axis of the view compensates for this one.
        if (contains(mesh.views(), view)) continue;
        possible.fix.text =
            "use `--view " + view.name + ":" + axes_text(view.axes) + "`";
      }
      all.push_back(std::move(possible));
    }
  }
}

void add_padding(const Found& found, std::span<const uint32_t> parameters,
                 int dim, int64_t size, std::string_view remark,
                 PossibleFixes& all) {
  PossibleFix possible;
  possible.change.padding =
      Padding{{parameters.begin(), parameters.end()}, dim, size};
  possible.fix.kind = FixKind::PadDimension;
  possible.fix.dim = dim;
  possible.fix.size = size;
  std::string of;
  if (found.diagnostic.code == Code::ShardingLost) {
    possible.fix.parameters = names_of(found.planned.manifest, parameters);
    of = " of " + names_text(possible.fix.parameters);
  }
  possible.fix.text = "pad dimension " + std::to_string(dim) + of + " to " +
                      std::to_string(size) + std::string(remark);
  all.push_back(std::move(possible));
}

// Proposes padding to the smallest size that the shards divide, and to the
// smallest that 128 divides as well, which suits matrix units and is Megatron's
// padding of vocabularies.
void add_paddings(const Found& found, std::span<const uint32_t> parameters,
                  int dim, int64_t size, int64_t shards, PossibleFixes& all) {
  constexpr int64_t kTile = 128;
  const auto smallest = checked_mul(ceil_div(size, shards), shards);
  if (!smallest) return;
  add_padding(found, parameters, dim, *smallest, "", all);
  const auto step = checked_mul(shards / std::gcd(shards, kTile), kTile);
  const auto tiled = step ? checked_mul(ceil_div(size, *step), *step) : step;
  if (tiled && tiled != smallest) {
    add_padding(found, parameters, dim, *tiled, " (a multiple of 128)", all);
  }
}

AxisNames known_axes(const Mesh& mesh, const PartitionSpec& spec, int dim) {
  if (dim < 0 || dim >= std::ssize(spec.dims)) return {};
  AxisNames axes = nth(spec.dims, dim);
  erase_if(axes, [&](const AxisName& a) { return !mesh.find(a); });
  return axes;
}

// Proposes the axes of one dimension on other dimensions, and finally on none.
void add_other_dimensions(const Found& found,
                          std::span<const uint32_t> parameters, int dim,
                          const AxisNames& axes, PossibleFixes& all) {
  const Placement& placement = found.planned.plan.of(parameters.front());
  if (!asks_by_axes(placement)) return;
  PartitionSpec base = *placement.requested;
  base.dims.resize(std::min(base.dims.size(), placement.type.shape.size()));
  nth(base.dims, dim).clear();
  AxisNames larger = axes;
  erase_if(larger, [&](const AxisName& axis) {
    return found.planned.plan.mesh.size_of(axis) == 1;
  });
  for (const PartitionSpec& spec :
       spread(found.planned, placement, base, larger)) {
    add_respec(found, placement.rule, parameters, spec, 0, all);
  }
  add_respec(found, placement.rule, parameters, base, 2, all);
}

// Proposes declarations of what a framework may do instead, if they relate to
// the finding.
void add_declarations(const Found& found, PossibleFixes& all) {
  const bool cuts_unit = found.diagnostic.code == Code::SplitUnit;
  const Declarations& now = found.planned.resolving.declarations;
  const std::vector<std::string> texts =
      cuts_unit
          ? std::vector<std::string>{"replicate-kv-heads", "interleave-gate-up",
                                     "interleave-qkv"}
          : std::vector<std::string>{"pad-vocab=128"};
  for (const std::string& text : texts) {
    Declarations then = now;
    if ((!cuts_unit && now.pad_vocab != 0) || !add_declaration(text, then) ||
        then == now) {
      continue;
    }
    PossibleFix possible;
    possible.tier = 1;
    possible.change.declared = then;
    possible.fix.kind = FixKind::Declare;
    possible.fix.declaration = text;
    possible.fix.text = "`--declare " + text + "`";
    all.push_back(std::move(possible));
  }
}

// Proposes other orders of a dimension's axes: `prefix` retains the first ones.
void add_orders(const Found& found, std::span<const uint32_t> parameters,
                int dim, AxisNames axes, PossibleFixes& all) {
  constexpr size_t kMaxAxes = 3;
  const Plan& plan = found.planned.plan;
  if (plan.on_indivisible != OnIndivisible::Prefix || axes.size() < 2 ||
      axes.size() > kMaxAxes) {
    return;
  }
  const Placement& placement = plan.of(parameters.front());
  if (!asks_by_axes(placement)) return;
  PartitionSpec spec = *placement.requested;
  std::ranges::sort(axes);
  do {
    AxisNames& now = nth(spec.dims, dim);
    if (axes == now) continue;
    now = axes;
    add_respec(found, placement.rule, parameters, spec, 0, all);
  } while (std::next_permutation(axes.begin(), axes.end()));
}

}  // namespace

void add_rule_change(const Found& found, RuleChange change, int tier,
                     PossibleFixes& all) {
  PossibleFix possible;
  possible.tier = tier;
  possible.fix.kind = FixKind::RuleEdit;
  possible.fix.text = text_of(found.planned, change);
  if (possible.fix.text.empty()) return;
  possible.change.rules.push_back(std::move(change));
  all.push_back(std::move(possible));
}

void add_spec_change(const Found& found, int rule, const PartitionSpec& spec,
                     int tier, PossibleFixes& all) {
  if (!found.is_editable(rule)) return;
  RuleChange change;
  change.rule = rule;
  change.spec = spec;
  add_rule_change(found, std::move(change), tier, all);
}

void add_pattern_change(const Found& found, int rule, std::string pattern,
                        PossibleFixes& all) {
  if (!found.is_editable(rule)) return;
  RuleChange change;
  change.kind = RuleChange::Kind::SetPattern;
  change.rule = rule;
  change.pattern = std::move(pattern);
  add_rule_change(found, std::move(change), 0, all);
}

bool asks_by_axes(const Placement& placement) {
  return placement.rule > 0 && placement.requested && !placement.resolved;
}

void add_respec(const Found& found, int rule,
                std::span<const uint32_t> parameters, const PartitionSpec& spec,
                int tier, PossibleFixes& all) {
  if (rule == 0) return;  // the size or logical axes decide
  const Planned& planned = found.planned;
  const bool others = found.rule(rule).decided != std::ssize(parameters);
  RuleChange added;
  added.kind = RuleChange::Kind::Insert;
  added.rule = insertion_place(planned.rules, rule);
  const auto pattern = others || !found.is_editable(rule)
                           ? pattern_before(found, parameters, added.rule)
                           : std::nullopt;
  if (pattern) {
    added.added = {
        {*pattern, spec, folded_names_of(found, parameters, added.rule)}};
    add_rule_change(found, std::move(added), tier, all);
  }
  add_spec_change(found, rule, spec, tier, all);
}

std::vector<std::string> folded_names_of(const Found& found,
                                         std::span<const uint32_t> parameters,
                                         int place) {
  if (form_at(found.planned.rules, place) == nullptr) return {};
  const Folding& folding = found.planned.folding;
  std::set<std::string> names;
  for (const uint32_t number : classes_of(found, parameters)) {
    names.insert(folding.folded_names[folding.classes[number].folded]);
  }
  return {names.begin(), names.end()};
}

std::vector<uint32_t> classes_of(const Found& found,
                                 std::span<const uint32_t> parameters) {
  const Folding& folding = found.planned.folding;
  std::vector<uint32_t> classes;
  std::vector<bool> is_there(folding.classes.size());
  for (const uint32_t i : parameters) is_there[folding.class_of[i]] = true;
  for (uint32_t number = 0; number < is_there.size(); ++number) {
    if (is_there[number]) classes.push_back(number);
  }
  return classes;
}

std::optional<std::string> pattern_before(const Found& found,
                                          std::span<const uint32_t> parameters,
                                          int before) {
  const Planned& planned = found.planned;
  const Folding& folding = planned.folding;
  found.work += std::ssize(parameters) + std::ssize(folding.classes);
  const std::vector<uint32_t> classes = classes_of(found, parameters);
  std::set<std::string_view> targets;
  for (const uint32_t number : classes) {
    targets.insert(folding.folded_names[folding.classes[number].folded]);
  }
  std::vector<std::string_view> others;
  for (uint32_t i = 0; i < folding.classes.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    const Placement& placement = planned.plan.placements[c.kind];
    const bool taken = placement.rule > 0 && placement.rule < before;
    const bool never = planned.plan.strict && placement.type.shape.empty();
    const bool own = std::ranges::binary_search(classes, i);
    if (taken || never || own) continue;
    const std::string_view name = folding.folded_names[c.folded];
    if (targets.contains(name)) return std::nullopt;
    others.push_back(name);
  }
  return pattern_for(
      std::vector<std::string_view>(targets.begin(), targets.end()), others);
}

AxisNames free_axes(const Plan& plan, const Placement& placement,
                    const PartitionSpec& spec) {
  AxisNames used = axes_in(spec);
  if (placement.dealt) used.push_back(placement.dealt->axis);
  AxisNames free;
  for (const Axis& axis : plan.mesh.axes_of(requested_view(plan, placement))) {
    if (axis.size > 1 && !contains(used, axis.name)) free.push_back(axis.name);
  }
  return free;
}

std::vector<PartitionSpec> spread(const Planned& planned,
                                  const Placement& placement,
                                  const PartitionSpec& base,
                                  const AxisNames& free) {
  constexpr size_t kMaxFree = 4;  // axes; 5 dimensions give 1,296 ways
  constexpr size_t kMaxRank = 5;
  constexpr size_t kKept = 4;
  const size_t rank = placement.type.shape.size();
  if (free.empty() || free.size() > kMaxFree || rank > kMaxRank) return {};
  const Plan& plan = planned.plan;
  Placement way = placement;
  AxisNames taken;
  if (placement.dealt) taken.push_back(placement.dealt->axis);
  const std::string_view view = requested_view(plan, placement);
  way.spec = correct(base, way.type.shape, plan.mesh, plan.declared_axes,
                     plan.on_indivisible, taken, view)
                 .spec;
  measure(way, plan.mesh, plan.on_indivisible);
  const int64_t most = way.bytes_per_device;

  using Way = std::pair<int64_t, PartitionSpec>;
  std::vector<Way> ways;
  std::vector<size_t> chosen(free.size(), 0);  // a dimension; `rank` for none
  do {
    PartitionSpec spec = base;
    spec.dims.resize(rank);
    for (size_t i = 0; i < free.size(); ++i) {
      if (chosen[i] < rank) spec.dims[chosen[i]].push_back(free[i]);
    }
    CorrectedSpec legal =
        correct(spec, way.type.shape, plan.mesh, plan.declared_axes,
                OnIndivisible::Drop, taken, view);
    if (!legal.corrections.empty()) continue;
    way.spec = std::move(legal.spec);
    measure(way, plan.mesh, plan.on_indivisible);
    if (way.bytes_per_device < most) {
      ways.emplace_back(way.bytes_per_device, std::move(spec));
    }
  } while (next_choice(chosen, rank + 1));
  std::ranges::stable_sort(ways, {}, &Way::first);
  std::vector<PartitionSpec> specs;
  for (size_t i = 0; i < std::min(kKept, ways.size()); ++i) {
    specs.push_back(std::move(ways[i].second));
  }
  return specs;
}

PossibleFixes possible_fixes_for(const Found& found) {
  PossibleFixes all;
  const int rule = found.diagnostic.subject.rule;
  // Candidates are copies of the rule's spec.
  if (rule > 0) found.work += std::ssize(found.rule(rule).spec.dims);
  switch (found.diagnostic.code) {
    case Code::IndivisibleDimension:
    case Code::SplitUnit:
    case Code::UnevenShards:
      add_size_fixes(found, all);
      break;
    case Code::ShardingLost:
      add_loss_fixes(found, all);
      break;
    case Code::SpecLongerThanRank:
    case Code::UnknownAxis:
    case Code::RepeatedAxis:
    case Code::UnusedAxis:
    case Code::UnmentionedAxis:
    case Code::LargeReplicatedParameter:
      add_spec_fixes(found, all);
      break;
    default:
      add_rule_fixes(found, all);
  }
  return all;
}

void add_size_fixes(const Found& found, PossibleFixes& all) {
  if (found.parameters.empty() || !found.placement().requested) return;
  const Placement& placement = found.placement();
  const Mesh& mesh = found.planned.plan.mesh;
  const int dim = found.diagnostic.subject.dim;
  const AxisNames axes = known_axes(mesh, placement.requested_spec(), dim);
  if (axes.empty()) return;
  const int64_t size = nth(placement.type.shape, dim);
  const bool cuts_unit = found.diagnostic.code == Code::SplitUnit;
  add_other_dimensions(found, found.parameters, dim, axes, all);
  if (!cuts_unit) {
    add_paddings(found, found.parameters, dim, size, shard_count(mesh, axes),
                 all);
  }
  add_declarations(found, all);
  // A divisor of the dimension may still split a unit, so more of them are
  // tried.
  add_axis_sizes(found, size, axes, cuts_unit ? 3 : 1, all);
}

void add_loss_fixes(const Found& found, PossibleFixes& all) {
  constexpr size_t kLosses = 3;
  const Planned& planned = found.planned;
  using Loss = std::pair<int64_t, uint32_t>;  // bytes, placement
  std::vector<Loss> losses;
  found.work += std::ssize(planned.plan.placement_of);
  const Members members(planned.plan.placement_of,
                        planned.plan.placements.size());
  for (uint32_t i = 0; i < planned.plan.placements.size(); ++i) {
    const Placement& placement = planned.plan.placements[i];
    const int64_t extra = (placement.bytes_per_device -
                           requested_bytes(planned.plan, placement)) *
                          most_held(placement.dealt, std::ssize(members.of(i)));
    if (extra > 0) losses.emplace_back(extra, i);
  }
  std::ranges::stable_sort(losses, std::ranges::greater(), &Loss::first);
  for (size_t i = 0; i < std::min(kLosses, losses.size()); ++i) {
    const Placement& placement = planned.plan.placements[losses[i].second];
    for (const Correction& correction : placement.corrections) {
      if (correction.code != Code::IndivisibleDimension) continue;
      const AxisNames axes = known_axes(
          planned.plan.mesh, placement.requested_spec(), correction.dim);
      const int64_t size = nth(placement.type.shape, correction.dim);
      const std::span<const uint32_t> of = members.of(losses[i].second);
      add_other_dimensions(found, of, correction.dim, axes, all);
      add_paddings(found, of, correction.dim, size,
                   shard_count(planned.plan.mesh, axes), all);
      add_orders(found, of, correction.dim, axes, all);
      add_axis_sizes(found, size, axes, 1, all);
    }
  }
}

}  // namespace shardplan
