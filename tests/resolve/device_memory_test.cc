// SPDX-License-Identifier: Apache-2.0
#include "resolve/device_memory.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;

StagedCounts counts_of(const Plan& plan) {
  return staged_counts(plan.placement_of, plan.placements.size(), nullptr);
}

TEST_CASE("only coordinates at which a shard changes are breakpoints") {
  const Mesh devices = mesh("fsdp=4,tp=2");
  Breakpoints breakpoints;
  CHECK_FALSE(add_breakpoints(devices, {8, 6}, spec("fsdp, tp"), breakpoints));
  CHECK(breakpoints.empty());
  // torch.chunk(9, 4) is 3, 3, 3, 0.
  CHECK(add_breakpoints(devices, {9}, spec("fsdp"), breakpoints));
  CHECK(breakpoints == Breakpoints{{"fsdp", {3}}});
  // torch.chunk(6, 4) is 2, 2, 2, 0; (5, 4) is 2, 2, 1, 0.
  CHECK(add_breakpoints(devices, {5}, spec("fsdp"), breakpoints));
  CHECK(breakpoints == Breakpoints{{"fsdp", {2, 3}}});
}

TEST_CASE("too many classes are refused before they are made") {
  const Mesh devices = mesh("fsdp=4,tp=2");
  const Breakpoints breakpoints = {{"fsdp", {1, 2, 3}}, {"tp", {1}}};
  CHECK(coordinate_classes(devices, devices, breakpoints, 8)->size() == 8);
  CHECK_FALSE(coordinate_classes(devices, devices, breakpoints, 7));
}

TEST_CASE("classes store what devices one by one store") {
  CHECK(holds([] {
    const Mesh devices = testing::draw_mesh();
    std::vector<std::pair<TensorType, PartitionSpec>> tensors;
    Breakpoints breakpoints;
    for (int i = 0; i < 3; ++i) {
      const TensorType type = testing::draw_tensor_type();
      tensors.emplace_back(
          type, testing::draw_legal_spec(devices, type.shape.size()));
      add_breakpoints(devices, type.shape, tensors.back().second, breakpoints);
    }
    const auto bytes_at = [&](const std::vector<int64_t>& coordinates) {
      std::vector<int64_t> bytes;
      for (const auto& [type, cut] : tensors) {
        bytes.push_back(chunk_bytes(devices, type, cut, coordinates));
      }
      return bytes;
    };
    std::map<std::vector<int64_t>, int64_t> one_by_one;
    for (int64_t d = 0; d < devices.devices(); ++d) {
      ++one_by_one[bytes_at(devices.coordinates(d))];
    }
    std::map<std::vector<int64_t>, int64_t> by_class;
    const auto classes =
        coordinate_classes(devices, devices, breakpoints, 1 << 20);
    ENSURE(classes.has_value());
    // The same added to boxes of classes, tensor by tensor.
    const ClassSums sums(devices, devices, breakpoints);
    ENSURE(sums.classes() == classes->size());
    std::vector<Int128> in_boxes(classes->size());
    Int128 on_devices = 0;
    for (const auto& tensor : tensors) {
      const auto& type = tensor.first;
      const auto& cut = tensor.second;
      Breakpoints own;
      add_breakpoints(devices, type.shape, cut, own);
      sums.each_box(own, [&](const ClassSums::Box& box) {
        const Int128 bytes = chunk_bytes(devices, type, cut, box.coordinates);
        sums.add(box, bytes, in_boxes);
        on_devices += bytes * box.devices;
      });
    }
    sums.finish(in_boxes);
    for (size_t i = 0; i < classes->size(); ++i) {
      Int128 sum = 0;
      for (const int64_t bytes : bytes_at((*classes)[i].coordinates)) {
        sum += bytes;
      }
      ENSURE(in_boxes[i] == sum);
      on_devices -= sum * (*classes)[i].devices;
    }
    ENSURE(on_devices == 0);
    for (const CoordinateClass& c : *classes) {
      by_class[bytes_at(c.coordinates)] += c.devices;
    }
    ENSURE(by_class == one_by_one);
  }));
}

struct HeldModel {
  Manifest manifest;
  Plan plan;
  DeviceMemory memory;
};

HeldModel planned(Manifest manifest, const RuleSet& rules, const Mesh& mesh,
                  OnIndivisible policy) {
  Diagnostics diags;
  ResolveOptions options;
  options.on_indivisible = policy;
  auto plan = resolve(manifest, rules, mesh, options, diags);
  REQUIRE(plan.has_value());
  auto memory = device_memory(manifest, *plan, diags);
  REQUIRE(memory.has_value());
  return {std::move(manifest), *std::move(plan), *std::move(memory)};
}

// Bytes of one parameter on one device, counted from its slices.
int64_t bytes_on(const HeldModel& model, size_t parameter, int64_t device) {
  const Placement& p = model.plan.of(parameter);
  if (cut_of(model.plan.on_indivisible) == Cut::Even) {
    return p.bytes_per_device;
  }
  TensorType local = p.type;
  for (size_t dim = 0; dim < p.spec.dims.size(); ++dim) {
    const Slice rows =
        dimension_slice(model.plan.mesh, p.spec.dims[dim], Cut::Chunked,
                        local.shape[dim], model.plan.mesh.coordinates(device));
    local.shape[dim] = rows.end - rows.begin;
  }
  return local.bytes();
}

TEST_CASE("device classes, sums and ratios agree with a loop over devices") {
  CHECK(holds([] {
    const auto policy =
        draw_of({OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
                 OnIndivisible::Chunk, OnIndivisible::Rows});
    RuleSet rules;
    for (const char* pattern : {"q_proj", "up_proj", "norm", "bias"}) {
      rules.rules.push_back(
          {pattern, testing::draw_any_spec(), {}, {}, {}, false});
    }
    const HeldModel m =
        planned(testing::draw_manifest(), rules, testing::draw_mesh(), policy);
    const int64_t devices = m.plan.mesh.devices();
    std::map<int64_t, int64_t> classes;
    int64_t total = 0;
    for (int64_t device = 0; device < devices; ++device) {
      int64_t bytes = 0;
      for (size_t i = 0; i < m.manifest.size(); ++i) {
        bytes += bytes_on(m, i, device);
      }
      ++classes[bytes];
      total += bytes;
    }
    ENSURE(m.memory.classes.size() == classes.size());
    for (const DeviceClass& c : m.memory.classes) {
      ENSURE(classes[c.bytes] == c.devices);
    }
    ENSURE(m.memory.max == classes.rbegin()->first);
    ENSURE(m.memory.min == classes.begin()->first);
    ENSURE(m.memory.total == total);

    const Balance b =
        balance(m.plan, counts_of(m.plan), m.manifest.total_bytes(), m.memory);
    int64_t replicated = 0;
    for (size_t i = 0; i < m.manifest.size(); ++i) {
      replicated += m.plan.of(i).replicas * m.manifest.type(i).bytes();
    }
    const auto logical = static_cast<double>(m.manifest.total_bytes());
    if (logical == 0) {
      ENSURE(b.efficiency == 1.0 && b.balance_score == 1.0);
      ENSURE(b.replication_factor == 1.0 && b.padding_bytes == 0);
      return;
    }
    ENSURE(b.padding_bytes == total - replicated);
    ENSURE(b.padding_bytes >= 0);
    const double gap =
        b.efficiency * (b.replication_factor +
                        static_cast<double>(b.padding_bytes) / logical) -
        b.balance_score;
    ENSURE(std::abs(gap) < 1e-12);
    const Imbalance i = imbalance(m.memory);
    for (const double measure :
         {i.total_variation, i.total_distance, i.chi_square, i.kl_divergence}) {
      ENSURE(measure >= 0 && measure <= 1);
      ENSURE((measure > 0) == (m.memory.max != m.memory.min));
    }
  }));
}

TEST_CASE("all measures of imbalance are 1 when one device holds all") {
  const HeldModel m = planned(testing::manifest({{"w", "u8[1]"}}),
                              testing::rules({{"w", "tp"}}),
                              testing::mesh("tp=4"), OnIndivisible::Chunk);
  const Imbalance i = imbalance(m.memory);
  CHECK(i.total_variation == doctest::Approx(1));
  CHECK(i.total_distance == doctest::Approx(1));
  CHECK(i.chi_square == doctest::Approx(1));
  CHECK(i.kl_divergence == doctest::Approx(1));
}

TEST_CASE("chunks on 2^40 devices take no longer than on eight") {
  const HeldModel m =
      planned(testing::manifest({{"w", "u8[1000003]"}}),
              testing::rules({{"w", "(a, b)"}}),
              testing::mesh("a=1048576,b=1048576"), OnIndivisible::Chunk);
  CHECK(m.memory.max == 1);
  CHECK(m.memory.min == 0);
  CHECK(m.memory.total == 1000003);
  CHECK(m.memory.classes.front().devices == 1000003);
}

TEST_CASE("repetition is reported by axis and an axis by what it saves") {
  const HeldModel m =
      planned(testing::manifest({{"w", "u8[8, 8]"}, {"n", "u8[16]"}}),
              testing::rules({{"w", "tp"}, {"n", ""}}),
              testing::mesh("dp=2,tp=4"), OnIndivisible::Drop);
  const Folding folding =
      fold(m.plan.placement_of, [&](size_t i) { return m.manifest.name(i); });
  const auto repeated = repetitions(m.plan, folding);
  REQUIRE(repeated.size() == 2);
  CHECK(repeated[0].parameter_class == 1);
  CHECK(repeated[0].over == AxisNames{"dp", "tp"});
  CHECK(repeated[0].extra_per_device == 14);
  CHECK(repeated[1].over == AxisNames{"dp"});
  CHECK(repeated[1].replicas == 2);
  CHECK(repeated[1].extra_per_device == 8);
  const auto savings = axis_savings(m.plan, counts_of(m.plan));
  REQUIRE(savings.size() == 2);
  CHECK(savings[0].saved_per_device == 0);
  CHECK(savings[1].saved_per_device == 48);
  CHECK(savings[1].sharded_tensors == 1);
}

TEST_CASE("declared storage keeps the identity of bytes, under every policy") {
  CHECK(holds([] {
    const auto kv = draw_in<int64_t>(1, 5);
    const int64_t heads = kv * draw_in<int64_t>(1, 5);
    const auto dim = draw_in<int64_t>(1, 5);
    const auto text = [](std::vector<int64_t> shape) {
      return "u8" + shape_text(shape);
    };
    const auto vocab = draw_in<int64_t>(1, 60);
    Manifest manifest = testing::manifest(
        {{"embed_tokens.weight", text({vocab, 6})},
         {"layers.0.self_attn.q_proj.weight", text({heads * dim, 6})},
         {"layers.0.self_attn.k_proj.weight", text({kv * dim, 6})},
         {"layers.0.self_attn.qkv_proj.weight",
          text({(heads + 2 * kv) * dim, 6})},
         {"h.0.self_attention.query_key_value.weight",
          text({(heads + 2 * kv) * dim, 6})},
         {"layers.0.mlp.gate_up_proj.weight", text({2 * heads, 6})}});
    manifest.facts.from = FactsFrom::Config;
    manifest.facts.heads = heads;
    manifest.facts.kv_heads = kv;
    manifest.facts.head_dim = dim;
    RuleSet rules;
    for (const char* pattern : {"embed", "q_proj", "k_proj", ""}) {
      rules.rules.push_back(
          {pattern, testing::draw_any_spec(), {}, {}, {}, false});
    }
    ResolveOptions options;
    options.on_indivisible =
        draw_of({OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
                 OnIndivisible::Chunk});
    options.declarations.replicate_kv_heads = draw_bool();
    options.declarations.interleave_qkv = draw_bool();
    options.declarations.interleave_gate_up = draw_bool();
    options.declarations.pad_vocab = draw_in<int64_t>(0, 9);
    const Mesh mesh = testing::draw_mesh();
    Diagnostics diags;
    const auto plan = resolve(manifest, rules, mesh, options, diags);
    ENSURE(plan.has_value());
    const auto memory = device_memory(manifest, *plan, diags);
    ENSURE(memory.has_value());
    int64_t total = 0;
    int64_t replicated = 0;
    for (size_t i = 0; i < manifest.size(); ++i) {
      const Placement& p = plan->of(i);
      ENSURE(p.type == manifest.type(i));
      const Shape stored = stored_shape(p);
      int64_t on_all = 0;
      for (int64_t device = 0; device < mesh.devices(); ++device) {
        int64_t bytes = 1;
        for (size_t d = 0; d < stored.size(); ++d) {
          const AxisNames axes =
              d < p.spec.dims.size() ? p.spec.dims[d] : AxisNames();
          const int64_t shards = shard_count(mesh, axes);
          const Slice rows =
              dimension_slice(mesh, axes, cut_of(plan->on_indivisible),
                              stored[d], mesh.coordinates(device));
          bytes *= cut_of(plan->on_indivisible) == Cut::Chunked
                       ? rows.end - rows.begin
                       : (stored[d] + shards - 1) / shards;
        }
        on_all += bytes;
      }
      // What is stored covers the logical tensor as often as it is replicated.
      ENSURE(on_all >= p.replicas * p.type.bytes());
      total += on_all;
      replicated += p.replicas * p.type.bytes();
    }
    ENSURE(memory->total == total);
    const Balance b =
        balance(*plan, counts_of(*plan), manifest.total_bytes(), *memory);
    ENSURE(b.padding_bytes == total - replicated);
  }));
}

// A pipeline over `axis`: every parameter on one stage, on two, or, where its
// spec names the axis, on all.
ParameterStages drawn_stages(const HeldModel& model, const AxisName& axis) {
  const Mesh& mesh = model.plan.mesh;
  ParameterStages stages{axis, mesh.size_of(axis), {}, {}};
  const auto last = static_cast<int32_t>(stages.stages - 1);
  for (size_t i = 0; i < model.manifest.size(); ++i) {
    const auto& dims = model.plan.of(i).spec.dims;
    const bool is_cut =
        std::any_of(dims.begin(), dims.end(), [&](const AxisNames& axes) {
          return std::find(axes.begin(), axes.end(), axis) != axes.end();
        });
    ParameterStages::StagePair held;
    if (!is_cut) {
      held.first = static_cast<int32_t>(draw_in<int64_t>(0, stages.stages));
      if (last > 0 && held.first == 0 && draw_bool()) held.second = last;
    }
    stages.of.push_back(held);
  }
  return stages;
}

TEST_CASE("stages: what devices hold adds up to copies of what there is") {
  CHECK(holds("", [] {
    const OnIndivisible policy =
        draw_of({OnIndivisible::Drop, OnIndivisible::Pad, OnIndivisible::Chunk,
                 OnIndivisible::Rows});
    Manifest manifest = testing::draw_manifest();
    const Mesh mesh = testing::draw_mesh();
    RuleSet rules;
    rules.rules.push_back({"", testing::draw_any_spec(), {}, {}, {}, false});
    const HeldModel model = planned(std::move(manifest), rules, mesh, policy);
    const size_t axis = draw_in<size_t>(0, mesh.axes().size());
    const ParameterStages stages = drawn_stages(model, mesh.axes()[axis].name);
    const StagedCounts counts = staged_counts(
        model.plan.placement_of, model.plan.placements.size(), &stages);
    Diagnostics diags;
    const auto memory = device_memory(model.plan, counts, diags);
    ENSURE(memory.has_value());
    std::map<int64_t, int64_t> devices_with;
    Int128 total = 0;
    Int128 copies = 0;  // devices that hold a parameter, shards apart
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const int64_t stage = mesh.coordinates(device)[axis];
      int64_t bytes = 0;
      for (size_t i = 0; i < model.manifest.size(); ++i) {
        const ParameterStages::StagePair& on = stages.of[i];
        if (on.first >= 0 && on.first != stage && on.second != stage) continue;
        bytes += bytes_on(model, i, device);
      }
      ++devices_with[bytes];
      total += bytes;
    }
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      const Placement& p = model.plan.of(i);
      const ParameterStages::StagePair& on = stages.of[i];
      const int64_t of_stages = on.second >= 0 ? 2 : 1;
      copies +=
          Int128{p.type.bytes()} *
          (on.first < 0 ? p.replicas : p.replicas / stages.stages * of_stages);
    }
    ENSURE(memory->total == total);
    ENSURE(memory->max == devices_with.rbegin()->first);
    ENSURE(memory->min == devices_with.begin()->first);
    std::map<int64_t, int64_t> by_class;
    for (const DeviceClass& c : memory->classes) by_class[c.bytes] += c.devices;
    ENSURE(by_class == devices_with);
    const Balance b =
        balance(model.plan, counts, model.manifest.total_bytes(), *memory);
    if (model.manifest.total_bytes() == 0) return;
    ENSURE(b.padding_bytes == static_cast<int64_t>(total - copies));
    const double logical = static_cast<double>(model.manifest.total_bytes());
    ENSURE(b.efficiency ==
           doctest::Approx(b.balance_score /
                           (b.replication_factor +
                            static_cast<double>(b.padding_bytes) / logical)));
  }));
}

TEST_CASE("a module is the path before the first number, two parts at most") {
  CHECK(module_of("model.layers.*.mlp.w") == "model.layers");
  CHECK(module_of("h/*/w") == "h");
  CHECK(module_of("lm_head.weight") == "lm_head");
  CHECK(module_of("a/b/c/d") == "a/b");
  CHECK(module_of("w") == "w");
  CHECK(module_of("*/w") == "*/w");
}

TEST_CASE("groups sum tensors, elements and bytes") {
  const Manifest manifest = testing::manifest(
      {{"h/0/w", "bf16[4, 4]"}, {"h/1/w", "bf16[4, 4]"}, {"head/w", "f32[4]"}});
  Diagnostics diags;
  const RuleSet rules = testing::rules({{"none", ""}, {"h/", "tp"}});
  const auto plan = resolve(manifest, rules, testing::mesh("tp=2"), {}, diags);
  REQUIRE(plan.has_value());
  const Folding folding =
      fold(plan->placement_of, [&](size_t i) { return manifest.name(i); });
  const auto dtypes = by_dtype(*plan, folding);
  REQUIRE(dtypes.size() == 2);
  CHECK(dtypes[0].name == "bf16");
  CHECK(dtypes[0].tensors == 2);
  CHECK(dtypes[0].elements == 32);
  CHECK(dtypes[0].bytes == 64);
  CHECK(dtypes[0].bytes_per_device == 32);
  const auto modules = by_module(*plan, folding);
  REQUIRE(modules.size() == 2);
  CHECK(modules[1].name == "head");
  const auto by = by_rule(*plan, folding);
  REQUIRE(by.size() == 2);
  CHECK(by[0].name == "2");
  CHECK(by[1].name == "none");
  CHECK(by[1].bytes == 16);
}

}  // namespace

}  // namespace shardplan
