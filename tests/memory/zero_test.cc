// SPDX-License-Identifier: Apache-2.0
#include "memory/zero.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::placement;

StateOptions zero(int stage, ZeroStyle style, AxisNames axes = {"dp"}) {
  StateOptions options;
  options.optimizer = Optimizer::AdamW;
  options.zero = stage;
  options.zero_axes = std::move(axes);
  options.zero_style = style;
  return options;
}

StateLeaf leaf_of(StateKind kind, const std::string& type,
                  const std::string& spec, const Mesh& devices,
                  const StateOptions& options) {
  for (const StateLeaf& leaf :
       state_leaves(placement(type, spec, devices), devices,
                    OnIndivisible::Drop, options)) {
    if (leaf.kind == kind) return leaf;
  }
  FAIL("no such leaf");
  return {};
}

std::string problem(const StateOptions& options) {
  Diagnostics diags;
  const bool good = check_state_options(options, mesh("dp=4,tp=2"), diags);
  CHECK(good == !diags.has_errors());
  return testing::first_message(diags);
}

// The ranks and parameters of the comment in Megatron-core's shard_params: of
// ten by size, 1, 8 and 9 go to the first of four, 2, 7 and 10 to the second.
TEST_CASE("Megatron deals Muon's parameters out whole") {
  StateOptions muon = zero(1, ZeroStyle::Megatron);
  muon.optimizer = Optimizer::Muon;
  FlatBuffer buffer;
  buffer.shared_by = 4;
  CHECK(is_dealt(buffer, muon));
  CHECK_FALSE(is_dealt(buffer, zero(1, ZeroStyle::Megatron)));
  std::map<uint32_t, DealtKind> kinds;
  for (uint32_t number = 1; number <= 10; ++number) {
    kinds[11 - number] = {Int128{number}, 1, {0}};
  }
  std::vector<Int128> bytes(1);
  const std::vector<FlatBuffer> one = {buffer};
  deal(kinds, one, bytes);
  CHECK(bytes[0] == 4 * (2 + 7 + 10));
  // All ranks have two of each kind of eight; an embedding is on one.
  bytes = {0, 0};
  const std::vector<FlatBuffer> two = {buffer, buffer};
  deal({{0, {10, 8, {0}}}, {1, {1000, 1, {0, 1}}}}, two, bytes);
  CHECK(bytes[0] == 4 * (2 * 10 + 1000));
  CHECK(bytes[1] == 4 * 1000);
}

TEST_CASE("mistakes with ZeRO's stage, axes and style are reported") {
  CHECK(problem(zero(1, ZeroStyle::Jax)).empty());
  CHECK(problem(zero(0, ZeroStyle::Jax, {})).empty());
  CHECK(problem(zero(1, ZeroStyle::Jax, {})) ==
        "`--zero 1` needs axes to shard over");
  CHECK(problem(zero(0, ZeroStyle::Jax)) ==
        "`--zero-axes` is given without a ZeRO stage");
  CHECK(problem(zero(1, ZeroStyle::Jax, {"fsdp"})) ==
        "`--zero-axes` names axis `fsdp`, which the mesh does not have");
  CHECK(problem(zero(1, ZeroStyle::Jax, {"dp", "dp"})) ==
        "`--zero-axes` names axis `dp` twice");
  CHECK(problem(zero(2, ZeroStyle::Megatron)) ==
        "`--zero-style megatron` has no ZeRO stage 2");
  StateOptions factored = zero(1, ZeroStyle::Fsdp2);
  factored.optimizer = Optimizer::Adafactor;
  CHECK(problem(factored) ==
        "`--zero-style fsdp2` cannot shard adafactor's state");
}

TEST_CASE("jax adds the axes to the first dimension that they divide") {
  const Mesh devices = mesh("dp=4,tp=2");
  const auto spec_after = [&](const std::string& type, const std::string& spec,
                              int stage, StateKind kind) {
    return spec_text(
        leaf_of(kind, type, spec, devices, zero(stage, ZeroStyle::Jax)).spec);
  };
  const auto state = StateKind::Optimizer;
  CHECK(spec_after("f32[8, 6]", "tp", 1, state) == "P((dp, tp), None)");
  // tp leaves 3 of dimension 0.
  CHECK(spec_after("f32[6, 8]", "tp", 1, state) == "P(tp, dp)");
  CHECK(spec_after("f32[8, 8]", "dp", 1, state) == "P(dp)");
  CHECK(spec_after("f32[8, 8]", "", 1, StateKind::Gradient) == "P()");
  CHECK(spec_after("f32[8, 8]", "", 2, StateKind::Gradient) == "P(dp, None)");
  CHECK(spec_after("f32[8, 8]", "", 2, StateKind::Parameter) == "P()");
  CHECK(spec_after("f32[8, 8]", "", 3, StateKind::Parameter) == "P(dp, None)");
  const StateLeaf whole =
      leaf_of(state, "f32[6, 6]", "", devices, zero(1, ZeroStyle::Jax));
  CHECK(whole.zero_failed);
  CHECK(whole.replicas == 8);
}

TEST_CASE("fsdp2 stores as many rows as the first chunk, of local shards") {
  const Mesh devices = mesh("dp=4,tp=2");
  const StateOptions options = zero(3, ZeroStyle::Fsdp2);
  const StateLeaf odd =
      leaf_of(StateKind::Parameter, "bf16[18, 5]", "tp", devices, options);
  // 9 local rows in chunks of 3, 3, 3, 0.
  CHECK(odd.bytes_per_device == 3 * 5 * 2);
  CHECK(odd.replicas == 1);
  CHECK(odd.bytes_per_device * 8 - odd.replicas * odd.logical_bytes ==
        (8 * 15 - 18 * 5) * 2);
  const StateLeaf scalar =
      leaf_of(StateKind::Parameter, "f32[]", "", devices, options);
  CHECK(scalar.zero_failed);
  CHECK(scalar.bytes_per_device == 4);
}

TEST_CASE("deepspeed's stage 3 pads every parameter to its ranks") {
  const Mesh devices = mesh("dp=4,tp=2");
  const StateLeaf leaf = leaf_of(StateKind::Master, "bf16[3, 5]", "", devices,
                                 zero(3, ZeroStyle::DeepSpeed));
  CHECK(leaf.bytes_per_device == 4 * 4);  // 15 elements in parts of 4
  CHECK(leaf.replicas == 2);
  CHECK(leaf.bytes_per_device * 8 - leaf.replicas * leaf.logical_bytes ==
        (8 * 4 - 2 * 15) * 4);
}

TEST_CASE("buffers hold weights whole and state in parts") {
  const Mesh devices = mesh("dp=4,tp=2");
  for (const ZeroStyle style : {ZeroStyle::DeepSpeed, ZeroStyle::Megatron}) {
    const StateOptions options = zero(1, style);
    const StateLeaf weight =
        leaf_of(StateKind::Parameter, "bf16[6]", "tp", devices, options);
    CHECK(weight.layout == LeafLayout::Buffer);
    CHECK(weight.zero_ranks == 1);
    CHECK(weight.buffer_ranks == 4);
    const StateLeaf moment =
        leaf_of(StateKind::Optimizer, "bf16[6]", "tp", devices, options);
    CHECK(moment.zero_ranks == 4);
    CHECK(moment.replicas == 1);
  }
  // DeepSpeed reduces gradients of stage 1 where they are.
  CHECK(leaf_of(StateKind::Gradient, "bf16[6]", "tp", devices,
                zero(1, ZeroStyle::DeepSpeed))
            .layout == LeafLayout::Spec);
  // An axis that the spec uses cannot share the buffer.
  CHECK(leaf_of(StateKind::Optimizer, "bf16[8]", "dp", devices,
                zero(1, ZeroStyle::Megatron))
            .buffer_ranks == 1);
}

TEST_CASE("the ends of buffers are padded as each framework does") {
  // DeepSpeed: 2 elements per rank.
  CHECK(buffer_bytes(15, DType::BF16, ZeroStyle::DeepSpeed, 4, 1) == 32);
  CHECK(buffer_bytes(15, DType::F32, ZeroStyle::DeepSpeed, 4, 4) == 16);
  CHECK(buffer_bytes(16, DType::F32, ZeroStyle::DeepSpeed, 4, 4) == 16);
  // Megatron: lcm(ranks, 128) = 384 for 3 and 6 ranks.
  CHECK(buffer_bytes(1, DType::F32, ZeroStyle::Megatron, 3, 3) == 128 * 4);
  CHECK(buffer_bytes(385, DType::BF16, ZeroStyle::Megatron, 6, 1) == 768 * 2);
  CHECK(buffer_elements(65, ZeroStyle::Megatron) == 128);
  CHECK(buffer_elements(65, ZeroStyle::DeepSpeed) == 65);
}

int64_t gathered(const std::string& type, const std::string& spec,
                 const StateOptions& options = {}, int stacked_dim = -1) {
  const Mesh mesh = testing::mesh("fsdp=4,tp=2");
  const Placement placement = testing::placement(type, spec, mesh);
  const auto leaves =
      state_leaves(placement, mesh, OnIndivisible::Drop, options);
  return gathered_bytes(placement, leaves.front(), mesh, OnIndivisible::Drop,
                        options, stacked_dim);
}

TEST_CASE("a weight is gathered over the axes of the batch, not over others") {
  CHECK(gathered("bf16[8, 4]", "fsdp, tp") == 8 * 2 * 2);
  CHECK(gathered("bf16[8, 4]", "(tp, fsdp)") == 4 * 4 * 2);
  // Nothing to gather: it is used where it is.
  CHECK(gathered("bf16[8, 4]", "tp") == 0);
  CHECK(gathered("bf16[8, 4]", "") == 0);
}

TEST_CASE("gathered weights have the compute dtype") {
  StateOptions options;
  options.compute_dtype = DType::BF16;
  CHECK(gathered("f32[8, 4]", "fsdp", options) == 8 * 4 * 2);
  CHECK(gathered("i8[8, 4]", "fsdp", options) == 8 * 4);
}

TEST_CASE("ZeRO-3 gathers over its own axes too") {
  StateOptions options;
  options.zero = 3;
  options.zero_axes = {"tp"};
  CHECK(gathered("f32[8, 4]", "", options) == 8 * 4 * 4);
  CHECK(gathered("f32[7, 3]", "", options) == 0);  // could not be sharded
  options.zero_style = ZeroStyle::Fsdp2;
  CHECK(gathered("f32[7, 3]", "", options) == 7 * 3 * 4);
  options.zero = 2;
  CHECK(gathered("f32[8, 4]", "", options) == 0);
}

TEST_CASE("of stacked layers one is gathered") {
  CHECK(gathered("f32[6, 8, 4]", "None, fsdp, tp", {}, 0) == 8 * 2 * 4);
  CHECK(gathered("f32[8, 8, 4]", "fsdp", {}, 0) == 8 * 4 * 4);
  // MaxText stacks along the second dimension.
  CHECK(gathered("f32[8, 6, 4]", "fsdp, None, tp", {}, 1) == 8 * 2 * 4);
  CHECK(gathered("f32[8, 6]", "fsdp", {}, 1) == 8 * 4);
}

TEST_CASE("the largest units count, as many as live at once") {
  CHECK(largest_gathered({{10, 3}, {25, 1}}, 1) == 25);
  CHECK(largest_gathered({{10, 3}, {25, 1}}, 3) == 45);
  CHECK(largest_gathered({{10, 3}, {25, 1}}, 9) == 55);
  CHECK(largest_gathered({}, 2) == 0);
}

}  // namespace

}  // namespace shardplan
