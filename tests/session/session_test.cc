// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan {
namespace {

using testing::MemoryHost;
using testing::planning_host;
using testing::report_of;
using testing::run_on;

TEST_CASE("a session needs rules, and a mesh from a flag or the rules") {
  struct Row {
    std::vector<std::string> words;
    const char* says;
  };
  const Row rows[] = {
      {{"check", "model.json", "--mesh", "tp=2"}, "error[SP010]: no rules"},
      {{"check", "model.json", "--rules", "rules.yaml"},
       "error[SP007]: no mesh"},
      {{"check", "model.json", "--rules", "rules.yaml", "--mesh", "tp=2,tp=2"},
       "error[SP007]: axis `tp` appears twice"},
      {{"check", "-", "--rules", "-", "--mesh", "tp=2"},
       "error[SP010]: standard input can be read only once"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    MemoryHost host = planning_host();
    CHECK(cli::run(row.words, host) == 2);
    CHECK(host.out.empty());
    CHECK(host.err.find(row.says) == 0);
  }
}

TEST_CASE("the rules' own mesh serves, and --mesh wins over it") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] += "mesh: {fsdp: 2, tp: 1}\n";
  CHECK(cli::run({"resolve", "model.json", "--rules", "rules.yaml", "--json"},
                 host) == 0);
  const auto own = nlohmann::ordered_json::parse(host.out);
  CHECK(own.at("summary").at("mesh").dump() == R"({"fsdp":2,"tp":1})");
  host.out.clear();
  run_on(host, {"resolve", "--json"}, "tp=2");
  const auto flag = nlohmann::ordered_json::parse(host.out);
  CHECK(flag.at("summary").at("mesh").dump() == R"({"tp":2})");
}

TEST_CASE("the mesh of a dump serves where nobody gives another") {
  MemoryHost host = planning_host();
  host.files["d/named_shardings.json"] = R"({".params/['w']": {
    "mesh": {"axis_names": ["fsdp", "tp"], "shape": {"fsdp": 4, "tp": 2}},
    "partition_spec": ["fsdp", "tp"], "shape": [8, 8]}})";
  host.files["w.yaml"] = R"({axes: [fsdp], rules: [["w", [tp, null]]]})";
  const auto mesh_of = [&](std::vector<std::string> words) {
    host.out.clear();
    words.insert(words.begin(), {"resolve", "d", "--json"});
    CHECK(cli::run(words, host) == 0);
    const auto report = nlohmann::ordered_json::parse(host.out);
    return report.at("summary").at("mesh").dump();
  };
  CHECK(mesh_of({"--rules", "w.yaml"}) == R"({"fsdp":4,"tp":2})");
  CHECK(mesh_of({"--rules", "w.yaml", "--mesh", "tp=8"}) == R"({"tp":8})");
  CHECK(mesh_of({"--rules", "d"}) == R"({"fsdp":4,"tp":2})");
  host.err.clear();
  host.out.clear();
  cli::run({"resolve", "d", "--rules", "w.yaml"}, host);
  CHECK(host.out.find("using the mesh fsdp=4,tp=2 of `d`") !=
        std::string::npos);
}

TEST_CASE("--axes declares axes that the rules may name") {
  const auto errors = [](std::vector<std::string> words) {
    return report_of(std::move(words), "tp=2").at("summary").at("errors");
  };
  CHECK(errors({"resolve", "--tolerance", "1"}) == 5);  // fsdp, five times
  CHECK(errors({"resolve", "--tolerance", "1", "--axes", "fsdp"}) == 0);
}

TEST_CASE("the answer does not depend on the number of threads") {
  const auto one = report_of({"resolve", "--jobs", "1"}, "fsdp=2,tp=2");
  CHECK(report_of({"resolve", "--jobs", "4"}, "fsdp=2,tp=2") == one);
}

// Stages in the order in which they were reported.
class RecordedStages : public ProgressListener {
 public:
  void stage(std::string_view text) override { texts.emplace_back(text); }
  std::vector<std::string> texts;
};

TEST_CASE("a session needs no command line") {
  MemoryHost host = planning_host();
  PlanRequest request;
  request.model = "model.json";
  request.rules = {"rules.yaml"};
  request.mesh = std::make_shared<SourceFile>("mesh", "fsdp=2,tp=2");
  request.unmatched = Unmatched::Replicate;
  Diagnostics diags;
  RecordedStages progress;
  const auto session = open_session(request, {}, host, diags, progress);
  REQUIRE(session);
  CHECK(session->plan.mesh.devices() == 4);
  CHECK(session->memory.max > 0);
  CHECK(diags.count(Severity::Error) == 1);  // 33 rows over tp=2
  CHECK(progress.texts ==
        std::vector<std::string>{"reading the model", "matching rules",
                                 "checking the plan", "looking for fixes"});
  CHECK(host.out.empty());
  CHECK(host.err.empty());
}

TEST_CASE("axes that memory is asked for are mentioned") {
  const auto unmentioned = [](const MemoryRequest& memory) {
    MemoryHost host = planning_host();
    PlanRequest request;
    request.model = "model.json";
    request.rules = {"rules.yaml"};
    request.mesh = std::make_shared<SourceFile>("mesh", "fsdp=2,tp=2,dp=2");
    Diagnostics diags;
    RecordedStages progress;
    REQUIRE(open_session(request, memory, host, diags, progress));
    int64_t count = 0;
    for (const Diagnostic& diagnostic : diags.all()) {
      count += diagnostic.code == Code::UnmentionedAxis ? 1 : 0;
    }
    return count;
  };
  CHECK(unmentioned({}) == 1);
  MemoryRequest memory;
  memory.batch_axes = {"dp"};
  CHECK(unmentioned(memory) == 0);
}

struct Given {
  const char* mesh;
  AxisNames axes;
  std::optional<int64_t> devices;
  std::optional<int64_t> slices;
};

std::optional<SlicedMesh> read(const Given& given, Diagnostics& diags) {
  PlanRequest request;
  request.axes = given.axes;
  request.slices = given.slices;
  return written_mesh(std::make_shared<SourceFile>("--mesh", given.mesh),
                      request, given.devices, diags);
}

TEST_CASE("sizes alone are named by --axes, in their order") {
  const struct {
    Given given;
    const char* mesh;
  } rows[] = {{{"2,4", {"dp", "tp"}, {}, {}}, "dp=2,tp=4"},
              {{" 2 , -1", {"dp", "tp"}, 8, {}}, "dp=2,tp=4"},
              {{"-1,4", {"dp", "tp"}, 8, {}}, "dp=2,tp=4"},
              {{"8", {"tp"}, {}, {}}, "tp=8"},
              // By name, the order of the text wins and --axes only declares.
              {{"tp:2,dp:4", {"dp", "tp"}, {}, {}}, "tp=2,dp=4"},
              {{"tp=2", {"dp", "tp"}, {}, {}}, "tp=2"}};
  for (const auto& row : rows) {
    CAPTURE(row.given.mesh);
    Diagnostics diags;
    const auto mesh = read(row.given, diags);
    CHECK(diags.all().empty());
    REQUIRE(mesh);
    CHECK(mesh_text(mesh->mesh) == row.mesh);
    CHECK_FALSE(mesh->slices);
  }
}

TEST_CASE("sizes and names that do not fit are both shown") {
  const struct {
    Given given;
    const char* message;
    std::vector<std::string> facts;
  } rows[] = {
      {{"2,4", {}, {}, {}},
       "the sizes have no names",
       {"there are 2 sizes: 2,4"}},
      {{"2,4", {"dp", "fsdp", "tp"}, {}, {}},
       "there are 2 sizes for 3 names",
       {"the sizes are 2,4", "`--axes` names `dp`, `fsdp` and `tp`"}},
      {{"2,x", {"dp", "tp"}, {}, {}}, "`x` is not the size of an axis", {}},
      {{"2,4,", {"dp", "tp"}, {}, {}},
       "there are 3 sizes for 2 names",
       {"the sizes are 2,4,", "`--axes` names `dp` and `tp`"}},
      {{"tp", {"tp"}, {}, {}}, "axis `tp` has no size", {}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.given.mesh);
    Diagnostics diags;
    CHECK_FALSE(read(row.given, diags));
    REQUIRE(diags.all().size() == 1);
    CHECK(diags.all()[0].code == Code::InvalidMesh);
    CHECK(diags.all()[0].message == row.message);
    CHECK(diags.all()[0].facts == row.facts);
    REQUIRE_FALSE(diags.all()[0].labels.empty());
    CHECK(diags.all()[0].labels[0].where.file->name() == "--mesh");
  }
}

TEST_CASE("--slices cuts the first axis that it divides") {
  Diagnostics diags;
  const auto mesh = read({"dp=3,fsdp=8", {}, {}, 4}, diags);
  REQUIRE(mesh);
  CHECK(slices_text(mesh->mesh, *mesh->slices) == "4 slices (fsdp crosses 4)");
}

TEST_CASE("a mesh of rules has its sizes over slices") {
  RuleSet rules;
  rules.mesh = {{"data", 1, {}, {}, {}}, {"fsdp", -1, {}, {}, {}}};
  rules.dcn_mesh = {{"data", -1, {}, {}, {}}, {"fsdp", 1, {}, {}, {}}};
  Diagnostics diags;
  PlanRequest request;
  request.devices = 16;
  request.slices = 2;
  const auto mesh = mesh_of_rules(rules, request, diags);
  REQUIRE(mesh);
  CHECK(mesh_text(mesh->mesh) == "data=2,fsdp=8");
  CHECK(mesh->slices->crossed == std::vector<int64_t>{2, 1});
}

}  // namespace

}  // namespace shardplan
