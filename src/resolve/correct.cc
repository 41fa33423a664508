// SPDX-License-Identifier: Apache-2.0
#include "resolve/correct.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/words.h"
#include "model/units.h"

namespace shardplan {
namespace {

std::string product_text(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const AxisName& axis : axes) {
    if (!text.empty()) text += ",";
    text += axis + "=" + std::to_string(mesh.size_of(axis));
  }
  return text;
}

class Corrector {
 public:
  Corrector(const Shape& shape, const Mesh& mesh, const AxisNames& declared,
            OnIndivisible policy, const AxisNames& taken, std::string_view view)
      : shape_(shape),
        mesh_(mesh),
        declared_(declared),
        policy_(policy),
        taken_(taken),
        view_(mesh.has_view(view) ? view : std::string_view()) {}

  CorrectedSpec run(const PartitionSpec& requested) {
    const size_t rank = shape_.size();
    result_.spec.dims.resize(rank);
    for (size_t dim = 0; dim < requested.dims.size(); ++dim) {
      const AxisNames& asked = requested.dims[dim];
      if (dim >= rank) {
        note(dim, Code::SpecLongerThanRank, asked,
             "the parameter has " +
                 plural(static_cast<int64_t>(rank), "dimension"));
      } else {
        result_.spec.dims[dim] = known_and_divisible(dim, asked);
      }
    }
    append_rows();
    drop_repeated();
    if (!mesh_.views().empty()) drop_mixed();
    if (names_no_axis(result_.spec)) result_.spec.dims.clear();
    return std::move(result_);
  }

 private:
  void note(size_t dim, Code code, AxisNames dropped, std::string reason) {
    result_.corrections.push_back(
        {static_cast<int>(dim), code, std::move(dropped), std::move(reason)});
  }

  // Returns whether a spec of this view may name the axis.
  bool has(const AxisName& axis) const {
    if (!mesh_.find(axis)) return false;
    if (mesh_.views().empty()) return true;
    if (!view_.empty()) return mesh_.has(view_, axis);
    return mesh_.has({}, axis) || !contains(declared_, axis);
  }

  AxisNames known_and_divisible(size_t dim, const AxisNames& asked) {
    AxisNames axes;
    for (const AxisName& axis : asked) {
      if (axis == kUnconstrained) return {};
      if (has(axis)) {
        axes.push_back(axis);
      } else if (!view_.empty() && mesh_.find(axis)) {
        note(dim, Code::MixedViews, asked,
             view_text({axis}) + ", but the rule is for view `" +
                 std::string(view_) + "`");
        return {};
      } else if (!contains(declared_, axis)) {
        note(dim, Code::UnknownAxis, asked, "axis `" + axis + "` is unknown");
        return {};
      }
    }
    const bool rows = policy_ == OnIndivisible::Rows;
    if ((allows_uneven(policy_) && !rows) || divides(dim, axes)) return axes;
    if (rows) take_rows(dim, axes);
    if (divides(dim, axes)) return axes;
    AxisNames kept = axes;
    do {
      kept.pop_back();
    } while (!kept.empty() &&
             (policy_ != OnIndivisible::Prefix || !divides(dim, kept)));
    note(dim, Code::IndivisibleDimension,
         AxisNames(axes.begin() + static_cast<std::ptrdiff_t>(kept.size()),
                   axes.end()),
         std::to_string(shape_[dim]) + " is not divisible by " +
             product_text(mesh_, axes));
    return kept;
  }

  // Moves the batch axes of a dimension to `rows_`, which shard dimension 0.
  void take_rows(size_t dim, AxisNames& axes) {
    AxisNames taken;
    for (const AxisName& axis : axes) {
      if (is_gathered_axis(axis)) taken.push_back(axis);
    }
    if (taken.empty()) return;
    erase_if(axes, [](const AxisName& axis) { return is_gathered_axis(axis); });
    rows_.insert(rows_.end(), taken.begin(), taken.end());
    if (dim == 0) return;
    note(dim, Code::UnevenShards, taken,
         std::to_string(shape_[dim]) + " is not divisible by " +
             product_text(mesh_, taken) + ": FSDP2 shards dimension 0");
  }

  void append_rows() {
    if (rows_.empty()) return;
    AxisNames& axes = result_.spec.dims[0];
    axes.insert(axes.end(), rows_.begin(), rows_.end());
  }

  bool divides(size_t dim, const AxisNames& axes) const {
    // A product of repeated axes that exceeds 63 bits divides only 0.
    const int64_t shards = shard_count(mesh_, axes);
    return shape_[dim] == 0 ||
           (shards != INT64_MAX && shape_[dim] % shards == 0);
  }

  // Keeps the first use of each axis. A later dimension that names it becomes
  // unsharded as a whole; within one dimension, only the repetition is removed.
  void drop_repeated() {
    std::set<AxisName> used(taken_.begin(), taken_.end());
    for (size_t dim = 0; dim < result_.spec.dims.size(); ++dim) {
      AxisNames& axes = result_.spec.dims[dim];
      const auto earlier = std::ranges::find_if(
          axes, [&](const AxisName& axis) { return used.contains(axis); });
      if (earlier != axes.end()) {
        const std::string reason =
            contains(taken_, *earlier)
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
    AxisNames used = taken_;
    for (size_t dim = 0; dim < result_.spec.dims.size(); ++dim) {
      AxisNames& axes = result_.spec.dims[dim];
      AxisNames both = used;
      both.insert(both.end(), axes.begin(), axes.end());
      if (mesh_.view_of(both)) {
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
      const auto view = mesh_.view_of({axis}).value_or("");
      return "`" + axis + "` is an axis of " +
             (view.empty() ? "the mesh" : "view `" + std::string(view) + "`");
    });
  }

  const Shape& shape_;
  const Mesh& mesh_;
  const AxisNames& declared_;
  OnIndivisible policy_;
  const AxisNames& taken_;
  std::string_view view_;
  AxisNames rows_;  // the axes that shard dimension 0 under `rows`
  CorrectedSpec result_;
};

}  // namespace

CorrectedSpec correct(const PartitionSpec& requested, const Shape& shape,
                      const Mesh& mesh, const AxisNames& declared_axes,
                      OnIndivisible policy, const AxisNames& taken,
                      std::string_view view) {
  return Corrector(shape, mesh, declared_axes, policy, taken, view)
      .run(requested);
}

CorrectedSpec corrected_again(const Plan& plan, const Placement& placement,
                              const AxisNames& declared_axes,
                              OnIndivisible policy) {
  AxisNames taken;
  if (placement.dealt) taken.push_back(placement.dealt->axis);
  return correct(placement.requested_spec(), stored_shape(placement), plan.mesh,
                 declared_axes, policy, taken, requested_view(plan, placement));
}

std::string_view requested_view(const Plan& plan, const Placement& placement) {
  if (plan.mesh.views().empty()) return {};
  if (placement.rule > 0) {
    const auto by = static_cast<size_t>(placement.rule) - 1;
    if (!plan.rules[by].view.empty()) return plan.rules[by].view;
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

namespace {

std::vector<AxisNames> axes_by_size(const Mesh& mesh) {
  std::vector<Axis> axes = mesh.axes();
  std::ranges::stable_sort(axes, std::ranges::greater(), &Axis::size);
  std::vector<AxisNames> choices;
  for (const Axis& axis : axes) choices.push_back({axis.name});
  return choices;
}

}  // namespace

PartitionSpec auto_spec(const Shape& shape, const Mesh& mesh,
                        const AutoSpecOptions& options) {
  const int64_t least =
      options.min_size == 0 ? mesh.devices() : options.min_size;
  // An array whose element count exceeds 63 bits is never too small.
  if (element_count(shape).value_or(INT64_MAX) < least) return {};
  std::vector<AxisNames> left(options.choices.begin(), options.choices.end());
  if (left.empty()) left = axes_by_size(mesh);

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
