// SPDX-License-Identifier: Apache-2.0
// Meshes with views, held against devices one by one.
#include "core/views.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "resolve/device_memory.h"
#include "resolve/resolve.h"
#include "tests/support/one_by_one.h"
#include "tests/support/property.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::HeldRows;
using testing::ViewedAxes;

constexpr OnIndivisible kPolicies[] = {
    OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
    OnIndivisible::Chunk};

Plan plan_over(const Manifest& manifest, const ViewedAxes& axes,
               OnIndivisible policy) {
  ResolveOptions how;
  how.on_indivisible = policy;
  Diagnostics diags;
  auto plan = resolve(manifest, testing::draw_view_rules(axes), axes.mesh(),
                      how, diags);
  ENSURE(plan.has_value());
  return *std::move(plan);
}

// The experts in the layer of a parameter: one more than the largest number.
int64_t experts_beside(const Manifest& manifest, size_t parameter) {
  const int64_t layer = testing::layer_in(manifest.name(parameter));
  int64_t experts = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (testing::layer_in(manifest.name(i)) != layer) continue;
    experts = std::max(experts, testing::expert_in(manifest.name(i)) + 1);
  }
  return experts;
}

// Of one parameter: what each device has of it, and who has which shard.
struct OnDevices {
  std::vector<bool> held;
  std::vector<std::vector<HeldRows>> rows;
  std::vector<int64_t> bytes;
  std::map<std::vector<int64_t>, std::vector<int64_t>> by_shard;
};

OnDevices one_by_one(const Manifest& manifest, const Plan& plan,
                     const ViewedAxes& axes, size_t parameter) {
  const Placement& p = plan.of(parameter);
  const std::vector<Axis>& list = axes.of(p.view);
  OnDevices on;
  for (int64_t device = 0; device < axes.devices(); ++device) {
    const bool held =
        !p.dealt ||
        testing::has_expert(
            list, p.dealt->axis, experts_beside(manifest, parameter),
            testing::expert_in(manifest.name(parameter)), device);
    const auto rows = testing::rows_on(list, p.spec, p.type.shape,
                                       plan.on_indivisible, device);
    int64_t elements = 1;
    std::vector<int64_t> shard;
    for (const HeldRows& each : rows) {
      elements *= each.stored;
      shard.push_back(each.shard);
    }
    on.held.push_back(held);
    on.rows.push_back(rows);
    on.bytes.push_back(held ? *byte_count(elements, p.type.dtype) : 0);
    if (held) on.by_shard[shard].push_back(device);
  }
  return on;
}

// The rank of an expert, as reports show it.
int64_t shown_rank(const Placement& p, std::string_view name) {
  if (!p.dealt) return 0;
  return p.dealt->rank >= 0
             ? p.dealt->rank
             : rank_of_expert(*p.dealt, testing::expert_in(name));
}

TEST_CASE("every device of a view holds the slices that its number says") {
  CHECK(holds([] {
    const ViewedAxes axes = testing::draw_viewed_axes(draw_bool());
    const Manifest manifest = testing::draw_experts_model(draw_in(1, 3));
    const auto policy =
        draw_of(std::vector(std::begin(kPolicies), std::end(kPolicies)));
    const Plan plan = plan_over(manifest, axes, policy);
    for (size_t i = 0; i < manifest.size(); ++i) {
      const Placement& p = plan.of(i);
      const OnDevices on = one_by_one(manifest, plan, axes, i);
      ENSURE(std::ssize(on.by_shard) == p.shards);
      const int64_t rank = shown_rank(p, manifest.name(i));
      const DeviceSlices map = device_slices(p, plan.mesh, policy, rank);
      for (const auto& [shard, devices] : on.by_shard) {
        ENSURE(std::ssize(devices) == p.replicas);
        const std::vector<size_t> indices(shard.begin(), shard.end());
        ENSURE(map.devices[map.number(indices)] == devices);
      }
      int64_t largest = 0;
      for (int64_t d = 0; d < axes.devices(); ++d) {
        const auto at = static_cast<size_t>(d);
        largest = std::max(largest, on.bytes[at]);
        ENSURE(is_held(p, plan.mesh, rank, d) == on.held[at]);
        const HeldSlice held = held_slice(p, plan.mesh, policy, d);
        for (size_t dim = 0; dim < on.rows[at].size(); ++dim) {
          const HeldRows& rows = on.rows[at][dim];
          ENSURE(held.slices[dim] == Slice{rows.begin, rows.end});
          ENSURE(held.padding[dim] == rows.stored - (rows.end - rows.begin));
          if (!on.held[at]) continue;
          const auto shard = static_cast<size_t>(rows.shard);
          ENSURE(map.slices[dim][shard] == held.slices[dim]);
          ENSURE(map.padding[dim][shard] == held.padding[dim]);
        }
      }
      ENSURE(p.bytes_per_device == largest);
    }
  }));
}

// Layers in order on the stages, embedding first and head last.
ParameterStages stages_over(const Manifest& manifest, const ViewedAxes& axes,
                            int64_t layers) {
  ParameterStages stages{axes.pipeline, axes.stages, {}, {}};
  for (size_t i = 0; i < manifest.size(); ++i) {
    const int64_t layer = testing::layer_in(manifest.name(i));
    const int64_t stage = i == 0      ? 0
                          : layer < 0 ? axes.stages - 1
                                      : layer * axes.stages / layers;
    stages.of.push_back({static_cast<int32_t>(stage), -1});
  }
  return stages;
}

TEST_CASE("bytes per device and ratios agree with a loop over devices") {
  int64_t refused = 0;
  CHECK(holds([&] {
    const bool pipeline = draw_bool();
    const ViewedAxes axes = testing::draw_viewed_axes(pipeline);
    const int64_t layers = axes.stages + draw_in<int64_t>(0, 3);
    const Manifest manifest = testing::draw_experts_model(layers);
    const auto policy =
        draw_of(std::vector(std::begin(kPolicies), std::end(kPolicies)));
    const Plan plan = plan_over(manifest, axes, policy);
    const ParameterStages stages = stages_over(manifest, axes, layers);
    const StagedCounts counts =
        staged_counts(plan.placement_of, plan.placements.size(),
                      pipeline ? &stages : nullptr);
    Diagnostics diags;
    const auto memory = device_memory(plan, counts, diags);
    if (!memory) {
      // Devices can be told apart along parts of all axes alone.
      ENSURE(!axes.have_parts());
      ++refused;
      return;
    }
    std::vector<int64_t> bytes(static_cast<size_t>(axes.devices()));
    int64_t with_replicas = 0;
    int64_t sharded = 0;
    for (size_t i = 0; i < manifest.size(); ++i) {
      const OnDevices on = one_by_one(manifest, plan, axes, i);
      int64_t copies = 0;
      for (int64_t d = 0; d < axes.devices(); ++d) {
        const bool here =
            !pipeline || testing::coordinate_of(axes.own, axes.pipeline, d) ==
                             stages.of[i].first;
        if (!here) continue;
        bytes[static_cast<size_t>(d)] += on.bytes[static_cast<size_t>(d)];
        const auto& first = on.by_shard.begin()->second;
        copies += std::ranges::count(first, d);
      }
      with_replicas += copies * manifest.type(i).bytes();
      if (std::ssize(on.by_shard.begin()->second) < axes.devices()) ++sharded;
    }
    std::map<int64_t, int64_t> classes;
    int64_t total = 0;
    for (const int64_t each : bytes) {
      ++classes[each];
      total += each;
    }
    ENSURE(memory->classes.size() == classes.size());
    for (const DeviceClass& c : memory->classes) {
      ENSURE(classes[c.bytes] == c.devices);
    }
    ENSURE(memory->max == classes.rbegin()->first);
    ENSURE(memory->min == classes.begin()->first);
    ENSURE(memory->total == total);
    const auto devices = static_cast<double>(axes.devices());
    ENSURE(std::abs(memory->mean - static_cast<double>(total) / devices) <
           1e-9 * static_cast<double>(total + 1));

    const Balance b = balance(plan, counts, manifest.total_bytes(), *memory);
    const auto logical = static_cast<double>(manifest.total_bytes());
    const auto most = static_cast<double>(memory->max);
    ENSURE(b.sharded_tensors == sharded);
    ENSURE(b.padding_bytes == total - with_replicas);
    ENSURE(std::abs(b.replication_factor -
                    static_cast<double>(with_replicas) / logical) < 1e-12);
    ENSURE(std::abs(b.efficiency - logical / (devices * most)) < 1e-12);
    ENSURE(std::abs(b.balance_score -
                    static_cast<double>(total) / devices / most) < 1e-12);
  }));
  // Most cases are of axes that have parts in common.
  CHECK(refused < 50);
}

TEST_CASE("what repeats over which axes follows from who holds it") {
  CHECK(holds([] {
    const ViewedAxes axes = testing::draw_viewed_axes(false);
    const Manifest manifest = testing::draw_experts_model(draw_in(1, 3));
    const Plan plan = plan_over(manifest, axes, OnIndivisible::Drop);
    const Folding folding =
        fold(plan.placement_of, [&](size_t i) { return manifest.name(i); });
    const auto repeated = repetitions(plan, folding);
    std::set<uint32_t> classes;
    for (const Repetition& each : repeated) {
      const ParameterClass& c = folding.classes[each.parameter_class];
      const Placement& p = plan.placements[c.kind];
      int64_t over = 1;
      for (const AxisName& axis : each.over) {
        const auto& list = axes.of(p.view);
        over *= std::ranges::find(list, axis, &Axis::name)->size;
      }
      ENSURE(each.replicas == over);
      classes.insert(each.parameter_class);
    }
    for (size_t i = 0; i < manifest.size(); ++i) {
      const OnDevices on = one_by_one(manifest, plan, axes, i);
      const bool repeats = on.by_shard.begin()->second.size() > 1;
      ENSURE(classes.contains(folding.class_of[i]) == repeats);
    }
  }));
}

std::vector<Axis> recorded_axes(const nlohmann::json& list) {
  std::vector<Axis> axes;
  for (const auto& axis : list) {
    axes.push_back({axis[0].get<std::string>(), axis[1].get<int64_t>()});
  }
  return axes;
}

// tests/data/record_views.py: two meshes of JAX over one array of devices.
TEST_CASE("devices of views hold the slices that JAX gives them") {
  std::ifstream lines(source_dir() / "tests/data/views.jsonl");
  int on_mesh = 0;
  int on_view = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    const auto recorded = nlohmann::json::parse(line);
    if (recorded.contains("jax")) continue;
    const Mesh mesh(recorded_axes(recorded.at("mesh")),
                    {{"experts", recorded_axes(recorded.at("experts"))}});
    Placement placement;
    placement.type = {DType::BF16, recorded.at("shape").get<Shape>()};
    for (const auto& dim : recorded.at("spec")) {
      AxisNames& axes = placement.spec.dims.emplace_back();
      for (const auto& axis : dim) axes.emplace_back(axis.get<std::string>());
    }
    measure(placement, mesh, OnIndivisible::Error);
    const auto view = recorded.at("view").get<std::string>();
    const bool names_any = !axes_in(placement.spec).empty();
    CHECK(placement.view == (names_any ? view : ""));
    ++(view.empty() ? on_mesh : on_view);
    const auto& slices = recorded.at("slices");
    REQUIRE(std::ssize(slices) == mesh.devices());
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const HeldSlice held =
          held_slice(placement, mesh, OnIndivisible::Error, device);
      std::vector<Slice> expected;
      for (const auto& dim : slices[static_cast<size_t>(device)]) {
        expected.push_back({dim[0].get<int64_t>(), dim[1].get<int64_t>()});
      }
      CHECK(held.slices == expected);
      CHECK(held.padding == std::vector<int64_t>(expected.size()));
    }
  }
  CHECK(on_mesh > 80);
  CHECK(on_view > 80);
}

}  // namespace
}  // namespace shardplan
