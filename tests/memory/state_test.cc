// SPDX-License-Identifier: Apache-2.0
#include "memory/state.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::placement;

StateOptions with(Optimizer optimizer) {
  StateOptions options;
  options.optimizer = optimizer;
  return options;
}

// "mu f32[8, 4] P(tp) 64": role, type, spec and bytes per device.
std::vector<std::string> leaves_text(const std::string& type,
                                     const std::string& spec,
                                     const StateOptions& options) {
  const Mesh devices = mesh("dp=2,tp=2");
  std::vector<std::string> lines;
  for (const StateLeaf& leaf :
       state_leaves(placement(type, spec, devices), devices,
                    OnIndivisible::Drop, options)) {
    lines.push_back(std::string(leaf.role) + " " + type_text(leaf.type) + " " +
                    spec_text(leaf.spec) + " " +
                    std::to_string(leaf.bytes_per_device));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("every optimizer and style is found by the name it is given") {
  for (const std::string_view name : optimizer_names()) {
    const auto found = find_optimizer(name);
    CHECK(found);
    CHECK(optimizer_name(*found) == name);
  }
  for (size_t i = 0; i < zero_style_names().size(); ++i) {
    CHECK(zero_style_name(static_cast<ZeroStyle>(i)) == zero_style_names()[i]);
  }
  CHECK(zero_style_name(ZeroStyle::Fsdp2) == "fsdp2");
  for (size_t i = 0; i < step_precision_names().size(); ++i) {
    CHECK(find_step_precision(step_precision_names()[i]) ==
          static_cast<StepPrecision>(i));
  }
  CHECK(find_step_precision("mixed") == StepPrecision::Mixed);
  CHECK_FALSE(find_step_precision("torch"));
  CHECK_FALSE(find_optimizer("adam"));
}

TEST_CASE("without an optimizer there is the parameter alone") {
  CHECK(leaves_text("bf16[8, 4]", "tp", with(Optimizer::None)) ==
        Lines{"param bf16[8, 4] P(tp) 32"});
}

TEST_CASE("adamw keeps two moments beside gradient and master weights") {
  CHECK(leaves_text("bf16[8, 4]", "tp", with(Optimizer::AdamW)) ==
        Lines{"param bf16[8, 4] P(tp) 32", "grad bf16[8, 4] P(tp) 32",
              "master f32[8, 4] P(tp) 64", "mu f32[8, 4] P(tp) 64",
              "nu f32[8, 4] P(tp) 64"});
  // f32 weights are their own master.
  CHECK(leaves_text("f32[8]", "", with(Optimizer::Lion)) ==
        Lines{"param f32[8] P() 32", "grad f32[8] P() 32", "mu f32[8] P() 32"});
}

TEST_CASE("sgd keeps nothing, with momentum a trace") {
  StateOptions options = with(Optimizer::Sgd);
  options.no_master = true;
  CHECK(leaves_text("bf16[8]", "dp", options) ==
        Lines{"param bf16[8] P(dp) 8", "grad bf16[8] P(dp) 8"});
  options.optimizer = Optimizer::SgdMomentum;
  CHECK(leaves_text("bf16[8]", "dp", options).back() ==
        "trace f32[8] P(dp) 16");
}

TEST_CASE("dtypes of weights, gradients, master and moments can be chosen") {
  StateOptions options = with(Optimizer::AdamW);
  options.param_dtype = DType::F16;
  options.grad_dtype = DType::F32;
  options.moment_dtype = DType::BF16;
  options.master_dtype = DType::F64;
  CHECK(leaves_text("f32[8]", "", options) ==
        Lines{"param f16[8] P() 16", "grad f32[8] P() 32",
              "master f64[8] P() 64", "mu bf16[8] P() 16",
              "nu bf16[8] P() 16"});
}

TEST_CASE("a precision is several dtypes, of which each may be given") {
  const auto leaves = [](StepPrecision precision, DType stored,
                         StateOptions options) {
    return leaves_text(stored == DType::F32 ? "f32[8]" : "bf16[8]", "",
                       with_precision(options, precision, stored));
  };
  const StateOptions adamw = with(Optimizer::AdamW);
  CHECK(leaves(StepPrecision::F32, DType::BF16, adamw) ==
        Lines{"param f32[8] P() 32", "grad f32[8] P() 32", "mu f32[8] P() 32",
              "nu f32[8] P() 32"});
  CHECK(leaves(StepPrecision::BF16, DType::F32, adamw) ==
        Lines{"param bf16[8] P() 16", "grad bf16[8] P() 16",
              "mu bf16[8] P() 16", "nu bf16[8] P() 16"});
  CHECK(leaves(StepPrecision::Mixed, DType::F32, adamw) ==
        Lines{"param bf16[8] P() 16", "grad bf16[8] P() 16",
              "master f32[8] P() 32", "mu f32[8] P() 32", "nu f32[8] P() 32"});
  CHECK(leaves(StepPrecision::Autocast, DType::BF16, adamw) ==
        leaves(StepPrecision::F32, DType::BF16, adamw));
  CHECK(with_precision(adamw, StepPrecision::Autocast, DType::F32).autocast);
  StateOptions given = adamw;
  given.grad_dtype = DType::F32;
  given.master_dtype = DType::F32;
  CHECK(leaves(StepPrecision::F16, DType::BF16, given) ==
        Lines{"param f16[8] P() 16", "grad f32[8] P() 32",
              "master f32[8] P() 32", "mu f16[8] P() 16", "nu f16[8] P() 16"});
}

TEST_CASE("what is not a floating point has neither gradient nor state") {
  StateOptions options = with(Optimizer::AdamW);
  options.param_dtype = DType::BF16;
  for (const std::string type : {"i8[8]", "u8[8]", "bool[8]"}) {
    CHECK(leaves_text(type, "", options) == Lines{"param " + type + " P() 8"});
  }
  CHECK_FALSE(is_trainable(DType::F8E8M0));
  CHECK_FALSE(is_trainable(DType::F4E2M1));
  CHECK(is_trainable(DType::F8E4M3FN));
}

TEST_CASE("a frozen parameter is there as it is stored, and nothing beside") {
  const Mesh devices = mesh("dp=2,tp=2");
  StateOptions options = with(Optimizer::AdamW);
  options.param_dtype = DType::F32;
  const auto leaves = [&](bool trained) {
    return state_leaves(placement("bf16[8, 4]", "tp", devices), devices,
                        OnIndivisible::Drop, options, nullptr, trained);
  };
  CHECK(leaves(true).size() == 4);
  REQUIRE(leaves(false).size() == 1);
  CHECK(type_text(leaves(false)[0].type) == "bf16[8, 4]");
  // ZeRO-3 shards it as any other; flat buffers hold what is trained alone.
  options.zero_axes = {"dp"};
  for (const auto style :
       {ZeroStyle::Jax, ZeroStyle::DeepSpeed, ZeroStyle::Fsdp2}) {
    options.zero_style = style;
    options.zero = 3;
    CHECK(leaves(false)[0].bytes_per_device == 16);
    options.zero = 2;
    CHECK(leaves(false)[0].bytes_per_device == 32);
    CHECK(leaves(false)[0].layout == LeafLayout::Spec);
  }
  options.zero_style = ZeroStyle::Megatron;
  options.zero = 1;
  CHECK(leaves(true)[0].layout == LeafLayout::Buffer);
  CHECK(leaves(false)[0].layout == LeafLayout::Spec);
}

TEST_CASE("rules for optimizer state are asked for what is trained alone") {
  const Manifest manifest =
      testing::manifest({{"w", "bf16[8, 4]"}, {"b", "bf16[8, 4]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "tp"}}), "dp=2,tp=2");
  Diagnostics diags;
  const auto specs = resolve_state_rules(manifest, plan, with(Optimizer::Lion),
                                         testing::rules({{"^mu/", "dp"}}), {},
                                         {false, true}, {}, diags);
  REQUIRE(specs);
  REQUIRE(specs->leaves.size() == 1);
  CHECK(specs->leaves.name(0) == "mu/b");
  REQUIRE(specs->kinds.size() == 2);
  CHECK_FALSE(specs->kinds[specs->kind_of[0]].trained);
  CHECK(specs->kinds[specs->kind_of[1]].trained);
}

TEST_CASE("rules are asked for the leaves of each group's optimizer") {
  const Manifest manifest = testing::manifest(
      {{"w", "bf16[8, 4]"}, {"b", "bf16[8, 4]"}, {"c", "bf16[8, 4]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "tp"}}), "dp=2,tp=2");
  StateOptions options = with(Optimizer::Lion);
  options.groups = {{"b", Optimizer::AdamW}};
  Diagnostics diags;
  const auto specs = resolve_state_rules(
      manifest, plan, options, testing::rules({{"^mu/", "dp"}, {"^nu/", "tp"}}),
      {}, {true, true, false}, {0, 1, 1}, diags);
  REQUIRE(specs);
  REQUIRE(specs->leaves.size() == 3);
  CHECK(specs->leaves.name(0) == "mu/w");
  CHECK(specs->leaves.name(1) == "mu/b");
  CHECK(specs->leaves.name(2) == "nu/b");
  CHECK(specs->kinds[specs->kind_of[0]].group == 0);
  CHECK(specs->kinds[specs->kind_of[1]].group == 1);
  CHECK_FALSE(specs->kinds[specs->kind_of[2]].trained);
}

// optax.adafactor: v_row lacks the largest dimension, v_col the second.
TEST_CASE("adafactor factors where two dimensions have at least 128") {
  StateOptions options = with(Optimizer::Adafactor);
  options.no_master = true;
  const auto state = [&](const std::string& type, const std::string& spec) {
    Lines lines = leaves_text(type, spec, options);
    lines.erase(lines.begin(), lines.begin() + 2);
    return lines;
  };
  CHECK(state("f32[128, 256]", "dp, tp") == Lines{"v_row f32[128] P(dp) 256",
                                                  "v_col f32[256] P(tp) 512",
                                                  "v f32[1] P() 4"});
  CHECK(state("f32[256, 128]", "dp, tp") == Lines{"v_row f32[128] P(tp) 256",
                                                  "v_col f32[256] P(dp) 512",
                                                  "v f32[1] P() 4"});
  // Of equal dimensions the later one counts as the larger.
  CHECK(state("f32[128, 128]", "dp, None") == Lines{"v_row f32[128] P(dp) 256",
                                                    "v_col f32[128] P() 512",
                                                    "v f32[1] P() 4"});
  CHECK(state("f32[4, 300, 200]", "tp, dp") ==
        Lines{"v_row f32[4, 200] P(tp) 1600",
              "v_col f32[4, 300] P(tp, dp) 1200", "v f32[1] P() 4"});
  CHECK(state("f32[127, 512]", "dp") == Lines{"v_row f32[1] P() 4",
                                              "v_col f32[1] P() 4",
                                              "v f32[127, 512] P(dp) 131072"});
  CHECK(state("f32[512]", "dp") == Lines{"v_row f32[1] P() 4",
                                         "v_col f32[1] P() 4",
                                         "v f32[512] P(dp) 1024"});
}

// optax.contrib.muon: parameters of rank 2 alone are matrices.
TEST_CASE("muon keeps one moment of matrices and two of others") {
  const StateOptions options = with(Optimizer::Muon);
  CHECK(leaves_text("f32[8, 4]", "", options) ==
        Lines{"param f32[8, 4] P() 128", "grad f32[8, 4] P() 128",
              "mu f32[8, 4] P() 128"});
  CHECK(leaves_text("f32[2, 8, 4]", "", options).back() ==
        "nu f32[2, 8, 4] P() 256");
  CHECK(leaves_text("f32[8]", "", options).back() == "nu f32[8] P() 32");
}

TEST_CASE("counters are one number for all parameters, on every device") {
  const Mesh devices = mesh("dp=4");
  const auto bytes = [&](Optimizer optimizer) {
    int64_t sum = 0;
    for (const StateLeaf& leaf : optimizer_counters(devices, with(optimizer))) {
      CHECK(leaf.replicas == 4);
      sum += leaf.bytes_per_device;
    }
    return sum;
  };
  CHECK(bytes(Optimizer::AdamW) == 4);
  CHECK(bytes(Optimizer::Adafactor) == 4);
  CHECK(bytes(Optimizer::Lion) == 4);
  CHECK(bytes(Optimizer::Sgd) == 0);
  CHECK(bytes(Optimizer::SgdMomentum) == 0);
  // Two counters and the three coefficients of its iteration.
  CHECK(bytes(Optimizer::Muon) == 20);
}

TEST_CASE("leaves can have specs of their own") {
  const Mesh devices = mesh("dp=2,tp=2");
  const RoleSpecs specs = {{"nu", testing::spec("None, dp")}};
  const auto leaves =
      state_leaves(placement("f32[8, 4]", "tp", devices), devices,
                   OnIndivisible::Drop, with(Optimizer::AdamW), &specs);
  REQUIRE(leaves.size() == 4);
  CHECK(spec_text(leaves[2].spec) == "P(tp)");
  CHECK(spec_text(leaves[3].spec) == "P(None, dp)");
  CHECK(leaves[3].local_shape == Shape{8, 2});
}

TEST_CASE("padding is what is stored beyond every copy") {
  const Mesh devices = mesh("dp=2,tp=4");
  const auto leaves =
      state_leaves(placement("f32[9]", "tp", devices, OnIndivisible::Pad),
                   devices, OnIndivisible::Pad, with(Optimizer::None));
  // 3 rows on each of 8 devices, two copies of 9.
  CHECK(leaves.front().bytes_per_device * 8 -
            leaves.front().replicas * leaves.front().logical_bytes ==
        (3 * 8 - 2 * 9) * 4);
}

// 1,669 rows stored as 1,792: state follows what is stored, and the difference
// is padding.
TEST_CASE("state is stored as was declared") {
  const Mesh devices = mesh("dp=2,tp=4");
  Placement padded = placement("bf16[1669, 8]", "tp", devices);
  padded.stored_dims = {{0, 1792, "pad-vocab=128"}};
  measure(padded, devices, OnIndivisible::Drop);
  for (const StateLeaf& leaf : state_leaves(
           padded, devices, OnIndivisible::Drop, with(Optimizer::AdamW))) {
    const int64_t element = leaf.type.dtype == DType::BF16 ? 2 : 4;
    CHECK(leaf.local_shape == Shape{448, 8});
    CHECK(leaf.bytes_per_device == 448 * 8 * element);
    CHECK(leaf.logical_bytes == 1669 * 8 * element);
    CHECK(leaf.bytes_per_device * 8 - leaf.replicas * leaf.logical_bytes ==
          (1792 - 1669) * 8 * element * 2);
  }
}

TEST_CASE("rules place leaves under their role and the parameter's name") {
  const Manifest manifest =
      testing::manifest({{"w", "bf16[8, 4]"}, {"b", "bf16[4]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "tp"}}), "dp=2,tp=2");
  StateOptions options;
  options.optimizer = Optimizer::AdamW;
  Diagnostics diags;
  const auto specs = resolve_state_rules(
      manifest, plan, options,
      testing::rules({{"^mu/w$", "(dp, tp)"}, {"^nu/", "dp"}}), {}, {}, {},
      diags);
  REQUIRE(specs);
  CHECK(specs->leaves.size() == 4);
  CHECK(specs->leaves.name(0) == "mu/w");
  CHECK(type_text(specs->leaves.type(0)) == "f32[8, 4]");
  const StateSpecs::Kind& kind = specs->kinds[specs->kind_of[0]];
  CHECK(spec_text(kind.specs.at("mu")) == "P((dp, tp), None)");
  CHECK(spec_text(kind.specs.at("nu")) == "P(dp, None)");
  // No rule is found in mu/b: replicated, and a finding of the leaves' plan.
  CHECK(spec_text(specs->kinds[specs->kind_of[1]].specs.at("mu")) == "P()");
  CHECK(specs->plan.is_unmatched(specs->plan.of(2)));
}

TEST_CASE("placeholders and counters are not asked for") {
  const Manifest manifest = testing::manifest({{"w", "f32[256, 128]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=2");
  StateOptions options;
  options.optimizer = Optimizer::Adafactor;
  Diagnostics diags;
  const auto specs =
      resolve_state_rules(manifest, plan, options,
                          testing::rules({{".", "dp"}}), {}, {}, {}, diags);
  REQUIRE(specs);
  CHECK(specs->leaves.size() == 2);
  CHECK(specs->leaves.name(0) == "v_row/w");
  CHECK(specs->leaves.name(1) == "v_col/w");
}

TEST_CASE("a pattern that cannot be compiled leaves no specs") {
  const Manifest manifest = testing::manifest({{"w", "f32[8]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=2");
  StateOptions options;
  options.optimizer = Optimizer::Lion;
  Diagnostics diags;
  CHECK_FALSE(resolve_state_rules(manifest, plan, options,
                                  testing::rules({{"(?=w)", "dp"}}), {}, {}, {},
                                  diags));
  CHECK(diags.cannot_run());
}

// Bytes by role on the first device, with all parameters on it.
std::map<std::string, int64_t> held_bytes(const Manifest& manifest,
                                          const Plan& plan,
                                          const StateOptions& options) {
  const HeldState held = hold_state(plan, options, nullptr);
  std::vector<int64_t> counts(plan.placements.size());
  for (size_t i = 0; i < manifest.size(); ++i) ++counts[plan.placement_of[i]];
  std::map<std::string, int64_t> bytes;
  visit_held(held, plan.mesh, options, counts,
             std::vector<int64_t>(plan.mesh.axes().size()),
             [&](size_t sum, StateKind, Int128 size) {
               bytes[std::string(held.sums[sum].role)] +=
                   static_cast<int64_t>(size);
             });
  return bytes;
}

// What classes of devices hold, at once and one by one.
void check_by_class(const Manifest& manifest, const Plan& plan,
                    const StateOptions& options,
                    const std::vector<std::vector<int64_t>>& counts,
                    const AxisName& stages) {
  const HeldState held = hold_state(plan, options, nullptr);
  Breakpoints breakpoints = held.breakpoints;
  HeldCounts on{counts, std::nullopt};
  for (size_t axis = 0; axis < plan.mesh.axes().size(); ++axis) {
    if (plan.mesh.axes()[axis].name == stages) on.axis = axis;
  }
  for (size_t stage = 1; stage < counts.size(); ++stage) {
    breakpoints[stages].insert(static_cast<int64_t>(stage));
  }
  const auto classes =
      coordinate_classes(plan.mesh, plan.mesh, breakpoints, 1 << 20);
  REQUIRE(classes);
  CHECK(classes->size() > 1);
  const HeldByClass at_once =
      held_by_class(held, plan.mesh, options, on,
                    ClassSums(plan.mesh, plan.mesh, breakpoints), *classes);
  std::vector<Int128> of_sum(held.sums.size());
  for (size_t c = 0; c < classes->size(); ++c) {
    const CoordinateClass& place = (*classes)[c];
    const size_t stage =
        on.axis ? static_cast<size_t>(place.coordinates[*on.axis]) : 0;
    std::array<Int128, 4> bytes{};
    visit_held(held, plan.mesh, options, counts[stage], place.coordinates,
               [&](size_t sum, StateKind kind, Int128 size) {
                 bytes.at(static_cast<size_t>(kind)) += size;
                 of_sum[sum] += size * place.devices;
               });
    for (size_t kind = 0; kind < bytes.size(); ++kind) {
      CAPTURE(c);
      CAPTURE(kind);
      CHECK(at_once.bytes.at(kind)[c] == bytes.at(kind));
    }
  }
  CHECK(at_once.of_sum == of_sum);
  CHECK(manifest.size() > 0);
}

TEST_CASE("classes hold at once what each of them holds") {
  const Manifest manifest = testing::manifest({{"a", "bf16[13, 9]"},
                                               {"b", "bf16[5]"},
                                               {"c", "f32[31, 3]"},
                                               {"d", "f32[2, 2, 7]"}});
  const RuleSet rules = testing::rules({{"a", "dp, tp"},
                                        {"b", "(dp, tp)"},
                                        {"c", "tp"},
                                        {"d", "None, None, dp"}});
  const Plan plan =
      testing::placed(manifest, rules, "pp=3,dp=4,tp=3", OnIndivisible::Chunk);
  const std::vector<std::vector<int64_t>> alike = {{4, 1, 2, 1}};
  const std::vector<std::vector<int64_t>> by_stage = {
      {2, 1, 0, 1}, {2, 0, 0, 1}, {0, 0, 2, 1}};
  for (const Optimizer optimizer : {Optimizer::None, Optimizer::AdamW,
                                    Optimizer::Adafactor, Optimizer::Muon}) {
    for (const ZeroStyle style : {ZeroStyle::Jax, ZeroStyle::DeepSpeed,
                                  ZeroStyle::Fsdp2, ZeroStyle::Megatron}) {
      for (const int zero : {0, 1, 3}) {
        StateOptions options;
        options.optimizer = optimizer;
        options.zero = zero;
        options.zero_axes = {"dp"};
        options.zero_style = style;
        CAPTURE(optimizer_name(optimizer));
        CAPTURE(zero_style_name(style));
        CAPTURE(zero);
        check_by_class(manifest, plan, options, alike, "");
        check_by_class(manifest, plan, options, by_stage, "pp");
      }
    }
  }
}

StateOptions zero1(ZeroStyle style, Optimizer optimizer = Optimizer::Lion) {
  StateOptions options;
  options.optimizer = optimizer;
  options.zero = 1;
  options.zero_axes = {"dp"};
  options.zero_style = style;
  return options;
}

TEST_CASE("deepspeed pads one buffer per dtype of weights") {
  const Manifest manifest =
      testing::manifest({{"a", "bf16[5]"}, {"b", "bf16[6]"}, {"c", "f32[3]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  const auto bytes = held_bytes(manifest, plan, zero1(ZeroStyle::DeepSpeed));
  // 11 and 3 elements, padded to multiples of 8.
  CHECK(bytes.at("param") == 16 * 2 + 8 * 4);
  CHECK(bytes.at("grad") == 11 * 2 + 3 * 4);
  CHECK(bytes.at("master") == 16 / 4 * 4);
  CHECK(bytes.at("mu") == 16 / 4 * 4 + 8 / 4 * 4);
}

TEST_CASE("megatron begins parameters at multiples of 64 elements") {
  const Manifest manifest =
      testing::manifest({{"a", "bf16[65]"}, {"b", "bf16[100]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  const auto bytes = held_bytes(manifest, plan, zero1(ZeroStyle::Megatron));
  CHECK(bytes.at("param") == 256 * 2);
  CHECK(bytes.at("grad") == 256 * 2);
  CHECK(bytes.at("mu") == 256 / 4 * 4);
}

TEST_CASE("weights that use an axis have a buffer of their own") {
  const Manifest manifest =
      testing::manifest({{"dense", "f32[3]"}, {"experts", "f32[8]"}});
  const Plan plan = testing::placed(
      manifest, testing::rules({{"experts", "dp"}, {"dense", ""}}), "dp=4");
  const auto bytes = held_bytes(manifest, plan, zero1(ZeroStyle::DeepSpeed));
  // 3 elements padded to 8 over 4 ranks; 2 local ones over one rank.
  CHECK(bytes.at("mu") == (2 + 2) * 4);
}

TEST_CASE("muon's matrices and other weights are apart") {
  const Manifest manifest =
      testing::manifest({{"w", "f32[3, 3]"}, {"b", "f32[3]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=4");
  const auto bytes =
      held_bytes(manifest, plan, zero1(ZeroStyle::DeepSpeed, Optimizer::Muon));
  CHECK(bytes.at("mu") == (16 + 8) / 4 * 4);
  CHECK(bytes.at("nu") == 8 / 4 * 4);
}

// What bitsandbytes keeps (tests/data/optimizers_8bit.jsonl, record_8bit.py).
TEST_CASE("adamw8bit: moments in blocks, and small ones whole") {
  const std::map<std::string, std::string> names = {{"state1", "mu"},
                                                    {"state2", "nu"},
                                                    {"absmax1", "mu_absmax"},
                                                    {"absmax2", "nu_absmax"}};
  const StateOptions options = with(Optimizer::AdamW8bit);
  std::ifstream lines(testing::data_path("optimizers_8bit.jsonl"));
  REQUIRE(lines.good());
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    CAPTURE(line);
    if (row.contains("shared")) {
      const auto counters = optimizer_counters(mesh("a=1"), options);
      CHECK(counters.size() == row["shared"].size());
      for (const StateLeaf& leaf : counters) {
        CHECK(leaf.bytes_per_device == 1024);
      }
      continue;
    }
    const auto roles =
        optimizer_roles({DType::BF16, row["shape"].get<Shape>()}, options);
    CHECK(roles.size() == row["state"].size());
    for (const auto& [theirs, type] : row["state"].items()) {
      const auto role =
          std::ranges::find(roles, names.at(theirs), &RoleType::role);
      REQUIRE(role != roles.end());
      CHECK(role->type.shape == type[0].get<Shape>());
      CHECK((role->type.dtype == DType::U8 ? "uint8" : "float32") ==
            type[1].get<std::string>());
    }
    ++rows;
  }
  CHECK(rows == 10);
}

// What torchao keeps (tests/data/optimizers_torchao.jsonl, record_torchao.py).
TEST_CASE("torchao: a table for each state, and whole blocks alone") {
  const std::map<std::string, std::string> names = {
      {"exp_avg", "mu"},
      {"exp_avg.codes", "mu"},
      {"exp_avg.scale", "mu_scale"},
      {"exp_avg.qmap", "mu_qmap"},
      {"exp_avg_sq", "nu"},
      {"exp_avg_sq.codes", "nu"},
      {"exp_avg_sq.scale", "nu_scale"},
      {"exp_avg_sq.qmap", "nu_qmap"}};
  const Mesh one = mesh("a=1");
  std::ifstream lines(testing::data_path("optimizers_torchao.jsonl"));
  REQUIRE(lines.good());
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    CAPTURE(line);
    const auto optimizer = find_optimizer(row["optimizer"].get<std::string>());
    REQUIRE(optimizer);
    std::map<std::string, int64_t> theirs;
    for (const auto& tensor : row["state"]) {
      theirs[names.at(tensor[0].get<std::string>())] = tensor[2].get<int64_t>();
    }
    Placement placed;
    placed.type = {row["dtype"] == "bfloat16" ? DType::BF16 : DType::F32,
                   row["shape"].get<Shape>()};
    std::map<std::string, int64_t> ours;
    for (const StateLeaf& leaf :
         state_leaves(placed, one, OnIndivisible::Drop, with(*optimizer))) {
      if (leaf.kind != StateKind::Optimizer) continue;
      ours[std::string(leaf.role)] = leaf.bytes_per_device;
    }
    CHECK(ours == theirs);
    CHECK(optimizer_counters(one, with(*optimizer)).empty());
    ++rows;
  }
  CHECK(rows == 72);
}

// As it did on three processes with fully_shard: each rank looks at its own.
TEST_CASE("torchao: what a rank holds decides whether it is quantised") {
  const Mesh three = mesh("fsdp=3");
  const auto held = [&](const char* type) {
    std::map<std::string, int64_t> bytes;
    for (const StateLeaf& leaf : state_leaves(
             placement(type, "fsdp", three), three, OnIndivisible::Chunk,
             with(Optimizer::TorchaoAdamW8bit), nullptr, true)) {
      if (leaf.kind == StateKind::Optimizer) {
        bytes[std::string(leaf.role)] = leaf.bytes_per_device;
      }
    }
    return bytes;
  };
  // 22 rows of 128 are fewer than 4,096.
  CHECK(held("bf16[64, 128]") ==
        std::map<std::string, int64_t>{{"mu", 22 * 128 * 2},
                                       {"nu", 22 * 128 * 2}});
  const auto quantised = held("bf16[96, 256]");
  CHECK(quantised.at("mu") == 32 * 256);
  CHECK(quantised.at("mu_scale") == 32 * 4);
  CHECK(quantised.at("nu_qmap") == 1024);
}

TEST_CASE("adamw8bit: scales are cut as their parameter is") {
  const Mesh devices = mesh("fsdp=4,tp=2");
  const StateOptions options = with(Optimizer::AdamW8bit);
  std::map<std::string, int64_t> bytes;
  for (const StateLeaf& leaf :
       state_leaves(placement("bf16[4096, 1024]", "tp, fsdp", devices), devices,
                    OnIndivisible::Drop, options, nullptr, true)) {
    bytes[std::string(leaf.role)] = leaf.bytes_per_device;
  }
  CHECK(bytes["mu"] == 4096 * 1024 / 8);
  CHECK(bytes["mu_absmax"] == 4 * (4096 * 1024 / 256) / 8);
  // Pieces end in a block that is not full: 3 rows of 1,000 are 12 blocks.
  const Mesh two = mesh("fsdp=2");
  for (const StateLeaf& leaf :
       state_leaves(placement("bf16[6, 1000]", "fsdp", two), two,
                    OnIndivisible::Drop, options, nullptr, true)) {
    if (leaf.role == "nu_absmax") CHECK(leaf.bytes_per_device == 4 * 12);
  }
}

}  // namespace

}  // namespace shardplan
