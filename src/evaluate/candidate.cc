// SPDX-License-Identifier: Apache-2.0
#include "evaluate/candidate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

// Something that goes in front of rule `before`: new rules, or a rule that
// moves. Sorted by position, then by change.
struct Arrival {
  int before = 1;
  int change = 0;
};

// Resizes an axis that only views have, in the first view that has it.
std::optional<Mesh> resized_in_view(const Mesh& mesh, const Axis& wanted) {
  const int64_t now = mesh.size_of(wanted.name);
  std::vector<MeshView> views = mesh.views();
  const auto view = std::ranges::find_if(views, [&](const MeshView& each) {
    return mesh.has(each.name, wanted.name);
  });
  if (view == views.end()) return std::nullopt;
  const std::vector<Axis> before = view->axes;
  for (size_t i = 0; i < before.size(); ++i) {
    const Axis& other = before[i];
    if (mesh.has({}, other.name) || other.name == wanted.name ||
        other.size > kMaxDevices / now || other.size * now % wanted.size != 0) {
      continue;
    }
    view->axes = before;
    view->axes[i].size = other.size * now / wanted.size;
    std::ranges::find(view->axes, wanted.name, &Axis::name)->size = wanted.size;
    if (auto made = viewed_mesh(mesh.axes(), views)) return made;
  }
  return std::nullopt;
}

}  // namespace

ChangedRules changed(const RuleSet& rules,
                     std::span<const RuleChange> changes) {
  const auto count = static_cast<int>(rules.rules.size());
  ChangedRules result{rules, std::vector<int>(rules.rules.size()),
                      std::vector<int>(rules.rules.size(), -1)};
  std::iota(result.origin.begin(), result.origin.end(), 0);
  std::vector<Arrival> arrivals;
  std::vector<bool> leaves(rules.rules.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    const RuleChange& change = changes[i];
    const auto number = static_cast<int>(i);
    const size_t at = to_size(change.rule) - 1;
    switch (change.kind) {
      case RuleChange::Kind::SetSpec:
        result.rules.rules[at].spec = change.spec;
        result.by[at] = number;
        break;
      case RuleChange::Kind::SetPattern:
        result.rules.rules[at].pattern = change.pattern;
        result.origin[at] = -1;
        result.by[at] = number;
        break;
      case RuleChange::Kind::Insert:
        arrivals.push_back({change.rule, number});
        break;
      case RuleChange::Kind::Remove:
        leaves[at] = true;
        break;
      case RuleChange::Kind::Move:
        arrivals.push_back({change.before, number});
        leaves[at] = true;
        break;
    }
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::before);
  std::vector<Rule> old = std::move(result.rules.rules);
  const std::vector<int> origin = std::move(result.origin);
  const std::vector<int> by = std::move(result.by);
  result.rules.rules.clear();
  result.origin.clear();
  result.by.clear();
  const auto add = [&](Rule rule, int of, int change) {
    result.rules.rules.push_back(std::move(rule));
    result.origin.push_back(of);
    result.by.push_back(change);
  };
  auto next = arrivals.begin();
  for (int number = 1; number <= count + 1; ++number) {
    for (; next != arrivals.end() && next->before <= number; ++next) {
      const RuleChange& change = nth(changes, next->change);
      if (change.kind == RuleChange::Kind::Move) {
        const size_t from = to_size(change.rule) - 1;
        add(std::move(old[from]), change.rule - 1, next->change);
        continue;
      }
      for (const NewRule& rule : change.added) {
        add({rule.pattern, rule.spec, {}, {}, {}, false}, -1, next->change);
      }
    }
    const size_t at = to_size(number) - 1;
    if (number <= count && !leaves[at]) {
      add(std::move(old[at]), origin[at], by[at]);
    }
  }
  return result;
}

std::optional<Mesh> viewed_mesh(std::vector<Axis> axes,
                                const std::vector<MeshView>& views) {
  Mesh made(std::move(axes));
  Diagnostics quiet;
  for (const MeshView& view : views) {
    ViewRequest request{view.name, {}, {}, {}};
    for (const Axis& axis : view.axes) {
      request.axes.push_back({axis.name, axis.size, {}, {}, {}});
    }
    auto with_view = add_view(made, request, quiet);
    if (!with_view) return std::nullopt;
    made = *std::move(with_view);
  }
  return made;
}

std::optional<Mesh> resized(const Mesh& mesh, const Axis& wanted) {
  if (!mesh.has({}, wanted.name)) return resized_in_view(mesh, wanted);
  std::vector<Axis> axes = mesh.axes();
  int64_t devices = 1;
  for (Axis& axis : axes) {
    if (axis.name == wanted.name) axis.size = wanted.size;
    if (axis.size > kMaxDevices / devices) return std::nullopt;
    devices *= axis.size;
  }
  // A view has as many devices as the mesh, so it is kept only if it still
  // fits.
  return viewed_mesh(std::move(axes), mesh.views());
}

}  // namespace shardplan
