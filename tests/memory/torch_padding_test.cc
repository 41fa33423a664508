// SPDX-License-Identifier: Apache-2.0
// ZeRO's padding held against the frameworks: tests/data/torch/zero.json has
// the elements per rank that FSDP2, DeepSpeed and Megatron's distributed
// optimizer keep (tests/data/record_torch_padding.py).
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "memory/budget.h"
#include "memory/state.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

using nlohmann::json;
using testing::Resolved;

// Weights in bf16; gradients, master weights and moments in f32.
constexpr int64_t kWeight = 2;
constexpr int64_t kState = 4;

StateOptions adamw(int stage, ZeroStyle style) {
  StateOptions options;
  options.optimizer = Optimizer::AdamW;
  options.param_dtype = DType::BF16;
  options.grad_dtype = DType::F32;
  options.zero = stage;
  options.zero_axes = {"dp"};
  options.zero_style = style;
  return options;
}

// Bytes on the fullest device by role: "param", "grad", "master", "mu", "nu".
std::map<std::string, int64_t> bytes_by_role(const Resolved &resolved,
                                             const StateOptions &state) {
  BudgetOptions options;
  options.state = state;
  Diagnostics diags;
  const auto budget =
      make_budget(resolved.manifest, resolved.plan, options, diags);
  REQUIRE(budget);
  std::map<std::string, int64_t> bytes;
  for (const LeafSum &sum : budget->leaves) {
    bytes[std::string(sum.role)] += sum.bytes_per_device;
  }
  return bytes;
}

int64_t local_elements(const Resolved &resolved) {
  int64_t elements = 0;
  for (size_t i = 0; i < resolved.manifest.size(); ++i) {
    const Placement &p = resolved.plan.of(i);
    elements += TensorType{p.type.dtype, p.local_shape}.elements();
  }
  return elements;
}

void check_deepspeed(const Resolved &model, const json &row) {
  const int64_t flat = row["deepspeed"]["flat"];
  const int64_t part = row["deepspeed"]["partition"];
  for (const int stage : {1, 2}) {
    CAPTURE(stage);
    auto bytes = bytes_by_role(model, adamw(stage, ZeroStyle::DeepSpeed));
    CHECK(bytes["param"] == flat * kWeight);
    CHECK(bytes["grad"] ==
          (stage == 2 ? part : local_elements(model)) * kState);
    for (const char *role : {"master", "mu", "nu"}) {
      CAPTURE(role);
      CHECK(bytes[role] == part * kState);
    }
  }
  const int64_t piece = row["deepspeed_stage3"]["partition"];
  auto bytes = bytes_by_role(model, adamw(3, ZeroStyle::DeepSpeed));
  CHECK(bytes["param"] == piece * kWeight);
  for (const char *role : {"grad", "master", "mu", "nu"}) {
    CAPTURE(role);
    CHECK(bytes[role] == piece * kState);
  }
}

void check_fsdp2(const Resolved &model, const json &row) {
  const json &first = row["fsdp2"]["first"];
  auto bytes = bytes_by_role(model, adamw(3, ZeroStyle::Fsdp2));
  CHECK(bytes["param"] == first["stored"].get<int64_t>() * kWeight);
  CHECK(bytes["grad"] == first["stored"].get<int64_t>() * kState);
  for (const char *role : {"master", "mu", "nu"}) {
    CAPTURE(role);
    CHECK(bytes[role] == first["moment"].get<int64_t>() * kState);
  }
}

// Megatron does not allocate the gaps that alignment leaves between parameters
// in the state of a rank; we count a rank's whole part of the buffer.
void check_megatron(const Resolved &model, const json &row) {
  const int64_t buffer = row["megatron"]["buffer"];
  const int64_t most = row["megatron"]["most_state"];
  auto bytes = bytes_by_role(model, adamw(1, ZeroStyle::Megatron));
  CHECK(bytes["param"] == buffer * kWeight);
  CHECK(bytes["grad"] == buffer * kState);
  for (const char *role : {"master", "mu", "nu"}) {
    CAPTURE(role);
    CHECK(bytes[role] >= most * kState);
    CHECK(bytes[role] <= (most + 128) * kState);
  }
}

TEST_CASE("ZeRO stores what FSDP2, DeepSpeed and Megatron store") {
  const json record = testing::read_json(testing::data_path("torch/zero.json"));
  REQUIRE(!record.at("rows").empty());
  for (const json &row : record.at("rows")) {
    CAPTURE(row.dump());
    const Resolved model = testing::resolve_sample(
        row.at("model"), row.at("rules"), row.at("mesh"));
    check_deepspeed(model, row);
    check_fsdp2(model, row);
    check_megatron(model, row);
  }
}

TEST_CASE("on top of tp, FSDP2 cuts what tp left") {
  const json record =
      testing::read_json(testing::data_path("torch/fsdp_tp.json"));
  REQUIRE(!record.at("rows").empty());
  for (const json &row : record.at("rows")) {
    CAPTURE(row.dump());
    const Mesh mesh({{"dp", row.at("dp")}, {"tp", row.at("tp")}});
    Placement p;
    p.type = {DType::BF16, row.at("shape").get<Shape>()};
    p.spec.dims.resize(p.type.shape.size());
    p.spec.dims.at(row.at("dim").get<size_t>()) = {"tp"};
    measure(p, mesh, OnIndivisible::Drop);
    const auto leaves =
        state_leaves(p, mesh, OnIndivisible::Drop, adamw(3, ZeroStyle::Fsdp2));
    REQUIRE(!leaves.empty());
    const TensorType stored = {DType::BF16, row.at("stored").get<Shape>()};
    CHECK(leaves.front().bytes_per_device == stored.bytes());
  }
}

} // namespace
} // namespace shardplan
