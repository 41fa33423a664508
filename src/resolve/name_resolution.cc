// SPDX-License-Identifier: Apache-2.0
// Places logical axes by their rules, and reads the names of specs.
#include "resolve/name_resolution.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "resolve/correct.h"

namespace shardplan {
namespace {

// In the order of RulesFallback.
constexpr std::array<std::string_view, 3> kFallbacks = {
    "axis_is_unsharded", "raise_error", "no_constraint"};

// Returns repeated labels in the order of their first occurrences.
std::vector<std::string> repeated_labels(const AxisLabels& labels,
                                         FlaxVersion version) {
  std::vector<std::string> repeated;
  for (auto at = labels.begin(); at != labels.end(); ++at) {
    const bool may_repeat =
        !*at || (version == FlaxVersion::Current && **at == kUnconstrained);
    const bool is_first = std::find(labels.begin(), at, *at) == at;
    if (!may_repeat && is_first &&
        std::find(at + 1, labels.end(), *at) != labels.end()) {
      repeated.push_back(**at);
    }
  }
  return repeated;
}

LogicalDim initial_dim(const std::optional<std::string>& label,
                       FlaxVersion version) {
  if (version == FlaxVersion::March2024) return {};
  if (!label) return {true, {}, 0, {}};
  if (*label == kUnconstrained) {
    return {true, {std::string(kUnconstrained)}, 0, {}};
  }
  return {};
}

bool is_free(const AxisNames& axes, const std::vector<LogicalDim>& dims,
             FlaxVersion version) {
  return std::ranges::none_of(axes, [&](const AxisName& axis) {
    // An empty name is None within a tuple.
    if (axis.empty()) return false;
    if (axis == kUnconstrained && version == FlaxVersion::Current) return false;
    return std::ranges::any_of(
        dims, [&](const LogicalDim& dim) { return contains(dim.axes, axis); });
  });
}

bool shares_nothing(const AxisNames& a, const AxisNames& b) {
  return std::ranges::none_of(
      a, [&](const AxisName& axis) { return contains(b, axis); });
}

constexpr std::string_view kMeshPrefix = "mesh";
constexpr std::string_view kLogicalPrefix = "logical";
constexpr std::string_view kEmptyToken = "_";  // eformer's EMPTY

PartitionAxis resolved_defaults() {
  Diagnostics none;
  auto axis = resolve_partition_axis(default_partition_axis(), none);
  SHARDPLAN_CHECK(axis.has_value());
  return *std::move(axis);
}

// Returns "`mlp` uses `tp`": the label that uses an axis of a blocked rule.
std::string blocker_text(const LogicalMapping& mapping,
                         const AxisLabels& labels, const LogicalRule& rule,
                         int number, const LogicalViews& views) {
  if (mapping.view && !views.of.empty()) {
    const auto& view = nth(views.of, number - 1);
    if (view && view != mapping.view) {
      return in_backticks(axes_text(rule.axes)) + " belongs to " +
             named_view(*view) + ", but the array is placed over " +
             named_view(*mapping.view);
    }
  }
  for (const AxisName& axis : rule.axes) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const LogicalDim& other = mapping.dims[i];
      const bool has_it = contains(other.axes, axis);
      if (!has_it || other.rule > number || !labels[i]) continue;
      return in_backticks(*labels[i]) + " uses " + in_backticks(axis);
    }
  }
  return "the spec itself names one of its axes";
}

// Returns why the rules of label `i` did not place it.
std::string unplaced_reason(const LogicalMapping& mapping,
                            const AxisLabels& labels, size_t i,
                            const std::vector<LogicalRule>& rules,
                            const LogicalViews& views) {
  const std::string& label = *labels[i];
  const std::vector<int>& blocked = mapping.dims[i].blocked;
  if (blocked.empty()) return "no logical axis rule names `" + label + "`";
  std::vector<std::string> blockers;
  for (const int number : blocked) {
    std::string text =
        blocker_text(mapping, labels, nth(rules, number - 1), number, views);
    if (!contains(blockers, text)) blockers.push_back(std::move(text));
  }
  return "every rule for `" + label +
         "` names an axis already in use: " + joined(blockers, ", ");
}

// Leaves the whole array unconstrained, as flax's NO_CONSTRAINT does.
void leave_whole(ResolvedNames& names_meant) {
  for (size_t dim = 0; dim < names_meant.spec.dims.size(); ++dim) {
    AxisNames& axes = names_meant.spec.dims[dim];
    if (axes.empty()) continue;
    names_meant.corrections.push_back(
        {static_cast<int>(dim), Code::UnplacedLogicalAxis, std::move(axes),
         "another logical axis is not placed, so the array is left "
         "unconstrained"});
  }
  names_meant.spec.dims.clear();
  names_meant.logical_rules.clear();
}

}  // namespace

std::string_view fallback_name(RulesFallback fallback) {
  return nth(kFallbacks, fallback);
}

std::optional<RulesFallback> find_fallback(std::string_view name) {
  const auto* const found = std::ranges::find(kFallbacks, name);
  if (found == kFallbacks.end()) return std::nullopt;
  return static_cast<RulesFallback>(found - kFallbacks.begin());
}

LogicalIndex::LogicalIndex(std::span<const LogicalRule> rules) {
  for (size_t i = 0; i < rules.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    if (rules[i].name) {
      numbers_[*rules[i].name].push_back(number);
    } else {
      nameless_.push_back(number);
    }
  }
}

std::span<const int> LogicalIndex::of(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return {};
  return found->second;
}

std::set<int> LogicalIndex::of_any(const AxisLabels& labels) const {
  std::set<int> numbers(nameless_.begin(), nameless_.end());
  for (const auto& label : labels) {
    if (!label) continue;
    const std::span<const int> some = of(*label);
    numbers.insert(some.begin(), some.end());
  }
  return numbers;
}

LogicalMapping map_logical_axes(const AxisLabels& labels,
                                std::span<const LogicalRule> rules,
                                FlaxVersion version, LogicalReading reading,
                                const AxisNames& reserved,
                                const LogicalIndex* index,
                                const LogicalViews* views) {
  LogicalMapping mapping;
  if (views != nullptr) mapping.view = views->taken;
  mapping.repeated = repeated_labels(labels, version);
  if (!mapping.repeated.empty()) return mapping;
  for (const auto& label : labels) {
    mapping.dims.push_back(initial_dim(label, version));
  }
  const auto apply = [&](int number) {
    const LogicalRule& rule = nth(rules, number - 1);
    if (rule.inactive) return;
    if (!rule.name && version == FlaxVersion::Current) return;
    const auto found = std::ranges::find(labels, rule.name);
    if (found == labels.end()) return;
    LogicalDim& dim = nth(mapping.dims, found - labels.begin());
    const bool is_mapping = reading == LogicalReading::Mapping;
    if (dim.placed && !is_mapping) return;
    const auto view =
        views == nullptr ? std::nullopt : nth(views->of, number - 1);
    const bool in_view = !view || !mapping.view || view == mapping.view;
    if (is_mapping || (in_view && is_free(rule.axes, mapping.dims, version) &&
                       shares_nothing(rule.axes, reserved))) {
      if (!mapping.view) mapping.view = view;
      dim.placed = true;
      dim.axes = rule.axes;
      dim.rule = number;
    } else {
      dim.blocked.push_back(number);
    }
  };
  if (index == nullptr) {
    for (size_t i = 0; i < rules.size(); ++i) apply(static_cast<int>(i) + 1);
  } else {
    for (const int number : index->of_any(labels)) apply(number);
  }
  return mapping;
}

bool is_placed(const LogicalMapping& mapping) {
  return std::ranges::all_of(mapping.dims, &LogicalDim::placed);
}

PartitionSpec spec_of(const LogicalMapping& mapping) {
  PartitionSpec spec;
  for (const LogicalDim& dim : mapping.dims) spec.dims.push_back(dim.axes);
  return spec;
}

PrefixedName split_prefix(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return {"", name};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

PartitionSpec spec_of_labels(const AxisLabels& labels) {
  PartitionSpec spec;
  for (const auto& label : labels) {
    spec.dims.push_back(label ? AxisNames{*label} : AxisNames());
  }
  return spec;
}

PartitionSpec aligned_to_last(const Rule& rule, size_t rank) {
  PartitionSpec spec = rule.spec;
  const size_t length = spec.dims.size();
  if (length > rank && rule.short_uses_first) {
    spec.dims.resize(rank);
  } else if (length > rank) {
    spec.dims.erase(spec.dims.begin(),
                    spec.dims.end() - static_cast<std::ptrdiff_t>(rank));
  } else {
    spec.dims.insert(spec.dims.begin(), rank - length, AxisNames());
  }
  return spec;
}

Vocabulary::Vocabulary(const RuleSet& rules, const Mesh& mesh,
                       const NameReading& reading)
    : rules_(rules),
      mesh_(mesh),
      reading_(reading),
      axis_(rules.partition_axis ? *rules.partition_axis : resolved_defaults()),
      declared_(rules.declared_axes.begin(), rules.declared_axes.end()),
      logical_(rules.logical_rules) {
  if (mesh.views().empty()) return;
  for (const LogicalRule& rule : rules.logical_rules) {
    views_.of.push_back(rule.view.empty() ? view_of(rule.axes)
                                          : std::optional(rule.view));
  }
}

// A declared axis is an axis of the mesh; only an undeclared axis may be that
// of the view that has it.
std::optional<std::string> Vocabulary::view_of(const AxisNames& axes) const {
  std::optional<std::string> view;
  for (const AxisName& axis : axes) {
    if (mesh_.has({}, axis) || declared_.contains(axis)) return std::string();
    if (mesh_.find(axis)) view = mesh_.view_of({axis});
  }
  return view;
}

const LogicalRule* Vocabulary::dealer() const {
  for (const LogicalRule& rule : rules_.logical_rules) {
    if (rule.deal && !rule.inactive) return &rule;
  }
  return nullptr;
}

NameKind Vocabulary::kind_of(std::string_view name) const {
  const PrefixedName parts = split_prefix(name);
  if (parts.prefix == kMeshPrefix) return NameKind::Mesh;
  if (parts.prefix == kLogicalPrefix) return NameKind::Logical;
  if (name == kUnconstrained || declared_.contains(name) || mesh_.find(name)) {
    return NameKind::Mesh;
  }
  if (name == kEmptyToken || find_semantic_token(name, true)) {
    return NameKind::Semantic;
  }
  return logical_.of(name).empty() ? NameKind::Unknown : NameKind::Logical;
}

bool Vocabulary::is_ambiguous(std::string_view name) const {
  if (kind_of(name) != NameKind::Mesh || !split_prefix(name).prefix.empty()) {
    return false;
  }
  const std::span<const int> numbers = logical_.of(name);
  return !numbers.empty() && std::ranges::none_of(numbers, [&](int number) {
    return nth(rules_.logical_rules, number - 1).axes == AxisNames{name};
  });
}

AxisNames Vocabulary::others() const {
  std::set<AxisName> names;
  for (const Rule& rule : rules_.rules) {
    for (const AxisNames& axes : rule.spec.dims) {
      for (const AxisName& name : axes) {
        if (!is_literal(name)) names.insert(name);
      }
    }
  }
  return {names.begin(), names.end()};
}

AxisNames Vocabulary::mentioned() const {
  std::set<AxisName> names;
  bool is_semantic = rules_.partition_axis.has_value();
  const auto add = [&](const Rule& rule) {
    for (const AxisName& name : axes_in(rule.spec)) {
      const NameKind kind = kind_of(name);
      is_semantic |= kind == NameKind::Semantic && name != kEmptyToken;
      if (kind == NameKind::Mesh) names.emplace(split_prefix(name).name);
    }
  };
  for (const Rule& rule : rules_.rules) add(rule);
  for (const Rule& rule : rules_.activations) add(rule);
  for (const LogicalRule& rule : rules_.logical_rules) {
    names.insert(rule.axes.begin(), rule.axes.end());
  }
  if (rules_.mesh) {
    for (const AxisRequest& axis : *rules_.mesh) names.insert(axis.name);
  }
  if (is_semantic) {
    for (const auto& value : axis_) {
      if (value) names.insert(value->axes.begin(), value->axes.end());
    }
  }
  return {names.begin(), names.end()};
}

bool Vocabulary::is_literal(const AxisName& name) const {
  const NameKind kind = kind_of(name);
  return (kind == NameKind::Mesh || kind == NameKind::Unknown) &&
         split_prefix(name).prefix.empty();
}

bool Vocabulary::is_literal(const PartitionSpec& spec) const {
  return std::ranges::all_of(spec.dims, [&](const AxisNames& axes) {
    return std::ranges::all_of(
        axes, [&](const AxisName& name) { return is_literal(name); });
  });
}

AxisNames Vocabulary::semantic_axes(std::string_view name, Mode mode) const {
  if (name == kEmptyToken) return {};
  const auto field = find_semantic_token(name, true);
  SHARDPLAN_CHECK(field.has_value());
  Diagnostics none;
  const SemanticEntry entry = {{std::string(partition_fields()[*field].token)},
                               EntryKind::One};
  const auto values =
      resolve_entry(axis_, entry, mode, EformerVersion::Current, none);
  SHARDPLAN_CHECK(values && values->size() == 1);
  return values->front().axes;
}

void Vocabulary::place_logical(const AxisLabels& labels,
                               const std::vector<size_t>& dims,
                               const AxisNames& reserved, std::string_view view,
                               ResolvedNames& names_meant) const {
  LogicalViews views = views_;
  if (!view.empty()) {
    views.taken = view;
  } else if (!views.of.empty()) {
    views.taken = view_of(reserved);
  }
  const LogicalMapping mapping = map_logical_axes(
      labels, rules_.logical_rules, reading_.flax, rules_.logical_reading,
      reserved, &logical_, views.of.empty() ? nullptr : &views);
  names_meant.view = mapping.view.value_or("");
  names_meant.logical_rules.assign(names_meant.spec.dims.size(), 0);
  const auto leave_out = [&](size_t i, Code code, std::string reason) {
    names_meant.corrections.push_back(
        {static_cast<int>(dims[i]), code, {*labels[i]}, std::move(reason)});
  };
  if (!mapping.repeated.empty()) {
    for (size_t i = 0; i < labels.size(); ++i) {
      if (!labels[i]) continue;
      const bool repeats = contains(mapping.repeated, *labels[i]);
      leave_out(i, Code::RepeatedLogicalAxis,
                repeats ? "two dimensions have the logical axis " +
                              in_backticks(*labels[i])
                        : "two dimensions share another logical axis");
    }
    return;
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const LogicalDim& placed = mapping.dims[i];
    AxisNames& axes = names_meant.spec.dims[dims[i]];
    axes.insert(axes.end(), placed.axes.begin(), placed.axes.end());
    if (placed.rule > 0) names_meant.logical_rules[dims[i]] = placed.rule;
    if (placed.placed || !labels[i]) continue;
    leave_out(i, Code::UnplacedLogicalAxis,
              unplaced_reason(mapping, labels, i, rules_.logical_rules, views));
  }
  if (reading_.fallback == RulesFallback::NoConstraint && !is_placed(mapping)) {
    leave_whole(names_meant);
  }
}

ResolvedNames Vocabulary::of(const PartitionSpec& written, size_t rank,
                             std::optional<Mode> mode,
                             std::string_view view) const {
  ResolvedNames names_meant;
  names_meant.spec.dims.resize(written.dims.size());
  AxisLabels labels;
  std::vector<size_t> dims;
  AxisNames reserved;
  for (size_t dim = 0; dim < written.dims.size(); ++dim) {
    AxisNames& axes = names_meant.spec.dims[dim];
    if (dim >= rank) {
      axes = written.dims[dim];
      continue;
    }
    for (const AxisName& name : written.dims[dim]) {
      const NameKind kind = kind_of(name);
      const std::string_view bare = split_prefix(name).name;
      if (kind == NameKind::Logical) {
        labels.emplace_back(bare);
        dims.push_back(dim);
      } else if (kind == NameKind::Semantic) {
        AxisNames meant = semantic_axes(name, mode.value_or(reading_.mode));
        // None beside an axis becomes an unknown axis, so that the dimension is
        // not sharded. None alone already leaves it unsharded.
        if (meant.empty() && written.dims[dim].size() > 1) meant = {""};
        axes.insert(axes.end(), meant.begin(), meant.end());
      } else {
        axes.emplace_back(bare);
      }
    }
    reserved.insert(reserved.end(), axes.begin(), axes.end());
  }
  if (!labels.empty()) place_logical(labels, dims, reserved, view, names_meant);
  return names_meant;
}

ResolvedNames Vocabulary::of_labels(const AxisLabels& labels,
                                    const LogicalRule* dealt_by) const {
  ResolvedNames names_meant;
  names_meant.spec.dims.resize(labels.size());
  std::vector<size_t> dims(labels.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  const LogicalRule none{};
  const LogicalRule& dealer = dealt_by == nullptr ? none : *dealt_by;
  place_logical(labels, dims, dealer.axes, dealer.view, names_meant);
  return names_meant;
}

}  // namespace shardplan
