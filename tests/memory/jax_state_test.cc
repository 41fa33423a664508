// SPDX-License-Identifier: Apache-2.0
// Our plans held against JAX: tests/data/jax holds what NamedSharding and optax
// made of them (tests/data/record_jax_state.py).
#include <map>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/plan.h"
#include "core/spec.h"
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

}  // namespace
}  // namespace shardplan
