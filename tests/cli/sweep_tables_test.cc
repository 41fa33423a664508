// SPDX-License-Identifier: Apache-2.0
#include "cli/sweep_tables.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan::cli {
namespace {

std::vector<Row> rows_in(const Table& table) {
  std::vector<Row> rows;
  table.rows([&](std::span<const Cell> row) {
    rows.emplace_back(row.begin(), row.end());
  });
  return rows;
}

struct Sample {
  std::vector<SweepMesh> meshes;
  std::vector<SweepPoint> points;
};

Sample sample() {
  Sample s;
  for (const char* text : {"tp=8", "tp=4"}) {
    s.meshes.push_back(
        {{testing::mesh(text), OnIndivisible::Drop, true, {}, {}, {}, {}},
         {},
         0,
         0});
  }
  s.meshes[0].warnings = 2;
  for (size_t mesh = 0; mesh < 2; ++mesh) {
    SweepPoint point;
    point.mesh = mesh;
    point.batch = 1;
    point.seq = 64;
    point.limit = DeviceLimit{"x", 100, 100, false};
    point.total = mesh == 0 ? 40 : 130;
    point.headroom = 100 - point.total;
    point.fits = point.headroom >= 0;
    point.margins = {13, 61'439};
    s.points.push_back(point);
  }
  return s;
}

TEST_CASE("margins say with what a device is first too full") {
  CHECK(breaks_text({13, 61'439}) == "batch 14 or context 61,440");
  CHECK(breaks_text({std::nullopt, 7}) == "context 8");
  CHECK(breaks_text({0, std::nullopt}) == "batch 1");
  CHECK(breaks_text({}).empty());
}

TEST_CASE("people see what fits first, and how many rows are left out") {
  const Sample s = sample();
  const Table table = sorted_points(s.points, s.meshes, 2);
  const std::vector<Row> rows = rows_in(table);
  REQUIRE(rows.size() == 2);
  CHECK(std::get<std::string>(rows[0][0]) == "tp=8");
  CHECK(std::get<std::string>(rows[0][6]) == "60 B left");
  CHECK(std::get<std::string>(rows[0][8]) == "2 warnings");
  CHECK(std::get<std::string>(rows[1][6]) == "30 B over");
  const std::vector<Row> cut = rows_in(sorted_points(s.points, s.meshes, 1));
  REQUIRE(cut.size() == 2);
  CHECK(std::get<std::string>(cut[1][0]) == "and 1 more (--expand)");
}

TEST_CASE("programs get every point, with sizes by category") {
  Sample s = sample();
  s.points[0].limit.reset();
  const Table table = points_table(s.points, s.meshes);
  const std::vector<Row> rows = rows_in(table);
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].size() == table.columns.size());
  CHECK(std::holds_alternative<std::monostate>(rows[0][6]));
  CHECK(std::get<Flag>(rows[1][8]).value == false);
  CHECK(std::get<Count>(rows[1][9]).value == 13);
  CHECK(table.columns[13].id == "parameters");
  CHECK(rows_in(frontier_table(s.points, s.meshes)).size() == 1);
}

}  // namespace
}  // namespace shardplan::cli
