// SPDX-License-Identifier: Apache-2.0
// Our plans held against JAX: tests/data/jax holds what NamedSharding and optax
// made of them (tests/data/record_jax_state.py).
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/plan.h"
#include "core/spec.h"
#include "memory/budget.h"
#include "memory/state.h"
#include "resolve/correct.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

using nlohmann::json;

using testing::data_path;
using testing::read_json;
using testing::resolve_sample;
using testing::spec_of;

// Parameters alike: type and spec, to local shape and how many.
using Key = std::tuple<std::string, Shape, PartitionSpec>;
struct Row {
  int64_t count = 0;
  Shape local;

  bool operator==(const Row&) const = default;
};

std::map<Key, Row> rows_of(const testing::Resolved& resolved) {
  std::map<Key, Row> rows;
  for (size_t i = 0; i < resolved.manifest.size(); ++i) {
    const Placement& p = resolved.plan.of(i);
    Row& row =
        rows[{std::string(dtype_name(p.type.dtype)), p.type.shape, p.spec}];
    ++row.count;
    row.local = p.local_shape;
  }
  return rows;
}

TEST_CASE("every parameter has the shard shape that JAX gives it") {
  const json record = read_json(data_path("jax/state.json"));
  REQUIRE(!record.at("cases").empty());
  for (const json& c : record.at("cases")) {
    const std::string what = c.at("model").get<std::string>() + " on " +
                             c.at("mesh").get<std::string>();
    CAPTURE(what);
    std::map<Key, Row> expected;
    for (const json& row : c.at("rows")) {
      expected[{row[1], row[2], spec_of(row[3])}] = {row[0], row[4]};
    }
    REQUIRE(!expected.empty());
    CHECK(rows_of(resolve_sample(c.at("model"), c.at("rules"), c.at("mesh"))) ==
          expected);
  }
}

TEST_CASE("what JAX refuses to shard, XLA pads as the policy `pad` does") {
  int refused = 0;
  const json record = read_json(data_path("jax/uneven.json"));
  for (const json& row : record.at("rows")) {
    CAPTURE(row.dump());
    const Mesh mesh = testing::mesh(row.at("mesh").get<std::string>());
    Placement p;
    p.type = {DType::F32, row.at("shape").get<Shape>()};
    p.spec = spec_of(row.at("spec"));
    measure(p, mesh, OnIndivisible::Pad);
    CHECK(p.local_shape == row.at("gspmd").get<Shape>());
    bool divides = true;
    for (size_t d = 0; d < p.type.shape.size(); ++d) {
      divides &= p.type.shape[d] % shard_count(mesh, p.spec.dims[d]) == 0;
    }
    CHECK(divides != row.at("refused").get<bool>());
    refused += row.at("refused").get<bool>() ? 1 : 0;
  }
  CHECK(refused > 0);
}

// "adamw/mu", shape, spec with an entry per dimension, local shape.
using Leaf = std::tuple<std::string, Shape, PartitionSpec, Shape>;

Optimizer optimizer_of(const std::string& role) {
  const auto found = find_optimizer(role.substr(0, role.find('/')));
  REQUIRE_MESSAGE(found, role);
  return *found;
}

std::string name_of(const std::string& role) {
  return role.substr(role.rfind('/') + 1);
}

// As optax keeps it: moments in the type of the parameter, no master weights.
StateOptions as_optax(Optimizer optimizer, DType dtype) {
  StateOptions options;
  options.optimizer = optimizer;
  options.moment_dtype = dtype;
  options.no_master = true;
  return options;
}

// Those with moments in blocks are not optax's (tests/memory/state_test.cc).
std::vector<std::string_view> optax_names() {
  std::vector<std::string_view> names(optimizer_names().begin(),
                                      optimizer_names().end());
  std::erase_if(names, [](std::string_view name) {
    return has_block_moments(*find_optimizer(name));
  });
  return names;
}

std::multiset<Leaf> leaves_of(const Placement& p, const Mesh& mesh) {
  std::multiset<Leaf> leaves;
  for (const std::string_view name : optax_names()) {
    const StateOptions options = as_optax(*find_optimizer(name), p.type.dtype);
    for (const StateLeaf& leaf :
         state_leaves(p, mesh, OnIndivisible::Drop, options)) {
      if (leaf.kind != StateKind::Optimizer) continue;
      CHECK(leaf.type.dtype == p.type.dtype);
      PartitionSpec spec = leaf.spec;
      spec.dims.resize(leaf.type.shape.size());
      leaves.insert({std::string(name) + "/" + std::string(leaf.role),
                     leaf.type.shape, spec, leaf.local_shape});
    }
  }
  return leaves;
}

TEST_CASE("every optimizer leaf has the shape and shards that JAX gives it") {
  const json record = read_json(data_path("jax/state.json"));
  for (const json& c : record.at("cases")) {
    const Mesh mesh = testing::mesh(c.at("mesh").get<std::string>());
    for (const json& row : c.at("rows")) {
      CAPTURE(row.dump());
      Placement p;
      const auto dtype = find_dtype(row[1].get<std::string>());
      REQUIRE(dtype);
      p.type = {*dtype, row[2].get<Shape>()};
      p.spec = spec_of(row[3]);
      measure(p, mesh, OnIndivisible::Drop);
      std::multiset<Leaf> expected;
      for (const json& leaf : record.at("leaves").at(row[5].get<size_t>())) {
        for (const json& role : leaf[0]) {
          expected.insert({role, leaf[1], spec_of(leaf[2]), leaf[3]});
        }
      }
      CHECK(leaves_of(p, mesh) == expected);
    }
  }
}

TEST_CASE("what an optimizer keeps beside the parameters is optax's") {
  using Counter = std::tuple<Optimizer, std::string, DType, Shape>;
  std::multiset<Counter> expected;
  const json record = read_json(data_path("jax/state.json"));
  for (const json& row : record.at("alone")) {
    const std::string role = row[0];
    const auto dtype = find_dtype(row[1].get<std::string>());
    REQUIRE(dtype);
    expected.insert({optimizer_of(role), name_of(role), *dtype, row[2]});
  }
  const Mesh mesh = testing::mesh("fsdp=4");
  std::multiset<Counter> found;
  for (const std::string_view name : optax_names()) {
    const Optimizer optimizer = *find_optimizer(name);
    for (const StateLeaf& leaf :
         optimizer_counters(mesh, as_optax(optimizer, DType::F32))) {
      found.insert({optimizer, std::string(leaf.role), leaf.type.dtype,
                    leaf.type.shape});
      CHECK(leaf.replicas == 4);
    }
  }
  CHECK(found == expected);
}

// ZeRO's padding held against the frameworks: tests/data/torch/zero.json has
// the elements per rank that FSDP2, DeepSpeed and Megatron's distributed
// optimizer keep (tests/data/record_torch_padding.py).

using testing::Resolved;

// Weights in bf16; gradients, master weights and moments in f32.
constexpr int64_t kWeight = 2;
constexpr int64_t kStateBytes = 4;

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
std::map<std::string, int64_t> bytes_by_role(const Resolved& resolved,
                                             const StateOptions& state) {
  BudgetOptions options;
  options.state = state;
  Diagnostics diags;
  const auto budget =
      make_budget(resolved.manifest, resolved.plan, options, diags);
  REQUIRE(budget);
  std::map<std::string, int64_t> bytes;
  for (const LeafSum& sum : budget->leaves) {
    bytes[std::string(sum.role)] += sum.bytes_per_device;
  }
  return bytes;
}

int64_t local_elements(const Resolved& resolved) {
  int64_t elements = 0;
  for (size_t i = 0; i < resolved.manifest.size(); ++i) {
    const Placement& p = resolved.plan.of(i);
    elements += TensorType{p.type.dtype, p.local_shape}.elements();
  }
  return elements;
}

void check_deepspeed(const Resolved& model, const json& row) {
  const int64_t flat = row["deepspeed"]["flat"];
  const int64_t part = row["deepspeed"]["partition"];
  for (const int stage : {1, 2}) {
    CAPTURE(stage);
    auto bytes = bytes_by_role(model, adamw(stage, ZeroStyle::DeepSpeed));
    CHECK(bytes["param"] == flat * kWeight);
    CHECK(bytes["grad"] ==
          (stage == 2 ? part : local_elements(model)) * kStateBytes);
    for (const char* role : {"master", "mu", "nu"}) {
      CAPTURE(role);
      CHECK(bytes[role] == part * kStateBytes);
    }
  }
  const int64_t piece = row["deepspeed_stage3"]["partition"];
  auto bytes = bytes_by_role(model, adamw(3, ZeroStyle::DeepSpeed));
  CHECK(bytes["param"] == piece * kWeight);
  for (const char* role : {"grad", "master", "mu", "nu"}) {
    CAPTURE(role);
    CHECK(bytes[role] == piece * kStateBytes);
  }
}

void check_fsdp2(const Resolved& model, const json& row) {
  const json& first = row["fsdp2"]["first"];
  auto bytes = bytes_by_role(model, adamw(3, ZeroStyle::Fsdp2));
  CHECK(bytes["param"] == first["stored"].get<int64_t>() * kWeight);
  CHECK(bytes["grad"] == first["stored"].get<int64_t>() * kStateBytes);
  for (const char* role : {"master", "mu", "nu"}) {
    CAPTURE(role);
    CHECK(bytes[role] == first["moment"].get<int64_t>() * kStateBytes);
  }
}

// Megatron does not allocate the gaps that alignment leaves between parameters
// in the state of a rank; we count a rank's whole part of the buffer.
void check_megatron(const Resolved& model, const json& row) {
  const int64_t buffer = row["megatron"]["buffer"];
  const int64_t most = row["megatron"]["most_state"];
  auto bytes = bytes_by_role(model, adamw(1, ZeroStyle::Megatron));
  CHECK(bytes["param"] == buffer * kWeight);
  CHECK(bytes["grad"] == buffer * kStateBytes);
  for (const char* role : {"master", "mu", "nu"}) {
    CAPTURE(role);
    CHECK(bytes[role] >= most * kStateBytes);
    CHECK(bytes[role] <= (most + 128) * kStateBytes);
  }
}

TEST_CASE("ZeRO stores what FSDP2, DeepSpeed and Megatron store") {
  const json record = testing::read_json(testing::data_path("torch/zero.json"));
  REQUIRE(!record.at("rows").empty());
  for (const json& row : record.at("rows")) {
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
  for (const json& row : record.at("rows")) {
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

TEST_CASE("a spec whose axis does not divide has the shards of fully_shard") {
  const json record =
      testing::read_json(testing::data_path("torch/fsdp_tp.json"));
  int moved = 0;
  for (const json& row : record.at("rows")) {
    CAPTURE(row.dump());
    const Mesh mesh({{"dp", row.at("dp")}, {"tp", row.at("tp")}});
    Placement p;
    p.type = {DType::BF16, row.at("shape").get<Shape>()};
    for (size_t dim = 0; dim < p.type.shape.size(); ++dim) {
      PartitionSpec asked;
      asked.dims.resize(p.type.shape.size());
      asked.dims.at(row.at("dim").get<size_t>()) = {"tp"};
      asked.dims[dim].push_back("dp");
      if (p.type.shape[dim] % shard_count(mesh, asked.dims[dim]) == 0) continue;
      CorrectedSpec corrected =
          correct(asked, p.type.shape, mesh, {}, OnIndivisible::Rows);
      p.spec = std::move(corrected.spec);
      measure(p, mesh, OnIndivisible::Rows);
      CHECK(p.local_shape == row.at("stored").get<Shape>());
      moved += dim > 0;
      // DeepSpeed's parts are flat.
      StateOptions flat = adamw(3, ZeroStyle::DeepSpeed);
      const auto leaves = state_leaves(p, mesh, OnIndivisible::Rows, flat);
      const TensorType on_tp = {
          DType::BF16, {ceil_div(p.type.elements(), mesh.size_of("tp"))}};
      CHECK(leaves.front().bytes_per_device ==
            2 * ceil_div(on_tp.elements(), mesh.size_of("dp")));
    }
  }
  CHECK(moved >= 5);
}

}  // namespace
}  // namespace shardplan
