// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "cli/views/engine/kv_tables.h"
#include "cli/views/sweep_tables.h"
#include "tests/support/builders.h"
#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::MemoryHost;
using testing::planning_host;
using testing::report_of;
using testing::run_on;

TEST_CASE("the summary has the contract's keys, in order") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "--json"}, "fsdp=2,tp=2");
  const auto summary = ordered_json::parse(host.out).at("summary");
  std::string keys;
  for (const auto& [key, value] : summary.items()) keys += key + " ";
  CHECK(keys ==
        "tensors sharded_tensors total_parameters sharded_parameters "
        "total_bytes devices mesh views memory_per_device balance_score "
        "efficiency "
        "replication_factor padding_bytes replicated_fraction corrections "
        "errors warnings fingerprint ");
  CHECK(summary.at("tensors") == 7);
  CHECK(summary.at("sharded_tensors") == 5);
  CHECK(summary.at("total_parameters") == 33 * 16 + 2 * (512 + 256) + 16 + 1);
  CHECK(summary.at("fingerprint").get<std::string>().size() == 64);
}

TEST_CASE("every correction is a row") {
  const json rows =
      report_of({"resolve"}, "fsdp=2,tp=2").at("tables").at("corrections");
  const json expected = {{{"parameter", "embed/embedding"},
                          {"dim", 0},
                          {"code", "SP203"},
                          {"dropped", {"tp"}},
                          {"reason", "33 is not divisible by tp=2"}}};
  CHECK(rows == expected);
}

TEST_CASE("rules say in how many names they were found and what they won") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] += "  - [\"k_proj/kernel\", []]\n";
  const json rows =
      report_of({"resolve"}, "fsdp=2,tp=2", host).at("tables").at("rules");
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].at("found") == 4);
  CHECK(rows[1].at("won") == 4);
  CHECK(rows[1].at("shadowed_by") == json::array());
  CHECK(rows[3].at("found") == 2);
  CHECK(rows[3].at("won") == 0);
  CHECK(rows[3].at("shadowed_by") == json::array({2}));
  CHECK(rows[3].at("file") == "rules.yaml");
  CHECK(rows[3].at("line") == 5);
}

TEST_CASE("people see layers folded, and unfolded with --expand") {
  MemoryHost host = planning_host();
  run_on(host, {"resolve", "--tolerance", "1"}, "fsdp=2,tp=2");
  CHECK(host.out.find("layers/*/self_attn/q_proj/kernel  ×2") !=
        std::string::npos);
  CHECK(host.out.find("layers/0/") == std::string::npos);
  CHECK(host.out.find("~ corrected: 1 dimension is not divisible by its axes "
                      "(SP203)") != std::string::npos);
  MemoryHost expanded = planning_host();
  run_on(expanded, {"resolve", "--expand"}, "fsdp=2,tp=2");
  CHECK(expanded.out.find("layers/1/self_attn/q_proj/kernel") !=
        std::string::npos);
  CHECK(expanded.out.find("layers/*") == std::string::npos);
}

TEST_CASE("what is stored as declared is a row, and silent without") {
  const json plain = report_of({"resolve"}, "fsdp=2,tp=4").at("tables");
  CHECK(!plain.contains("declared"));
  const json report =
      report_of({"resolve", "--declare", "replicate-kv-heads"}, "fsdp=2,tp=4");
  // k_proj has two KV heads of 8 columns.
  const json rows = report.at("tables").at("declared");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("parameter") == "layers/0/self_attn/k_proj/kernel");
  CHECK(rows[0].at("dim") == 1);
  CHECK(rows[0].at("logical") == 16);
  CHECK(rows[0].at("stored") == 32);
  CHECK(rows[0].at("why") ==
        "replicate-kv-heads: one of 2 KV heads on each of 4 shards");
  // 16 x 16 bf16 twice over, for each of two layers.
  CHECK(report.at("summary").at("padding_bytes") == 2 * 16 * 16 * 2);
  CHECK(report.at("summary").at("total_bytes") ==
        report_of({"resolve"}, "fsdp=2,tp=4").at("summary").at("total_bytes"));
}

TEST_CASE("a declaration is said to apply, or not to") {
  MemoryHost host = planning_host();
  run_on(host,
         {"check", "--declare", "replicate-kv-heads", "--declare",
          "interleave-qkv", "--exit-zero"},
         "fsdp=2,tp=4");
  CHECK(host.out.find("2 dimensions stored by replicate-kv-heads: one of 2 KV "
                      "heads on each of 4 shards") != std::string::npos);
  CHECK(host.out.find(
            "`interleave-qkv` was declared but changes no dimension here") !=
        std::string::npos);
}

TEST_CASE("the tables hold the identity of bytes, and add up") {
  const auto report = report_of(
      {"analyze", "--optimizer", "adamw", "--memory", "1MiB", "--exit-zero"},
      "fsdp=2,tp=2");
  const auto& tables = report["tables"];
  int64_t stored = 0;
  for (const auto& row : tables["memory"]) {
    stored +=
        row["bytes_per_device"].get<int64_t>() * row["devices"].get<int64_t>();
  }
  int64_t total = 0;
  for (const auto& row : tables["memory_totals"]) {
    const auto bytes = row["stored_bytes"].get<int64_t>();
    CHECK(bytes == row["replicated_bytes"].get<int64_t>() +
                       row["padding_bytes"].get<int64_t>());
    total += bytes;
  }
  CHECK(stored == total);
  // One class, so all devices hold what the fullest does.
  const auto& summary = report["summary"];
  CHECK(summary["memory_needed"].get<int64_t>() * 4 == total);
  CHECK(summary["memory_limit"] == 1024 * 1024);
  CHECK(summary["headroom"].get<int64_t>() ==
        1024 * 1024 - summary["memory_needed"].get<int64_t>());
  CHECK(summary["fits"] == true);
  // The scalar `step` is not a floating point.
  for (const auto& row : tables["state"]) {
    if (row["role"] == "param") continue;
    if (row["role"] == "count") continue;
    CHECK(row["tensors"] <= 6);
  }
}

TEST_CASE("without a limit nothing is said of fitting") {
  const auto summary = report_of({"analyze"}, "fsdp=2,tp=2")["summary"];
  CHECK(summary["fits"].is_null());
  CHECK(summary["headroom"].is_null());
  CHECK(summary["memory_limit"].is_null());
}

TEST_CASE("stages are a table, and classes lead with the fullest") {
  const auto tables = report_of({"analyze", "--stages", "pp", "--exit-zero"},
                                "pp=2,fsdp=1,tp=1")["tables"];
  REQUIRE(tables["stages"].size() == 2);
  CHECK(tables["stages"][0]["layers"] == 1);
  int64_t before = INT64_MAX;
  std::map<int64_t, int64_t> of_class;
  for (const auto& row : tables["memory"]) {
    of_class[row["class"].get<int64_t>()] +=
        row["bytes_per_device"].get<int64_t>();
  }
  CHECK(of_class.size() == 2);
  for (const auto& entry : of_class) {
    CHECK(entry.second <= before);
    before = entry.second;
  }
}

TEST_CASE("what is left out is noted") {
  testing::MemoryHost host = testing::planning_host();
  testing::run_on(host, {"analyze", "--optimizer", "muon", "--exit-zero"},
                  "fsdp=1");
  CHECK(host.out.find("1 parameter, 4 B in total") != std::string::npos);
  CHECK(host.out.find("muon keeps one moment for 5 matrices") !=
        std::string::npos);
  host = testing::planning_host();
  testing::run_on(host, {"analyze", "--mode", "decode", "--exit-zero"},
                  "fsdp=1");
  CHECK(host.out.find("the KV cache is not counted") != std::string::npos);
}

using testing::mesh;

std::vector<Row> rows_of_table(const Table& table) {
  std::vector<Row> rows;
  table.rows([&](std::span<const Cell> row) {
    rows.emplace_back(row.begin(), row.end());
  });
  return rows;
}

int64_t count_at(const Row& row, size_t column) {
  return std::get<Count>(row.at(column)).value;
}
int64_t bytes_at(const Row& row, size_t column) {
  return std::get<ByteSize>(row.at(column)).value;
}

constexpr KvLayer kFull{8, 4, 0, 0};
constexpr KvLayer kSliding{8, 4, 0, 16};

TEST_CASE("kinds of layers have a row each, and a sum") {
  const KvAxes axes{{"tp"}, {"dp"}, {}, "as told"};
  const Table table =
      kv_table(mesh("pp=3,dp=2,tp=16"), {kSliding, kFull, kSliding}, axes,
               {.batch = 5, .seq = 100});
  const std::vector<Row> rows = rows_of_table(table);
  REQUIRE(rows.size() == 2);
  CHECK(std::get<std::string>(rows[0][0]) == "window 16");
  CHECK(count_at(rows[0], 1) == 2);
  CHECK(count_at(rows[0], 2) == 8);
  CHECK(count_at(rows[0], 3) == 1);
  // Two of 16 ranks hold the same head, on each of three of `pp`.
  CHECK(count_at(rows[0], 4) == 6);
  CHECK(count_at(rows[0], 5) == 3);
  CHECK(count_at(rows[0], 6) == 16);
  CHECK(bytes_at(rows[0], 7) == 2 * 4 * 2);
  CHECK(bytes_at(rows[0], 8) == 2 * 3 * 16 * 4 * 2);
  CHECK(std::get<std::string>(rows[1][0]) == "all tokens");
  CHECK(bytes_at(rows[1], 8) == 3 * 100 * 4 * 2);
  REQUIRE(table.footer);
  CHECK(bytes_at(*table.footer, 8) == 768 + 2400);
}

TEST_CASE("prefill shows what one layer holds before its window cuts") {
  const Table table = kv_table(mesh("tp=1"), {kSliding, kSliding}, {},
                               {.seq = 100, .prefill = true});
  const std::vector<Row> rows = rows_of_table(table);
  REQUIRE(rows.size() == 2);
  CHECK(bytes_at(rows[1], 8) == (100 - 16) * 8 * 4 * 2);
  CHECK(bytes_at(*table.footer, 8) == (100 + 16) * 8 * 4 * 2);
}

TEST_CASE("a latent has no heads, and copies on every rank") {
  const KvLayer latent{0, 0, 576, 0};
  const Table table = kv_table(mesh("dp=2,tp=8"), {latent},
                               {{}, {"dp"}, {}, "a latent"}, {.batch = 2});
  const std::vector<Row> rows = rows_of_table(table);
  REQUIRE(rows.size() == 1);
  CHECK(std::holds_alternative<std::monostate>(rows[0][2]));
  CHECK(count_at(rows[0], 4) == 8);
  CHECK(bytes_at(rows[0], 8) == 1152);
  CHECK_FALSE(table.footer);
}

TEST_CASE("notes say over what the cache is cut, and why") {
  const Mesh m = mesh("dp=2,tp=4");
  const KvAxes cut{{"tp"}, {"dp"}, {}, "as told"};
  CHECK(kv_notes(m, {kFull}, cut, {.block = 16}) ==
        std::vector<std::string>{
            "KV cache in bf16, pages of 16 tokens: heads over tp=4 (as told), "
            "batch over dp=2, context unsharded"});
  const auto whole = kv_notes(m, {kFull}, {{}, {}, {"dp"}, "as told"}, {});
  REQUIRE(whole.size() == 2);
  CHECK(whole[0].ends_with("batch unsharded, context over dp=2"));
  CHECK(whole[1].find("--kv-axes") != std::string::npos);
  const auto latent = kv_notes(m, {{0, 0, 8, 0}}, {}, {});
  REQUIRE(latent.size() == 2);
  CHECK(latent[1].find("expanded") != std::string::npos);
}

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
    s.meshes.push_back({testing::mesh(text), 0, 0});
  }
  s.meshes[0].warnings = 2;
  for (size_t mesh = 0; mesh < 2; ++mesh) {
    SweepPoint point;
    point.mesh = mesh;
    point.batch = 1;
    point.seq = 64;
    point.limit = DeviceLimit{"x", 100, 100, false};
    point.device = "x";
    point.total = mesh == 0 ? 40 : 130;
    point.fit = fit_between(point.limit, point.total, point.total);
    point.workload_headroom = {13, 61'439};
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
  const Table table = sorted_points(s.points, s.meshes, false);
  const std::vector<Row> rows = rows_in(table);
  REQUIRE(rows.size() == 2);
  CHECK(std::get<std::string>(rows[0][0]) == "tp=8");
  CHECK(std::get<std::string>(rows[0][2]) == "60 B free");
  CHECK(std::get<std::string>(rows[0][4]) == "2 warnings");
  CHECK(std::get<std::string>(rows[1][2]) == "30 B over");
  CHECK(common_text(s.points, s.meshes) == "x with 100 B, batch 1, context 64");
  Sample many = s;
  while (many.points.size() < 41) many.points.push_back(s.points[0]);
  const std::vector<Row> cut =
      rows_in(sorted_points(many.points, many.meshes, false));
  REQUIRE(cut.size() == 41);
  CHECK(std::get<std::string>(cut[40][0]) == "and 1 more (--expand)");
  CHECK(rows_in(sorted_points(many.points, many.meshes, true)).size() == 41);
}

TEST_CASE("points that cannot run are left out for people, with their count") {
  Sample s = sample();
  s.meshes[1].errors = 3;
  s.meshes[1].error_codes = "SP206";
  const std::vector<Row> rows =
      rows_in(sorted_points(s.points, s.meshes, false));
  REQUIRE(rows.size() == 1);
  CHECK(std::get<std::string>(rows[0][0]) == "tp=8");
  CHECK(left_out_text(s.points, s.meshes) ==
        "1 configuration that cannot run is hidden (`--expand` shows it): "
        "SP206");
  CHECK(rows_in(sorted_points(s.points, s.meshes, true)).size() == 2);
  // Rules that suit no mesh are no reason to leave all out.
  s.meshes[0].errors = 3;
  CHECK(rows_in(sorted_points(s.points, s.meshes, false)).size() == 2);
  CHECK(left_out_text(s.points, s.meshes).empty());
  // What does not divide is one, whatever the others are.
  s.points[0].refused = {"a batch of 3 does not divide by 2"};
  CHECK(rows_in(sorted_points(s.points, s.meshes, false)).size() == 1);
}

TEST_CASE("a sweep by time puts the fastest first, whatever its devices") {
  Sample s = sample();
  for (SweepPoint& point : s.points) {
    point.fit = fit_between(point.limit, 40, 40);
    point.objective = Objective::StepTime;
    point.times.asked = Timed::TrainingStep;
    const double seconds = point.mesh == 0 ? 2 : 1;
    point.times.of[0] = {seconds, seconds, seconds};
  }
  const std::vector<Row> rows =
      rows_in(sorted_points(s.points, s.meshes, false));
  CHECK(std::get<std::string>(rows[0][0]) == "tp=4");
  CHECK(std::get<std::string>(rows[1][0]) == "tp=8");
}

TEST_CASE("programs get every point, with sizes by category") {
  Sample s = sample();
  s.points[0].limit.reset();
  const Table table = points_table(s.points, s.meshes);
  const std::vector<Row> rows = rows_in(table);
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].size() == table.columns.size());
  CHECK(std::holds_alternative<std::monostate>(rows[0][7]));
  CHECK(std::get<YesNo>(rows[1][9]).value == false);
  CHECK(std::get<Count>(rows[1][10]).value == 13);
  CHECK(table.columns[14].id == "parameters");
  const std::vector<Table> frontier = frontier_tables(s.points, s.meshes);
  REQUIRE(frontier.size() == 2);
  CHECK(rows_in(frontier[0]).size() == 1);
  CHECK(rows_in(frontier[1]).size() == 1);
  CHECK(frontier[1].columns.size() == table.columns.size());
}

}  // namespace

}  // namespace shardplan::cli
