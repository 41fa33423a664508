// SPDX-License-Identifier: Apache-2.0
#include "memory/sweep.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::mesh;

TEST_CASE("a number of devices is cut over axes in every way, once each") {
  const auto found = factorizations(12, {"a", "b"}, 100);
  REQUIRE(found);
  std::vector<std::string> texts;
  for (const Mesh& m : *found) texts.push_back(mesh_text(m));
  CHECK(texts == std::vector<std::string>{"a=12,b=1", "a=6,b=2", "a=4,b=3",
                                          "a=3,b=4", "a=2,b=6", "a=1,b=12"});
  // Of 2^3 over 3 axes: ways to deal 3 factors to 3 axes.
  CHECK(factorizations(8, {"a", "b", "c"}, 10)->size() == 10);
  CHECK_FALSE(factorizations(8, {"a", "b", "c"}, 9));
  CHECK(factorizations(1, {"a"}, 1)->size() == 1);
}

SweepMesh swept(const char* text, int64_t errors = 0) {
  return {mesh(text), errors, 0};
}
SweepPoint point(size_t mesh, int64_t total, bool fits = true,
                 std::optional<int64_t> batch = std::nullopt) {
  SweepPoint result;
  result.mesh = mesh;
  result.total = total;
  result.fit.usable = 1;
  result.fit.fits = fits;
  result.batch = batch;
  return result;
}

TEST_CASE("the frontier has fewer devices or less memory than all others") {
  std::vector<SweepMesh> meshes;
  meshes.push_back(swept("tp=8"));
  meshes.push_back(swept("tp=4"));
  meshes.push_back(swept("tp=2,dp=2"));
  meshes.push_back(swept("tp=16"));
  meshes.push_back(swept("tp=32", 1));
  // 4 devices: 50 beats 60; 8 take 40; 16 take no less; 2 x 2 does not fit the
  // second workload; what has errors does not count.
  const std::vector<SweepPoint> points = {
      point(0, 40),          point(1, 60),
      point(2, 50),          point(3, 40),
      point(4, 1),           point(0, 70, true, 2),
      point(2, 5, false, 2), point(3, 70, false, 2),
  };
  CHECK(frontier(points, meshes) == std::vector<size_t>{2, 0, 5});
  CHECK(frontier({point(0, 7), point(0, 7)}, meshes) ==
        std::vector<size_t>{0, 1});
  CHECK(frontier({}, meshes).empty());
}

}  // namespace

}  // namespace shardplan
