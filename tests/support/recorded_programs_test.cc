// SPDX-License-Identifier: Apache-2.0
#include "tests/support/recorded_programs.h"

#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

namespace shardplan::testing {
namespace {

int64_t elements(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

TEST_CASE("the recorded programs cover what models are made of") {
  std::map<std::string, int> groups;
  std::set<std::string> names;
  std::set<CollectiveKind> kinds;
  int sliced = 0;
  for (const RecordedProgram& program : recorded_programs()) {
    ++groups[program.group];
    CHECK_MESSAGE(names.insert(program.name).second, program.name);
    CHECK(program.name.starts_with(program.group + ": "));
    for (const RecordedCollective& c : program.collectives) {
      kinds.insert(c.kind);
      sliced += c.sliced ? 1 : 0;
    }
  }
  CHECK(names.size() >= 150);
  for (const char* group :
       {"matmul", "batched", "mlp", "attention", "norm", "softmax", "embedding",
        "block", "reshape", "expert", "layout"}) {
    CHECK_MESSAGE(groups[group] >= 5, group);
  }
  CHECK(groups.size() == 11);
  // The CPU backend writes a reduce-scatter as an all-reduce and a slice.
  CHECK(kinds == std::set{CollectiveKind::AllGather, CollectiveKind::AllReduce,
                          CollectiveKind::AllToAll, CollectiveKind::Permute});
  CHECK(sliced > 0);
}

TEST_CASE("recorded results and specs fit their programs") {
  for (const RecordedProgram& program : recorded_programs()) {
    CAPTURE(program.name);
    CHECK(program.mesh.devices() == 8);
    REQUIRE(!program.results.empty());
    for (const RecordedResult& result : program.results) {
      CHECK(static_cast<int64_t>(result.values.size()) ==
            elements(result.shape));
      REQUIRE(result.spec.dims.size() == result.shape.size());
      for (size_t dim = 0; dim < result.shape.size(); ++dim) {
        for (const AxisName& axis : result.spec.dims[dim]) {
          CHECK(program.mesh.find(axis).has_value());
        }
      }
    }
    for (const auto& [name, spec] : program.specs) {
      CHECK(program.graph.find("\"" + name + "\"") != std::string::npos);
    }
  }
}

// Found a second way, from the sizes that the compiled program names.
int64_t ring_bytes(const RecordedCollective& c) {
  const int64_t operand = 4 * elements(c.operand);
  switch (c.kind) {
    case CollectiveKind::AllGather:
      return operand * (c.ranks - 1);
    case CollectiveKind::AllReduce:
      return 2 * (operand - operand / c.ranks);
    case CollectiveKind::AllToAll:
      return operand - operand / c.ranks;
    default:
      return operand;
  }
}

TEST_CASE("recorded collectives are whole and say what they send") {
  for (const RecordedProgram& program : recorded_programs()) {
    CAPTURE(program.name);
    for (const RecordedCollective& c : program.collectives) {
      REQUIRE(!c.axes.empty());
      int64_t along = 1;
      for (const AxisName& axis : c.axes) {
        REQUIRE(program.mesh.find(axis));
        along *= program.mesh.size_of(axis);
      }
      CHECK(c.ranks > 1);
      CHECK(along % c.ranks == 0);
      CHECK(elements(c.result) ==
            elements(c.operand) *
                (c.kind == CollectiveKind::AllGather ? c.ranks : 1));
      CHECK(c.bytes == ring_bytes(c));
      CHECK((c.kind == CollectiveKind::AllReduce || !c.sliced));
    }
  }
}

// A program that only moves its input gives it back: JAX had these numbers.
TEST_CASE("the numbers of recorded tensors are those that JAX had") {
  int moved = 0;
  for (const RecordedProgram& program : recorded_programs()) {
    if (program.group != "layout") continue;
    CAPTURE(program.name);
    REQUIRE(program.results.size() == 1);
    const RecordedResult& result = program.results.front();
    CHECK(result.values == recorded_numbers("x", result.shape, 0));
    ++moved;
  }
  CHECK(moved > 20);
  const std::vector<double> ids = recorded_numbers("ids", {4, 8}, 64);
  CHECK(ids.size() == 32);
  CHECK(std::all_of(ids.begin(), ids.end(), [](double id) {
    return id >= 0 && id < 64 && id == static_cast<int>(id);
  }));
  CHECK(std::set<double>(ids.begin(), ids.end()).size() > 16);
}

}  // namespace
}  // namespace shardplan::testing
