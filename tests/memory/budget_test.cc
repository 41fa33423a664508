// SPDX-License-Identifier: Apache-2.0
#include "memory/budget.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/zero.h"
#include "resolve/device_memory.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/placed.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::category_bytes;
using testing::total_of;

constexpr Category kState[] = {Category::Parameters, Category::Gradients,
                               Category::MasterWeights,
                               Category::OptimizerState};

Budget made(const Manifest& manifest, const Plan& plan,
            const BudgetOptions& options) {
  Diagnostics diags;
  const auto budget = make_budget(manifest, plan, options, diags);
  REQUIRE_MESSAGE(budget, testing::first_message(diags));
  return *budget;
}

Manifest small_model() {
  return testing::manifest({{"embed/embedding", "bf16[32, 8]"},
                            {"layers/0/w", "bf16[8, 16]"},
                            {"layers/1/w", "bf16[8, 16]"},
                            {"layers/2/w", "bf16[8, 16]"},
                            {"lm_head/kernel", "bf16[8, 32]"}});
}

TEST_CASE("every category has a name") {
  for (size_t i = 0; i < kCategories; ++i) {
    CHECK_FALSE(category_name(static_cast<Category>(i)).empty());
  }
  CHECK(category_name(Category::MasterWeights) == "master_weights");
}

TEST_CASE("a budget adds up state, gathered layer, loss and reserve") {
  const Manifest manifest = small_model();
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "fsdp"}}), "fsdp=4");
  BudgetOptions options;
  options.state.optimizer = Optimizer::AdamW;
  options.reserve = 1000;
  options.fragmentation = 0.1;
  options.limit = DeviceLimit{"--memory", 10000, 10000};
  const Budget budget = made(manifest, plan, options);
  REQUIRE(budget.classes.size() == 1);
  // 896 elements, a quarter each.
  CHECK(category_bytes(budget, Category::Parameters) == 224 * 2);
  CHECK(category_bytes(budget, Category::Gradients) == 224 * 2);
  CHECK(category_bytes(budget, Category::MasterWeights) == 224 * 4);
  CHECK(category_bytes(budget, Category::OptimizerState) == 224 * 8 + 4);
  // The embedding and the head are larger than a layer.
  CHECK(category_bytes(budget, Category::GatheredLayer) == 256 * 2);
  const int64_t held = 224 * 16 + 4 + 512;
  CHECK(category_bytes(budget, Category::Fragmentation) == (held + 9) / 10);
  CHECK(category_bytes(budget, Category::Reserve) == 1000);
  CHECK(budget.classes[0].total == held + (held + 9) / 10 + 1000);
  CHECK(budget.headroom == 10000 - budget.classes[0].total);
  CHECK(budget.fits());
  options.limit->usable = budget.classes[0].total - 1;
  CHECK(made(manifest, plan, options).headroom == -1);
}

TEST_CASE("several live layers are the largest ones") {
  const Manifest manifest = small_model();
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "fsdp"}}), "fsdp=4");
  BudgetOptions options;
  options.live_layers = 3;
  const Budget budget = made(manifest, plan, options);
  CHECK(category_bytes(budget, Category::GatheredLayer) ==
        (256 + 256 + 128) * 2);
  REQUIRE(budget.gathered.size() == 3);
  CHECK(budget.gathered[1].label == "layers/*");
  CHECK(budget.gathered[1].groups == 3);
  CHECK(budget.gathered[1].sharded == 64);
  CHECK(budget.gathered[1].gathered == 256);
}

TEST_CASE("stages hold their own layers, and the fullest leads") {
  const Manifest manifest = small_model();
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "pp=3,dp=2");
  BudgetOptions options;
  options.stages = Stages{"pp", {}};
  const Budget budget = made(manifest, plan, options);
  REQUIRE(budget.classes.size() == 2);
  // First and last stage are alike: a layer and a table.
  CHECK(budget.classes[0].label == "stages 0, 2: 1 layer each");
  CHECK(budget.classes[0].devices == 4);
  CHECK(category_bytes(budget, Category::Parameters) == (128 + 256) * 2);
  CHECK(budget.classes[1].label == "stage 1: layer 1");
  CHECK(category_bytes(budget, Category::Parameters, 1) == 128 * 2);
  const CategoryTotal& total = total_of(budget, Category::Parameters);
  CHECK(total.on_devices == manifest.total_bytes() * 2);
  CHECK(total.padding == 0);
}

TEST_CASE("a stage with a smaller card keeps the difference free") {
  const Manifest manifest = small_model();
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "pp=2");
  BudgetOptions options;
  options.state.optimizer = Optimizer::AdamW;
  options.stages = Stages{"pp", {2, 1}};
  const Budget alike = made(manifest, plan, options);
  options.limit = DeviceLimit{"--memory", 9000, 9000, false, "", {9000, 6500}};
  const Budget budget = made(manifest, plan, options);
  REQUIRE(budget.classes.size() == 2);
  int64_t headroom = INT64_MAX;
  for (const BudgetClass& each : alike.classes) {
    headroom = std::min(
        headroom,
        options.limit->of_stages[static_cast<size_t>(each.stage)] - each.total);
  }
  CHECK(budget.headroom == headroom);
  CHECK(budget.fits() == (headroom >= 0));
  // The larger stage is on the larger card: the smaller one decides.
  CHECK(budget.classes.front().stage == 1);
  CHECK(
      stage_limits_text(*options.limit).starts_with("stage 0 has 8.79 KiB, "));
  options.limit->of_stages = {9000};
  Diagnostics diags;
  CHECK_FALSE(make_budget(manifest, plan, options, diags));
  CHECK(testing::first_message(diags) ==
        "`--memory` is given for 1 stage, but the model has 2");
}

TEST_CASE("what lies in host memory is not on the device, and not lost") {
  const Manifest manifest = small_model();
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "fsdp"}}), "fsdp=4");
  BudgetOptions options;
  options.state.optimizer = Optimizer::AdamW;
  const Budget all = made(manifest, plan, options);
  const auto on_device = [](const Budget& budget, Category category) {
    return budget.classes[0].bytes[static_cast<size_t>(category)];
  };
  for (const bool weights : {false, true}) {
    options.state.offload.optimizer = true;
    options.state.offload.weights = weights;
    const Budget budget = made(manifest, plan, options);
    for (const Category category : kState) {
      CHECK(budget.classes[0].held(category) == on_device(all, category));
      const auto i = static_cast<size_t>(category);
      CHECK(budget.totals[i].on_devices == all.totals[i].on_devices);
    }
    CHECK(on_device(budget, Category::MasterWeights) == 0);
    CHECK(on_device(budget, Category::OptimizerState) == 0);
    CHECK((on_device(budget, Category::Parameters) == 0) == weights);
    CHECK(on_device(budget, Category::Gradients) > 0);
    CHECK(budget.classes[0].total + budget.classes[0].host ==
          all.classes[0].total);
  }
  // Weights that no axis of the batch cuts are fetched, a layer at a time.
  const Plan whole =
      testing::placed(manifest, testing::rules({{".", "tp"}}), "tp=4");
  CHECK(on_device(made(manifest, whole, options), Category::GatheredLayer) ==
        256 / 4 * 2);
  // FSDP2 knows no parts; DeepSpeed's gradients go to their optimizer.
  const Offload fsdp2 = whole_offload(options.state, true);
  CHECK((fsdp2.weights && fsdp2.optimizer && fsdp2.gradients));
  CHECK_FALSE(whole_offload(options.state, false).gradients);
  options.state.zero = 2;
  options.state.zero_style = ZeroStyle::DeepSpeed;
  CHECK(whole_offload(options.state, false).gradients);
}

TEST_CASE("a tensor whose spec names the pipeline axis is on every stage") {
  const Manifest manifest = small_model();
  const Plan plan = testing::placed(
      manifest, testing::rules({{"embed", "pp"}, {".", ""}}), "pp=2");
  BudgetOptions options;
  options.stages = Stages{"pp", {1, 2}};
  const Budget budget = made(manifest, plan, options);
  CHECK(budget.classes[0].stage == 1);
  CHECK(category_bytes(budget, Category::Parameters) == (128 + 256 + 256) * 2);
  CHECK(category_bytes(budget, Category::Parameters, 1) == (128 + 128) * 2);
  CHECK(total_of(budget, Category::Parameters).padding == 0);
}

TEST_CASE("the KV cache of a stage is that of its layers") {
  Manifest manifest = small_model();
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 3;
  manifest.facts.heads = 4;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 8;
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "pp=2");
  BudgetOptions options;
  options.kv = KvRequest{2, 10, DType::BF16, 1, false};
  options.stages = Stages{"pp", {1, 2}};
  const Budget budget = made(manifest, plan, options);
  // 2 heads x (8 + 8) elements x 2 bytes x 2 x 10 tokens for each layer.
  CHECK(category_bytes(budget, Category::KvCache) == 2 * 64 * 20);
  CHECK(category_bytes(budget, Category::KvCache, 1) == 64 * 20);
  CHECK(total_of(budget, Category::KvCache).padding == 0);
  // 20 tokens in pages of 16 are 2 x 16 for each of two sequences.
  options.kv->block = 16;
  const Budget paged = made(manifest, plan, options);
  CHECK(total_of(paged, Category::KvCache).with_replicas == 3 * 64 * 20);
  CHECK(total_of(paged, Category::KvCache).padding == 3 * 64 * (32 - 20));

  manifest.facts = {};
  Diagnostics diags;
  options.stages.reset();
  CHECK_FALSE(make_budget(manifest, plan, options, diags));
  CHECK(diags.cannot_run());
}

TEST_CASE("what ZeRO cannot shard is said in bytes") {
  const Manifest manifest =
      testing::manifest({{"a", "f32[7]"}, {"b", "f32[8]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  BudgetOptions options;
  options.state.optimizer = Optimizer::Lion;
  options.state.zero = 1;
  options.state.zero_axes = {"dp"};
  const Budget budget = made(manifest, plan, options);
  int64_t unsharded = 0;
  for (const LeafSum& sum : budget.leaves) unsharded += sum.unsharded;
  CHECK(unsharded == 7 * 4);
}

TEST_CASE("stages and ZeRO cannot share an axis") {
  const Manifest manifest = small_model();
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "pp=3");
  BudgetOptions options;
  options.state.optimizer = Optimizer::AdamW;
  options.state.zero = 1;
  options.state.zero_axes = {"pp"};
  options.stages = Stages{"pp", {}};
  Diagnostics diags;
  CHECK_FALSE(make_budget(manifest, plan, options, diags));
  CHECK(testing::first_message(diags) ==
        "axis `pp` is given to `--stages` and `--zero-axes`");
}

TEST_CASE("sizes beyond 63 bits are refused") {
  const Manifest manifest =
      testing::manifest({{"w", "i4[4294967296, 1073741824]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=2");
  Diagnostics diags;
  CHECK_FALSE(make_budget(manifest, plan, {}, diags));
  CHECK(diags.cannot_run());
}

// A plan as `resolve` could make it for random tensors and specs.
Plan random_plan(const Manifest& manifest, const Mesh& mesh,
                 OnIndivisible policy) {
  Plan plan{mesh, policy, true, {}, {}, {}, {}};
  for (size_t i = 0; i < manifest.size(); ++i) {
    Placement placement;
    placement.type = manifest.type(i);
    placement.spec =
        testing::draw_legal_spec(mesh, placement.type.shape.size());
    if (policy == OnIndivisible::Drop) {
      for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
        AxisNames& axes = placement.spec.dims[dim];
        if (placement.type.shape[dim] % shard_count(mesh, axes) != 0) {
          axes.clear();
        }
      }
    }
    measure(placement, mesh, policy);
    plan.placements.push_back(placement);
    plan.placement_of.push_back(static_cast<uint32_t>(i));
  }
  return plan;
}

StateOptions random_state(const Mesh& mesh) {
  StateOptions state;
  state.optimizer = static_cast<Optimizer>(draw_in(0, 7));
  state.zero_style = static_cast<ZeroStyle>(draw_in(0, 4));
  state.zero = draw_in(0, 4);
  if (state.zero_style == ZeroStyle::Megatron) {
    state.zero = std::min(state.zero, 1);
  }
  if (state.optimizer == Optimizer::Adafactor) {
    state.zero_style = ZeroStyle::Jax;
    state.zero = std::min(state.zero, 3);
  }
  if (state.zero > 0) {
    for (const Axis& axis : mesh.axes()) {
      if (state.zero_axes.empty() || draw_bool()) {
        state.zero_axes.push_back(axis.name);
      }
    }
  }
  return state;
}

// What one device stores of one leaf, computed again from slices.
Int128 stored_at(const StateLeaf& leaf, const Mesh& mesh, OnIndivisible policy,
                 const std::vector<int64_t>& coordinates) {
  int64_t rows = 1;
  int64_t others = 1;
  for (size_t dim = 0; dim < leaf.type.shape.size(); ++dim) {
    int64_t size = leaf.type.shape[dim];
    if (dim < leaf.spec.dims.size()) {
      const AxisNames& axes = leaf.spec.dims[dim];
      if (policy == OnIndivisible::Chunk) {
        const Slice slice =
            dimension_slice(mesh, axes, Cut::Chunked, size, coordinates);
        size = slice.end - slice.begin;
      } else {
        const int64_t n = shard_count(mesh, axes);
        size = (size + n - 1) / n;
      }
    }
    (dim == 0 ? rows : others) *= size;
  }
  int64_t elements = rows * others;
  if (leaf.layout == LeafLayout::Rows) {
    elements = (rows + leaf.zero_ranks - 1) / leaf.zero_ranks * others;
  } else if (leaf.layout == LeafLayout::Flat) {
    elements = (elements + leaf.zero_ranks - 1) / leaf.zero_ranks;
  }
  return *byte_count(elements, leaf.type.dtype);
}

TEST_CASE("devices one by one store what the classes and totals say") {
  CHECK(holds([] {
    const Manifest manifest = testing::draw_manifest();
    const Mesh mesh = testing::draw_mesh();
    const auto policy = draw_of(
        {OnIndivisible::Drop, OnIndivisible::Pad, OnIndivisible::Chunk});
    const Plan plan = random_plan(manifest, mesh, policy);
    BudgetOptions options;
    options.state = random_state(mesh);
    Diagnostics diags;
    const auto budget = make_budget(manifest, plan, options, diags);
    ENSURE(budget.has_value());

    int64_t devices = 0;
    std::array<Int128, kCategories> stored{};
    for (const BudgetClass& c : budget->classes) {
      devices += c.devices;
      for (size_t i = 0; i < kCategories; ++i) {
        stored[i] += static_cast<Int128>(c.bytes[i]) * c.devices;
      }
    }
    ENSURE(devices == mesh.devices());
    bool buffered = false;
    std::array<Int128, 4> one_by_one{};
    std::array<Int128, 4> copies{};
    for (const Placement& placement : plan.placements) {
      for (const StateLeaf& leaf :
           state_leaves(placement, mesh, policy, options.state)) {
        const auto kind = static_cast<size_t>(leaf.kind);
        buffered = buffered || leaf.layout == LeafLayout::Buffer;
        copies.at(kind) +=
            static_cast<Int128>(leaf.type.bytes()) *
            (mesh.devices() / shard_count(mesh, leaf.spec) / leaf.zero_ranks);
        for (int64_t d = 0; d < mesh.devices(); ++d) {
          one_by_one.at(kind) +=
              stored_at(leaf, mesh, policy, mesh.coordinates(d));
        }
      }
    }
    for (const Category category : kState) {
      const auto i = static_cast<size_t>(category);
      const CategoryTotal& total = budget->totals[i];
      ENSURE(total.on_devices == stored[i]);
      ENSURE(total.on_devices == total.with_replicas + total.padding);
      ENSURE(total.padding >= 0);
      if (category == Category::OptimizerState) continue;  // and counters
      ENSURE(total.with_replicas == copies[i]);
      if (!buffered) {
        ENSURE(total.on_devices == one_by_one[i]);
      }
    }
    Int128 padding = 0;
    int64_t fullest = 0;
    for (const LeafSum& sum : budget->leaves) {
      padding += sum.padding;
      fullest += sum.bytes_per_device;
    }
    Int128 expected = 0;
    for (const Category category : kState) {
      expected += total_of(*budget, category).padding;
      fullest -= category_bytes(*budget, category);
    }
    ENSURE(padding == expected);
    ENSURE(fullest == 0);
  }));
}

// Embedding, layers of two tensors, a norm and, unless tied, a head.
Manifest layered_model(int64_t layers, bool tied) {
  const auto size = [] { return draw_in<int64_t>(1, 20); };
  Manifest manifest;
  const auto add = [&](const std::string& name, const Shape& shape) {
    ENSURE(manifest.add(name, {DType::BF16, shape}, {}));
  };
  add("embed_tokens/embedding", {size(), size()});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = "layers/" + std::to_string(i) + "/";
    add(layer + "mlp/kernel", {size(), size()});
    add(layer + "norm/scale", {size()});
  }
  add("norm/scale", {size()});
  if (!tied) add("lm_head/kernel", {size(), size()});
  return manifest;
}

// The stages of each parameter of layered_model, computed again: contiguous
// layers, the remainder to the first stages.
std::vector<std::vector<int64_t>> stages_of(int64_t layers, int64_t stages,
                                            bool tied) {
  std::vector<std::vector<int64_t>> result = {{0}};
  if (tied && stages > 1) result[0].push_back(stages - 1);
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t own = layers / stages + (stage < layers % stages ? 1 : 0);
    result.insert(result.end(), static_cast<size_t>(2 * own), {stage});
  }
  result.insert(result.end(), tied ? 1 : 2, {stages - 1});
  return result;
}

TEST_CASE("devices of a pipeline store what the classes and totals say") {
  CHECK(holds([] {
    const auto stages = draw_in<int64_t>(1, 5);
    const auto layers = draw_in<int64_t>(stages, stages + 5);
    const bool tied = draw_bool();
    const auto policy = draw_of({OnIndivisible::Drop, OnIndivisible::Prefix,
                                 OnIndivisible::Pad, OnIndivisible::Chunk});
    const Manifest manifest = layered_model(layers, tied);
    const Mesh mesh({{"fsdp", draw_in<int64_t>(1, 5)},
                     {"pp", stages},
                     {"tp", draw_in<int64_t>(1, 4)}});
    const Plan plan = testing::placed(
        manifest, testing::rules({{"mlp|head", "fsdp, tp"}, {".", "fsdp"}}),
        mesh_text(mesh), policy);
    BudgetOptions options;
    options.stages = Stages{"pp", {}};
    Diagnostics diags;
    const auto budget = make_budget(manifest, plan, options, diags);
    ENSURE(budget.has_value());

    const auto on = stages_of(layers, stages, tied);
    ENSURE(on.size() == manifest.size());
    Int128 stored = 0;
    Int128 fullest = 0;
    for (int64_t d = 0; d < mesh.devices(); ++d) {
      const std::vector<int64_t> at = mesh.coordinates(d);
      Int128 here = 0;
      for (size_t i = 0; i < manifest.size(); ++i) {
        if (std::find(on[i].begin(), on[i].end(), at[1]) == on[i].end()) {
          continue;
        }
        StateLeaf leaf;
        leaf.type = manifest.type(i);
        leaf.spec = plan.of(i).spec;
        here += stored_at(leaf, mesh, policy, at);
      }
      stored += here;
      fullest = std::max(fullest, here);
    }
    Int128 copies = 0;
    for (size_t i = 0; i < manifest.size(); ++i) {
      copies += static_cast<Int128>(manifest.type(i).bytes()) *
                plan.of(i).replicas / stages *
                static_cast<int64_t>(on[i].size());
    }
    Int128 of_classes = 0;
    int64_t devices = 0;
    int64_t most = 0;
    for (size_t c = 0; c < budget->classes.size(); ++c) {
      const int64_t many = budget->classes[c].devices;
      const int64_t each = category_bytes(*budget, Category::Parameters, c);
      of_classes += static_cast<Int128>(many) * each;
      // Classes are ordered by all that they hold, gathered layers included.
      most = std::max(most, each);
      devices += many;
    }
    const CategoryTotal& total = total_of(*budget, Category::Parameters);
    ENSURE(devices == mesh.devices());
    ENSURE(of_classes == stored);
    ENSURE(total.on_devices == stored);
    ENSURE(total.with_replicas == copies);
    ENSURE(total.padding == stored - copies);
    ENSURE(most == fullest);
  }));
}

TEST_CASE("the budget of parameters alone is the plan's memory") {
  CHECK(holds([] {
    const Manifest manifest = testing::draw_manifest();
    const Mesh mesh = testing::draw_mesh();
    const Plan plan = random_plan(manifest, mesh, OnIndivisible::Chunk);
    Diagnostics diags;
    const auto memory = device_memory(manifest, plan, diags);
    const auto budget = make_budget(manifest, plan, {}, diags);
    ENSURE(budget.has_value());
    ENSURE(category_bytes(*budget, Category::Parameters) == memory->max);
    ENSURE(total_of(*budget, Category::Parameters).on_devices == memory->total);
  }));
}

bool are_equal(const Budget& a, const Budget& b) {
  const auto classes_are = [](const BudgetClass& one, const BudgetClass& two) {
    return one.bytes == two.bytes && one.devices == two.devices &&
           one.total == two.total;
  };
  const auto totals_are = [](const CategoryTotal& one,
                             const CategoryTotal& two) {
    return one.on_devices == two.on_devices &&
           one.with_replicas == two.with_replicas && one.padding == two.padding;
  };
  const auto leaves_are = [](const LeafSum& one, const LeafSum& two) {
    return one.role == two.role && one.dtype == two.dtype &&
           one.tensors == two.tensors && one.logical == two.logical &&
           one.bytes_per_device == two.bytes_per_device &&
           one.padding == two.padding && one.unsharded == two.unsharded;
  };
  return std::equal(a.classes.begin(), a.classes.end(), b.classes.begin(),
                    b.classes.end(), classes_are) &&
         std::equal(a.totals.begin(), a.totals.end(), b.totals.begin(),
                    totals_are) &&
         std::equal(a.leaves.begin(), a.leaves.end(), b.leaves.begin(),
                    b.leaves.end(), leaves_are);
}

Budget budget_with(const Manifest& manifest, const Plan& plan,
                   const StateOptions& state, const TrainedParameters& trained,
                   const GroupOfParameters& group_of = {}) {
  const StateSpecs kinds = kinds_by_training(plan, trained, group_of);
  BudgetOptions options;
  options.state = state;
  options.state_specs = &kinds;
  return made(manifest, plan, options);
}

TEST_CASE("all trained is as nothing said, all frozen as no optimizer") {
  CHECK(holds([] {
    const Manifest manifest = testing::draw_manifest();
    const Mesh mesh = testing::draw_mesh();
    const Plan plan =
        random_plan(manifest, mesh,
                    draw_of({OnIndivisible::Drop, OnIndivisible::Pad,
                             OnIndivisible::Chunk}));
    BudgetOptions options;
    options.state = random_state(mesh);
    ENSURE(are_equal(budget_with(manifest, plan, options.state,
                                 TrainedParameters(manifest.size(), true)),
                     made(manifest, plan, options)));

    const Budget frozen = budget_with(manifest, plan, options.state,
                                      TrainedParameters(manifest.size()));
    ENSURE(frozen.frozen.parameters == static_cast<int64_t>(manifest.size()));
    // Buffers, in which a framework keeps what it trains, are gone as well.
    const bool in_buffers = options.state.zero > 0 && options.state.zero < 3 &&
                            (options.state.zero_style == ZeroStyle::DeepSpeed ||
                             options.state.zero_style == ZeroStyle::Megatron);
    if (in_buffers) options.state = {};
    options.state.optimizer = Optimizer::None;
    ENSURE(are_equal(frozen, made(manifest, plan, options)));
  }));
}

// What is trained and what is frozen, each as a model of its own.
TEST_CASE("a model takes what its trained and its frozen part take") {
  CHECK(holds([] {
    const Manifest manifest = testing::draw_manifest();
    const Mesh mesh = testing::draw_mesh();
    const Plan plan = random_plan(manifest, mesh, OnIndivisible::Drop);
    const StateOptions state = random_state(mesh);
    TrainedParameters trained;
    std::array<Manifest, 2> parts;
    std::array<Plan, 2> plans = {
        Plan{mesh, OnIndivisible::Drop, true, {}, {}, {}, {}},
        Plan{mesh, OnIndivisible::Drop, true, {}, {}, {}, {}}};
    for (size_t i = 0; i < manifest.size(); ++i) {
      trained.push_back(draw_bool());
      const size_t part = trained.back() ? 1 : 0;
      ENSURE(parts.at(part).add(manifest.name(i), manifest.type(i), {}));
      plans.at(part).placement_of.push_back(
          static_cast<uint32_t>(plans.at(part).placements.size()));
      plans.at(part).placements.push_back(plan.of(i));
    }
    const Budget all = budget_with(manifest, plan, state, trained);
    const Budget frozen = budget_with(parts[0], plans[0], state,
                                      TrainedParameters(parts[0].size()));
    const Budget own = budget_with(parts[1], plans[1], state,
                                   TrainedParameters(parts[1].size(), true));
    for (const Category category : kState) {
      ENSURE(total_of(all, category).on_devices ==
             total_of(frozen, category).on_devices +
                 total_of(own, category).on_devices);
    }
    ENSURE(total_of(frozen, Category::Gradients).on_devices == 0);
    ENSURE(all.frozen.bytes == frozen.frozen.bytes);
    ENSURE(all.trained.elements == own.trained.elements);
  }));
}

// Of each group as a model of its own, with its optimizer.
TEST_CASE("groups of parameters take what each takes with its own optimizer") {
  CHECK(holds([] {
    const Manifest manifest = testing::draw_manifest();
    const Mesh mesh = testing::draw_mesh();
    const Plan plan = random_plan(manifest, mesh, OnIndivisible::Drop);
    StateOptions state = random_state(mesh);
    const bool any = state.zero_style == ZeroStyle::Jax;
    for (const Optimizer other : {Optimizer::Muon, Optimizer::AdamW}) {
      state.groups.push_back(
          {"", any ? draw_of({other, Optimizer::Adafactor}) : other});
    }
    if (state.optimizer == Optimizer::None) state.optimizer = Optimizer::Lion;
    const TrainedParameters trained(manifest.size(), true);
    GroupOfParameters group_of;
    for (size_t i = 0; i < manifest.size(); ++i) {
      group_of.push_back(static_cast<uint8_t>(draw_in(0, 3)));
    }
    const Budget all = budget_with(manifest, plan, state, trained, group_of);
    Int128 elements = 0;
    std::map<Category, Int128> sums;
    for (size_t group = 0; group <= state.groups.size(); ++group) {
      Manifest part;
      Plan placed{mesh, OnIndivisible::Drop, true, {}, {}, {}, {}};
      for (size_t i = 0; i < manifest.size(); ++i) {
        if (group_of[i] != group) continue;
        ENSURE(part.add(manifest.name(i), manifest.type(i), {}));
        placed.placement_of.push_back(
            static_cast<uint32_t>(placed.placements.size()));
        placed.placements.push_back(plan.of(i));
      }
      const Budget own =
          budget_with(part, placed, options_of_group(state, group),
                      TrainedParameters(part.size(), true));
      for (const Category category : kState) {
        sums[category] += total_of(own, category).on_devices;
      }
      ENSURE(all.groups[group].elements == own.groups[0].elements);
      elements += own.groups[0].elements;
    }
    for (const Category category : kState) {
      ENSURE(total_of(all, category).on_devices == sums[category]);
    }
    ENSURE(elements == all.trained.elements);
    Int128 leaves = 0;
    for (const LeafSum& sum : all.leaves) leaves += sum.bytes_per_device;
    const BudgetClass& fullest = all.classes.front();
    Int128 held = 0;
    for (const Category category : kState) {
      held += fullest.bytes[static_cast<size_t>(category)];
    }
    ENSURE(leaves == held);
  }));
}

}  // namespace
}  // namespace shardplan
