// SPDX-License-Identifier: Apache-2.0
// The training budget over meshes with views, held against devices one by one.
#include "core/views.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "memory/budget.h"
#include "memory/zero.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/one_by_one.h"
#include "tests/support/placed.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::HeldRows;
using testing::ViewedAxes;

constexpr size_t kKinds = 4;  // categories that are state
using KindBytes = std::array<int64_t, kKinds>;

// ZeRO over some axes of the mesh and of each view, at least one of each.
StateOptions state_over(const ViewedAxes& axes) {
  StateOptions state;
  state.optimizer = draw_of({Optimizer::AdamW, Optimizer::None, Optimizer::Lion,
                             Optimizer::SgdMomentum, Optimizer::Adafactor});
  state.zero_style = draw_of({ZeroStyle::Jax, ZeroStyle::Fsdp2,
                              ZeroStyle::DeepSpeed, ZeroStyle::Megatron});
  if (state.optimizer == Optimizer::Adafactor) {
    state.zero_style = ZeroStyle::Jax;
  }
  state.zero = draw_in(0, 4);
  if (state.zero_style == ZeroStyle::Megatron) {
    state.zero = std::min(state.zero, 1);
  }
  if (state.zero == 0) return state;
  const auto add = [&](const std::vector<Axis>& list) {
    bool any = false;
    for (const Axis& axis : list) {
      if (axis.name == axes.pipeline || (any && draw_bool())) continue;
      state.zero_axes.push_back(axis.name);
      any = true;
    }
  };
  add(axes.own);
  for (const MeshView& view : axes.views) add(view.axes);
  return state;
}

bool is_sharded(StateKind kind, int zero) {
  return kind == StateKind::Parameter  ? zero >= 3
         : kind == StateKind::Gradient ? zero >= 2
                                       : zero >= 1;
}

// The axes of ZeRO along which devices hold copies of what a placement places.
AxisNames copying_axes(const Placement& p, const ViewedAxes& axes,
                       const StateOptions& state) {
  AxisNames free;
  for (const AxisName& name : state.zero_axes) {
    for (const Axis& axis : axes.of(p.view)) {
      const bool used =
          contains(axes_in(p.spec), name) || (p.dealt && p.dealt->axis == name);
      if (axis.name == name && axis.size > 1 && !used) free.push_back(name);
    }
  }
  return free;
}

struct BufferKey {
  StateKind kind;
  std::string_view role;
  DType weights;
  DType dtype;
  AxisNames axes;

  std::strong_ordering operator<=>(const BufferKey&) const = default;
};
struct BufferSum {
  int64_t elements = 0;
  int64_t ranks = 1;
  int64_t shared_by = 1;
};

// What one device holds of each kind, parameter by parameter.
class OneDevice {
 public:
  OneDevice(const Manifest& manifest, const Plan& plan, const ViewedAxes& axes,
            const StateOptions& state, int64_t device)
      : manifest_(manifest),
        plan_(plan),
        axes_(axes),
        state_(state),
        device_(device) {}

  void add(size_t parameter) {
    const Placement& p = plan_.of(parameter);
    if (p.dealt &&
        !testing::has_expert(axes_.of(p.view), p.dealt->axis, p.dealt->experts,
                             testing::expert_in(manifest_.name(parameter)),
                             device_)) {
      return;
    }
    for (const StateLeaf& leaf :
         state_leaves(p, plan_.mesh, plan_.on_indivisible, state_)) {
      if (leaf.kind == StateKind::Gradient) ++updated_;
      add_leaf(p, leaf);
    }
  }

  int64_t updated() const { return updated_; }

  KindBytes bytes() const {
    KindBytes sum = bytes_;
    for (const auto& [key, buffer] : buffers_) {
      sum.at(static_cast<size_t>(key.kind)) +=
          buffer_bytes(buffer.elements, key.dtype, state_.zero_style,
                       buffer.ranks, buffer.shared_by);
    }
    for (const StateLeaf& counter : optimizer_counters(plan_.mesh, state_)) {
      sum.at(static_cast<size_t>(StateKind::Optimizer)) +=
          counter.bytes_per_device;
    }
    return sum;
  }

 private:
  void add_leaf(const Placement& p, const StateLeaf& leaf) {
    const AxisNames free = copying_axes(p, axes_, state_);
    int64_t ranks = 1;
    for (const AxisName& name : free) ranks *= plan_.mesh.size_of(name);
    // Factored statistics lack a dimension, or are placeholders.
    const bool factored = leaf.kind == StateKind::Optimizer &&
                          state_.optimizer == Optimizer::Adafactor;
    if (!factored && state_.zero > 0 && !leaf.zero_failed) {
      check(p, leaf, ranks);
    }
    const auto rows =
        testing::rows_on(axes_.of(leaf.view), leaf.spec, leaf.type.shape,
                         plan_.on_indivisible, device_);
    int64_t elements = 1;
    for (size_t dim = 0; dim < rows.size(); ++dim) {
      const bool is_cut = dim == 0 && leaf.layout == LeafLayout::Rows;
      elements *=
          is_cut ? (rows[dim].stored + ranks - 1) / ranks : rows[dim].stored;
    }
    if (leaf.layout == LeafLayout::Flat)
      elements = (elements + ranks - 1) / ranks;
    if (leaf.layout == LeafLayout::Buffer) {
      BufferSum& buffer =
          buffers_[{leaf.kind, leaf.role, p.type.dtype, leaf.type.dtype, free}];
      buffer.elements += buffer_elements(elements, state_.zero_style);
      buffer.ranks = ranks;
      buffer.shared_by = is_sharded(leaf.kind, state_.zero) ? ranks : 1;
      return;
    }
    bytes_.at(static_cast<size_t>(leaf.kind)) +=
        *byte_count(elements, leaf.type.dtype);
  }

  // That the leaf is shared by those that hold copies of the parameter.
  void check(const Placement& p, const StateLeaf& leaf, int64_t ranks) const {
    const bool sharded = is_sharded(leaf.kind, state_.zero);
    int64_t added = 1;
    for (const AxisName& axis : axes_in(leaf.spec)) {
      if (!contains(axes_in(p.spec), axis)) added *= plan_.mesh.size_of(axis);
    }
    const bool flat3 =
        state_.zero == 3 && state_.zero_style == ZeroStyle::DeepSpeed;
    ENSURE(added * leaf.zero_ranks == (sharded || flat3 ? ranks : 1));
  }

  const Manifest& manifest_;
  const Plan& plan_;
  const ViewedAxes& axes_;
  const StateOptions& state_;
  int64_t device_;
  KindBytes bytes_{};
  int64_t updated_ = 0;
  std::map<BufferKey, BufferSum> buffers_;
};

TEST_CASE("the budget's classes agree with a loop over devices") {
  CHECK(holds([] {
    const bool pipeline = draw_bool();
    const ViewedAxes axes = testing::draw_viewed_axes(pipeline);
    const int64_t layers = axes.stages + draw_in<int64_t>(0, 2);
    const Manifest manifest = testing::draw_experts_model(layers);
    ResolveOptions how;
    how.on_indivisible = draw_of(
        {OnIndivisible::Drop, OnIndivisible::Pad, OnIndivisible::Chunk});
    Diagnostics diags;
    const auto plan = resolve(manifest, testing::draw_view_rules(axes),
                              axes.mesh(), how, diags);
    ENSURE(plan.has_value());
    BudgetOptions options;
    options.state = state_over(axes);
    if (pipeline) options.stages = Stages{axes.pipeline, {}};
    const auto budget = make_budget(manifest, *plan, options, diags);
    if (!budget) {
      ENSURE(!axes.have_parts());
      return;
    }
    // The remainder of the layers goes to the first stages.
    std::vector<int64_t> stage_of_layer;
    for (int64_t s = 0; s < axes.stages; ++s) {
      const int64_t own = layers / axes.stages + (s < layers % axes.stages);
      stage_of_layer.insert(stage_of_layer.end(), static_cast<size_t>(own), s);
    }
    std::map<KindBytes, int64_t> expected;
    std::vector<std::pair<int64_t, int64_t>> updated(
        static_cast<size_t>(axes.stages), {INT64_MAX, 0});
    for (int64_t d = 0; d < axes.devices(); ++d) {
      const int64_t here =
          pipeline ? testing::coordinate_of(axes.own, axes.pipeline, d) : 0;
      OneDevice device(manifest, *plan, axes, options.state, d);
      for (size_t i = 0; i < manifest.size(); ++i) {
        const int64_t layer = testing::layer_in(manifest.name(i));
        const int64_t stage = i == 0 ? 0
                              : layer < 0
                                  ? axes.stages - 1
                                  : stage_of_layer[static_cast<size_t>(layer)];
        if (stage == here) device.add(i);
      }
      ++expected[device.bytes()];
      auto& [least, most] = updated[static_cast<size_t>(here)];
      least = std::min(least, device.updated());
      most = std::max(most, device.updated());
    }
    std::map<KindBytes, int64_t> found;
    for (const BudgetClass& c : budget->classes) {
      KindBytes bytes{};
      std::copy_n(c.bytes.begin(), kKinds, bytes.begin());
      found[bytes] += c.devices;
    }
    ENSURE(found == expected);
    // The ranks that hold most of several kinds may be different ones.
    const bool is_exact =
        std::ranges::none_of(plan->placements, [](const Placement& placement) {
          return placement.dealt && !is_even(*placement.dealt);
        });
    ENSURE(budget->updated.size() == updated.size());
    for (size_t stage = 0; stage < updated.size(); ++stage) {
      const auto [least, most] = updated[stage];
      ENSURE(budget->updated[stage] >= least);
      if (is_exact) ENSURE(budget->updated[stage] == most);
    }
    int64_t leading = 0;
    for (const LeafSum& sum : budget->leaves) leading += sum.bytes_per_device;
    for (size_t i = 0; i < kKinds; ++i) {
      leading -= budget->classes.front().bytes.at(i);
      const CategoryTotal& total = budget->totals.at(i);
      ENSURE(total.on_devices == total.with_replicas + total.padding);
      ENSURE(total.padding >= 0);
    }
    ENSURE(leading == 0);
  }));
}

}  // namespace
}  // namespace shardplan
