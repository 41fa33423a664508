// SPDX-License-Identifier: Apache-2.0
#include "resolve/logical_axes.h"

#include <algorithm>
#include <array>

#include "core/spec.h"

namespace shardplan {
namespace {

// In the order of RulesFallback.
constexpr std::array<std::string_view, 3> kFallbacks = {
    "axis_is_unsharded", "raise_error", "no_constraint"};

// In order of the first of each.
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
  const auto is_used = [&](const AxisName& axis) {
    return std::any_of(dims.begin(), dims.end(), [&](const LogicalDim& dim) {
      return std::find(dim.axes.begin(), dim.axes.end(), axis) !=
             dim.axes.end();
    });
  };
  return std::none_of(axes.begin(), axes.end(), [&](const AxisName& axis) {
    // None within a tuple.
    if (axis.empty()) return false;
    if (axis == kUnconstrained && version == FlaxVersion::Current) return false;
    return is_used(axis);
  });
}

bool shares_nothing(const AxisNames& a, const AxisNames& b) {
  return std::none_of(a.begin(), a.end(), [&](const AxisName& axis) {
    return std::find(b.begin(), b.end(), axis) != b.end();
  });
}

}  // namespace

std::string_view fallback_name(RulesFallback fallback) {
  return kFallbacks.at(static_cast<size_t>(fallback));
}

std::optional<RulesFallback> find_fallback(std::string_view name) {
  const auto* const found =
      std::find(kFallbacks.begin(), kFallbacks.end(), name);
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
                                const LogicalIndex* index) {
  LogicalMapping mapping;
  mapping.repeated = repeated_labels(labels, version);
  if (!mapping.repeated.empty()) return mapping;
  for (const auto& label : labels) {
    mapping.dims.push_back(initial_dim(label, version));
  }
  const auto apply = [&](int number) {
    const LogicalRule& rule = rules[static_cast<size_t>(number) - 1];
    if (!rule.name && version == FlaxVersion::Current) return;
    const auto found = std::find(labels.begin(), labels.end(), rule.name);
    if (found == labels.end()) return;
    LogicalDim& dim = mapping.dims[static_cast<size_t>(found - labels.begin())];
    const bool is_mapping = reading == LogicalReading::Mapping;
    if (dim.placed && !is_mapping) return;
    if (is_mapping || (is_free(rule.axes, mapping.dims, version) &&
                       shares_nothing(rule.axes, reserved))) {
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
  return std::all_of(mapping.dims.begin(), mapping.dims.end(),
                     [](const LogicalDim& dim) { return dim.placed; });
}

PartitionSpec spec_of(const LogicalMapping& mapping) {
  PartitionSpec spec;
  for (const LogicalDim& dim : mapping.dims) spec.dims.push_back(dim.axes);
  return spec;
}

LogicalConstraint logical_constraint(const std::optional<AxisLabels>& labels,
                                     std::span<const LogicalRule> rules,
                                     RulesFallback fallback,
                                     FlaxVersion version) {
  if (!labels || rules.empty()) return {};
  const LogicalMapping mapping = map_logical_axes(*labels, rules, version);
  if (!mapping.repeated.empty()) return {ConstraintOutcome::RepeatedLabel, {}};
  if (fallback != RulesFallback::AxisIsUnsharded && !is_placed(mapping)) {
    return {fallback == RulesFallback::RaiseError
                ? ConstraintOutcome::Unplaced
                : ConstraintOutcome::Unconstrained,
            {}};
  }
  return {ConstraintOutcome::Constrained, spec_of(mapping)};
}

}  // namespace shardplan
