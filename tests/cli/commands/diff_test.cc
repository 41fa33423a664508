// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using shardplan::testing::MemoryHost;

// Resolves `model` on `mesh` and saves the plan under `path`.
void save_plan(MemoryHost& host, const std::string& path,
               const std::string& model, const std::string& rules,
               const std::string& mesh) {
  host.files["m.json"] = model;
  host.files["r.yaml"] = rules;
  REQUIRE(run({"resolve", "m.json", "-r", "r.yaml", "-m", mesh, "-o", path,
               "--exit-zero"},
              host) == 0);
  host.out.clear();
  host.err.clear();
}

constexpr const char* kBefore = R"({
  "layers/0/w": {"shape": [8, 8], "dtype": "f32"},
  "layers/1/w": {"shape": [8, 8], "dtype": "f32"},
  "old": {"shape": [8], "dtype": "f32"},
  "same": {"shape": [8], "dtype": "f32"}})";
constexpr const char* kAfter = R"({
  "layers/0/w": {"shape": [8, 8], "dtype": "f32"},
  "layers/1/w": {"shape": [8, 8], "dtype": "f32"},
  "new": {"shape": [16], "dtype": "bf16"},
  "same": {"shape": [8], "dtype": "f32"}})";

MemoryHost two_plans(const char* mesh_after = "fsdp=4,tp=2") {
  MemoryHost host;
  host.variables["LANG"] = "C.UTF-8";
  save_plan(host, "a.plan.json", kBefore,
            "rules:\n  - [/w, [tp, null]]\n  - [old|same, []]\n",
            "fsdp=4,tp=2");
  save_plan(host, "b.plan.json", kAfter,
            "rules:\n  - [/w, [fsdp, null]]\n  - [new|same, []]\n", mesh_after);
  return host;
}

json compared(MemoryHost& host) {
  REQUIRE(run({"diff", "a.plan.json", "b.plan.json", "--json"}, host) == 0);
  return json::parse(host.out);
}

TEST_CASE("programs get one row per tensor that differs") {
  MemoryHost host = two_plans();
  const json rows = compared(host).at("tables").at("changes");
  REQUIRE(rows.size() == 4);
  const json changed = {{"parameter", "layers/0/w"},
                        {"change", "changed"},
                        {"dtype_before", "f32"},
                        {"dtype_after", "f32"},
                        {"shape_before", {8, 8}},
                        {"shape_after", {8, 8}},
                        {"spec_before", {"tp", nullptr}},
                        {"spec_after", {"fsdp", nullptr}},
                        {"bytes_before", 128},
                        {"bytes_after", 64},
                        {"view_before", nullptr},
                        {"view_after", nullptr},
                        {"dealt_before", nullptr},
                        {"dealt_after", nullptr}};
  CHECK(rows[0] == changed);
  CHECK(rows[2].at("parameter") == "old");
  CHECK(rows[2].at("change") == "removed");
  CHECK(rows[2].at("shape_after").is_null());
  CHECK(rows[3].at("parameter") == "new");
  CHECK(rows[3].at("change") == "added");
  CHECK(rows[3].at("spec_before").is_null());
  CHECK(rows[3].at("spec_after") == json::array());
}

TEST_CASE("the summary holds counts, the fullest device and fingerprints") {
  MemoryHost host = two_plans();
  const json summary = compared(host).at("summary");
  CHECK(summary.at("changed") == 2);
  CHECK(summary.at("added") == 1);
  CHECK(summary.at("removed") == 1);
  CHECK(summary.at("same") == 1);
  CHECK(summary.at("memory_per_device_before") == 2 * 128 + 32 + 32);
  CHECK(summary.at("memory_per_device_after") == 2 * 64 + 32 + 32);
  CHECK(summary.at("fingerprint_before") != summary.at("fingerprint_after"));
}

TEST_CASE("people see equal changes folded and the counts last") {
  MemoryHost host = two_plans();
  CHECK(run({"diff", "a.plan.json", "b.plan.json"}, host) == 0);
  CHECK(host.out == R"(mesh fsdp=4,tp=2 (8 devices)

~  layers/*/w ×2  spec        P(tp, None)  →  P(fsdp, None)
                  per device  256 B        →  128 B
-  old            dtype       f32          →  –
                  shape       8            →  –
                  spec        P()          →  –
                  per device  32 B         →  –
+  new            dtype       –            →  bf16
                  shape       –            →  16
                  spec        –            →  P()
                  per device  –            →  32 B

2 changed, 1 added, 1 removed, 1 unchanged. Per device 320 B → 192 B (-40.0 %).
)");
  host.out.clear();
  CHECK(run({"diff", "a.plan.json", "b.plan.json", "--expand"}, host) == 0);
  CHECK(host.out.find("~  layers/1/w") != std::string::npos);
}

TEST_CASE("a tensor whose type changes is changed, not replaced") {
  MemoryHost host;
  const std::string rules = "rules:\n  - [w, []]\n";
  save_plan(host, "a.plan.json", R"({"w": {"shape": [8], "dtype": "f32"}})",
            rules, "tp=2");
  save_plan(host, "b.plan.json", R"({"w": {"shape": [9], "dtype": "bf16"}})",
            rules, "tp=2");
  const json rows = compared(host).at("tables").at("changes");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("change") == "changed");
  CHECK(rows[0].at("dtype_after") == "bf16");
  CHECK(rows[0].at("shape_after") == json::array({9}));
}

TEST_CASE("both meshes are named where they differ") {
  MemoryHost host = two_plans("fsdp=2");
  CHECK(run({"diff", "a.plan.json", "b.plan.json"}, host) == 0);
  CHECK(host.out.starts_with(
      "mesh fsdp=4,tp=2 (8 devices) → fsdp=2 (2 devices)\n"));
}

TEST_CASE("--exit-code makes a difference a finding") {
  const struct {
    const char* after;
    std::vector<std::string> flags;
    int exit;
  } rows[] = {{"b.plan.json", {}, 0},
              {"b.plan.json", {"--exit-code"}, 1},
              {"b.plan.json", {"--exit-code", "--exit-zero"}, 0},
              {"a.plan.json", {"--exit-code"}, 0}};
  for (const auto& row : rows) {
    CAPTURE(row.after);
    CAPTURE(row.flags.size());
    MemoryHost host = two_plans();
    std::vector<std::string> words = {"diff", "a.plan.json", row.after};
    words.insert(words.end(), row.flags.begin(), row.flags.end());
    CHECK(run(words, host) == row.exit);
  }
}

TEST_CASE("equal plans differ in nothing") {
  MemoryHost host = two_plans();
  CHECK(run({"diff", "a.plan.json", "a.plan.json"}, host) == 0);
  CHECK(host.out ==
        "mesh fsdp=4,tp=2 (8 devices)\n\n0 changed, 0 added, 0 removed, 4 "
        "unchanged. Per device 320 B → 320 B (+0.0 %).\n");
}

TEST_CASE("what is not a plan is no answer") {
  MemoryHost host = two_plans();
  CHECK(run({"diff", "a.plan.json", "r.yaml"}, host) == 2);
  CHECK(run({"diff", "a.plan.json", "missing.plan.json"}, host) == 2);
  CHECK(host.out.empty());
}

}  // namespace
}  // namespace shardplan::cli
