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
#include "memory/state.h"
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

  bool operator==(const Row &) const = default;
};

std::map<Key, Row> rows_of(const testing::Resolved &resolved) {
  std::map<Key, Row> rows;
  for (size_t i = 0; i < resolved.manifest.size(); ++i) {
    const Placement &p = resolved.plan.of(i);
    Row &row =
        rows[{std::string(dtype_name(p.type.dtype)), p.type.shape, p.spec}];
    ++row.count;
    row.local = p.local_shape;
  }
  return rows;
}

TEST_CASE("every parameter has the shard shape that JAX gives it") {
  const json record = read_json(data_path("jax/state.json"));
  REQUIRE(!record.at("cases").empty());
  for (const json &c : record.at("cases")) {
    const std::string what = c.at("model").get<std::string>() + " on " +
                             c.at("mesh").get<std::string>();
    CAPTURE(what);
    std::map<Key, Row> expected;
    for (const json &row : c.at("rows")) {
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
  for (const json &row : record.at("rows")) {
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

Optimizer optimizer_of(const std::string &role) {
  const auto found = find_optimizer(role.substr(0, role.find('/')));
  REQUIRE_MESSAGE(found, role);
  return *found;
}

std::string name_of(const std::string &role) {
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

std::multiset<Leaf> leaves_of(const Placement &p, const Mesh &mesh) {
  std::multiset<Leaf> leaves;
  for (const std::string_view name : optimizer_names()) {
    const StateOptions options = as_optax(*find_optimizer(name), p.type.dtype);
    for (const StateLeaf &leaf :
         state_leaves(p, mesh, OnIndivisible::Drop, options)) {
      if (leaf.kind != StateKind::Optimizer)
        continue;
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
  for (const json &c : record.at("cases")) {
    const Mesh mesh = testing::mesh(c.at("mesh").get<std::string>());
    for (const json &row : c.at("rows")) {
      CAPTURE(row.dump());
      Placement p;
      const auto dtype = find_dtype(row[1].get<std::string>());
      REQUIRE(dtype);
      p.type = {*dtype, row[2].get<Shape>()};
      p.spec = spec_of(row[3]);
      measure(p, mesh, OnIndivisible::Drop);
      std::multiset<Leaf> expected;
      for (const json &leaf : record.at("leaves").at(row[5].get<size_t>())) {
        for (const json &role : leaf[0]) {
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
  for (const json &row : record.at("alone")) {
    const std::string role = row[0];
    const auto dtype = find_dtype(row[1].get<std::string>());
    REQUIRE(dtype);
    expected.insert({optimizer_of(role), name_of(role), *dtype, row[2]});
  }
  const Mesh mesh = testing::mesh("fsdp=4");
  std::multiset<Counter> found;
  for (const std::string_view name : optimizer_names()) {
    const Optimizer optimizer = *find_optimizer(name);
    for (const StateLeaf &leaf :
         optimizer_counters(mesh, as_optax(optimizer, DType::F32))) {
      found.insert({optimizer, std::string(leaf.role), leaf.type.dtype,
                    leaf.type.shape});
      CHECK(leaf.replicas == 4);
    }
  }
  CHECK(found == expected);
}

} // namespace
} // namespace shardplan
