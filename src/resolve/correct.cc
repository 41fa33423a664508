// SPDX-License-Identifier: Apache-2.0
// Corrects one dimension after the other, then what they have in common.
#include "resolve/correct.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/units.h"

namespace shardplan {
namespace {

// The steps of correct() for one parameter.
struct Corrector {
  const Shape& shape;
  const Mesh& mesh;
  const AxisNames& declared;
  OnIndivisible policy;
  const AxisNames& taken;
  std::string_view view;  // of the mesh; empty: any view
  AxisNames rows = {};    // the axes that shard dimension 0 under `rows`
  CorrectedSpec result = {};

  CorrectedSpec run(const PartitionSpec& requested) {
    std::vector<AxisNames>& dims = result.spec.dims;
    dims.resize(shape.size());
    for (size_t dim = 0; dim < requested.dims.size(); ++dim) {
      const AxisNames& asked = requested.dims[dim];
      if (dim < shape.size()) {
        dims[dim] = known_and_divisible(dim, asked);
      } else {
        note(dim, Code::SpecLongerThanRank, asked,
             "the parameter has " + plural(std::ssize(shape), "dimension"));
      }
    }
    if (!rows.empty()) dims[0].insert(dims[0].end(), rows.begin(), rows.end());
    drop_repeated();
    if (!mesh.views().empty()) drop_mixed();
    if (names_no_axis(result.spec)) dims.clear();
    return std::move(result);
  }

  void note(size_t dim, Code code, AxisNames dropped, std::string reason) {
    result.corrections.push_back(
        {static_cast<int>(dim), code, std::move(dropped), std::move(reason)});
  }

  // Returns whether a spec of this view may name the axis.
  bool has(const AxisName& axis) const {
    if (!mesh.find(axis)) return false;
    if (mesh.views().empty()) return true;
    if (!view.empty()) return mesh.has(view, axis);
    return mesh.has({}, axis) || !contains(declared, axis);
  }

  bool divides(size_t dim, const AxisNames& axes) const {
    return is_divisible(shape[dim], axes, mesh);
  }

  AxisNames known_and_divisible(size_t dim, const AxisNames& asked) {
    AxisNames axes;
    for (const AxisName& axis : asked) {
      if (axis == kUnconstrained) return {};
      if (has(axis)) {
        axes.push_back(axis);
      } else if (!view.empty() && mesh.find(axis)) {
        note(dim, Code::MixedViews, asked,
             view_text({axis}) + ", but the rule is for " + named_view(view));
        return {};
      } else if (!contains(declared, axis)) {
        note(dim, Code::UnknownAxis, asked, "axis `" + axis + "` is unknown");
        return {};
      }
    }
    const bool by_rows = policy == OnIndivisible::Rows;
    if (allows_uneven(policy) && !by_rows) return axes;
    if (by_rows && !divides(dim, axes)) take_rows(dim, axes);
    if (divides(dim, axes)) return axes;
    AxisNames kept;
    if (policy == OnIndivisible::Prefix) {
      kept = axes;
      while (!divides(dim, kept)) kept.pop_back();
    }
    note(dim, Code::IndivisibleDimension,
         AxisNames(axes.begin() + std::ssize(kept), axes.end()),
         indivisible_text(dim, axes));
    return kept;
  }

  std::string indivisible_text(size_t dim, const AxisNames& axes) const {
    return std::to_string(shape[dim]) + " is not divisible by " +
           sizes_text(mesh, axes);
  }

  // Moves the batch axes of a dimension to `rows`, which shard dimension 0.
  void take_rows(size_t dim, AxisNames& axes) {
    AxisNames moved;
    std::ranges::copy_if(axes, std::back_inserter(moved), is_gathered_axis);
    erase_if(axes, is_gathered_axis);
    rows.insert(rows.end(), moved.begin(), moved.end());
    if (dim == 0 || moved.empty()) return;
    note(dim, Code::UnevenShards, moved,
         indivisible_text(dim, moved) + ": FSDP2 shards dimension 0");
  }

  // Keeps the first use of each axis. A later dimension that names it becomes
  // unsharded as a whole; within one dimension, only the repetition is removed.
  void drop_repeated() {
    std::set<AxisName> used(taken.begin(), taken.end());
    for (size_t dim = 0; dim < result.spec.dims.size(); ++dim) {
      AxisNames& axes = result.spec.dims[dim];
      const auto earlier = std::ranges::find_if(
          axes, [&](const AxisName& axis) { return used.contains(axis); });
      if (earlier != axes.end()) {
        const std::string reason =
            contains(taken, *earlier)
                ? "whole experts are placed over axis `" + *earlier + "`"
                : "axis `" + *earlier + "` shards an earlier dimension";
        note(dim, Code::RepeatedAxis, std::exchange(axes, {}), reason);
        continue;
      }
      AxisNames kept;
      AxisNames repeated;
      for (AxisName& axis : axes) {
        (used.insert(axis).second ? kept : repeated).push_back(axis);
      }
      if (!repeated.empty()) {
        const std::string reason =
            "axis `" + repeated.front() + "` is named twice";
        note(dim, Code::RepeatedAxis, std::move(repeated), reason);
      }
      axes = std::move(kept);
    }
  }

  // Unshards dimensions whose axes belong to another view. A device has one
  // position in each view, so shards by axes of two views would overlap or
  // leave gaps.
  void drop_mixed() {
    AxisNames used = taken;
    for (size_t dim = 0; dim < result.spec.dims.size(); ++dim) {
      AxisNames& axes = result.spec.dims[dim];
      AxisNames both = used;
      both.insert(both.end(), axes.begin(), axes.end());
      if (mesh.view_of(both)) {
        used = std::move(both);
        continue;
      }
      std::string reason = view_text(axes);
      if (!used.empty()) reason += ", and " + view_text(used);
      note(dim, Code::MixedViews, std::exchange(axes, {}), std::move(reason));
    }
  }

  // Returns "`ep` is an axis of view `experts`".
  std::string view_text(const AxisNames& axes) const {
    return joined_of(axes, ", ", [&](const AxisName& axis) {
      return "`" + axis + "` is an axis of " +
             named_view(mesh.view_of({axis}).value_or(""));
    });
  }
};

}  // namespace

std::string sizes_text(const Mesh& mesh, const AxisNames& axes) {
  return joined_of(axes, ",", [&](const AxisName& axis) {
    return axis + "=" + std::to_string(mesh.size_of(axis));
  });
}

std::string named_view(std::string_view view) {
  return view.empty() ? "the mesh" : "view `" + std::string(view) + "`";
}

bool is_divisible(int64_t size, const AxisNames& axes, const Mesh& mesh) {
  // A product of repeated axes that exceeds 63 bits divides only 0.
  const int64_t shards = shard_count(mesh, axes);
  return size == 0 || (shards != INT64_MAX && size % shards == 0);
}

AxisNames dealt_axes(const Placement& placement) {
  return placement.dealt ? AxisNames{placement.dealt->axis} : AxisNames();
}

CorrectedSpec correct(const PartitionSpec& requested, const Shape& shape,
                      const Mesh& mesh, const AxisNames& declared_axes,
                      OnIndivisible policy, const AxisNames& taken,
                      std::string_view view) {
  if (!mesh.has_view(view)) view = {};
  return Corrector{shape, mesh, declared_axes, policy, taken, view}.run(
      requested);
}

CorrectedSpec corrected_again(const Plan& plan, const Placement& placement,
                              const AxisNames& declared_axes,
                              OnIndivisible policy) {
  return correct(placement.requested_spec(), stored_shape(placement), plan.mesh,
                 declared_axes, policy, dealt_axes(placement),
                 requested_view(plan, placement));
}

std::string_view requested_view(const Plan& plan, const Placement& placement) {
  if (plan.mesh.views().empty()) return {};
  if (placement.rule > 0) {
    const PlanRule& rule = nth(plan.rules, placement.rule - 1);
    if (!rule.view.empty()) return rule.view;
  }
  AxisNames axes = axes_in(placement.spec);
  if (placement.dealt) axes.push_back(placement.dealt->axis);
  // Axes that were dropped because they do not divide were requested as well.
  for (const Correction& correction : placement.corrections) {
    if (correction.code != Code::IndivisibleDimension) continue;
    axes.insert(axes.end(), correction.dropped.begin(),
                correction.dropped.end());
  }
  return plan.mesh.view_of(axes).value_or("");
}

PartitionSpec auto_spec(const Shape& shape, const Mesh& mesh,
                        const AutoSpecOptions& options) {
  const int64_t least =
      options.min_size == 0 ? mesh.devices() : options.min_size;
  // An array whose element count exceeds 63 bits is never too small.
  if (element_count(shape).value_or(INT64_MAX) < least) return {};
  std::vector<AxisNames> left(options.choices.begin(), options.choices.end());
  if (left.empty()) {
    std::vector<Axis> axes = mesh.axes();
    std::ranges::stable_sort(axes, std::ranges::greater(), &Axis::size);
    for (const Axis& axis : axes) left.push_back({axis.name});
  }
  std::vector<size_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::ranges::stable_sort(dims, [&](size_t a, size_t b) {
    return options.smallest_first ? shape[a] < shape[b] : shape[a] > shape[b];
  });
  PartitionSpec spec;
  spec.dims.resize(shape.size());
  for (const size_t dim : dims) {
    const auto fits = std::ranges::find_if(left, [&](const AxisNames& axes) {
      return shape[dim] % shard_count(mesh, axes) == 0;
    });
    if (fits == left.end()) continue;
    spec.dims[dim] = *fits;
    // An axis shards at most one dimension, so choices that contain it are
    // removed.
    const AxisNames taken = *fits;
    std::erase_if(left, [&](const AxisNames& axes) {
      return std::find_first_of(axes.begin(), axes.end(), taken.begin(),
                                taken.end()) != axes.end();
    });
  }
  return spec;
}

}  // namespace shardplan
