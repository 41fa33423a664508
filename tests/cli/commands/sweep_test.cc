// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/sweep/sweep.h"

#include <doctest/doctest.h>

#include "cli/options.h"
#include "cli/progress.h"
#include "tests/support/memory_host.h"
#include "tests/support/planning.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::MemoryHost;
using testing::Words;

struct Given {
  MemoryHost host;
  Diagnostics diags;
  Options options;

  std::optional<std::vector<SlicedMesh>> meshes() {
    return sweep_meshes(options.sweep, options.planning, RuleSet(), diags);
  }
};

std::vector<std::string> texts(
    const std::optional<std::vector<SlicedMesh>>& meshes) {
  std::vector<std::string> result;
  if (!meshes) return {"none"};
  for (const auto& each : *meshes) result.push_back(mesh_text(each.mesh));
  return result;
}

TEST_CASE("meshes are written out, or made of numbers of devices") {
  Given given;
  given.options.planning.mesh =
      std::make_shared<SourceFile>("--mesh", "tp=4;dp=-1,tp=2;tp=4");
  given.options.sweep.devices = {4};
  CHECK(texts(given.meshes()) == std::vector<std::string>{"tp=4", "dp=2,tp=2"});
  given.options.planning.mesh = nullptr;
  given.options.sweep.over = {"dp", "tp"};
  given.options.sweep.devices = {2, 3};
  CHECK(texts(given.meshes()) ==
        std::vector<std::string>{"dp=2,tp=1", "dp=1,tp=2", "dp=3,tp=1",
                                 "dp=1,tp=3"});
  CHECK(given.diags.all().empty());
}

TEST_CASE("what makes no mesh is reported with help") {
  const auto problem = [](Given given) {
    CHECK_FALSE(given.meshes());
    REQUIRE(given.diags.all().size() == 1);
    CHECK_FALSE(given.diags.all()[0].help.empty());
    return given.diags.all()[0].message;
  };
  Given none;
  CHECK(problem(none) == "no mesh was given");
  Given over;
  over.options.sweep.over = {"tp"};
  CHECK(problem(over) == "`--over` needs device counts to split");
  over.options.sweep.devices = {8};
  over.options.sweep.over = {"tp", "tp"};
  CHECK(problem(over) == "`--over` names axis `tp` twice");
  over.options.sweep.over = {"tp"};
  over.options.planning.mesh = std::make_shared<SourceFile>("--mesh", "tp=4");
  CHECK(problem(over) == "both `--mesh` and `--over` are given");
  Given many;
  many.options.sweep.over = {"a", "b", "c", "d", "e", "f"};
  many.options.sweep.devices = {int64_t{1} << 40};
  CHECK(problem(many) == "`--over` expands to more than 10,000 meshes");
}

TEST_CASE("workloads are all pairs of batch and context") {
  SweepRequest sweep;
  CHECK(sweep_workloads(sweep).empty());
  sweep.seq = {64, 128};
  CHECK(sweep_workloads(sweep).size() == 2);
  sweep.batch = {1, 2, 3};
  const auto all = sweep_workloads(sweep);
  REQUIRE(all.size() == 6);
  CHECK(all[3].batch == 2);
  CHECK(all[3].seq == 128);
}

TEST_CASE("each device has its own limit and reserve") {
  Given given;
  const auto devices_of = [&] {
    return sweep_devices(given.options.sweep, given.options.memory, given.host,
                         given.diags);
  };
  auto devices = devices_of();
  REQUIRE(devices);
  REQUIRE(devices->size() == 1);
  CHECK_FALSE(devices->front().limit);
  given.options.sweep.hardware = {"h100-sxm", "h200"};
  given.options.memory.reserve_fraction = 0.5;
  devices = devices_of();
  REQUIRE(devices);
  REQUIRE(devices->size() == 2);
  CHECK(devices->at(0).limit->name == "h100-sxm");
  CHECK(devices->at(1).reserve > devices->at(0).reserve);
  given.options.sweep.hardware = {"h1000"};
  CHECK_FALSE(devices_of());
}

using nlohmann::json;
using testing::planning_host;

json swept(std::vector<std::string> words, int expected) {
  MemoryHost host = planning_host();
  words.insert(words.begin(),
               {"sweep", "model.json", "--rules", "rules.yaml", "--json"});
  CHECK(run(words, host) == expected);
  CAPTURE(host.err);
  return json::parse(host.out);
}

TEST_CASE("a sweep is the same for any number of threads") {
  for (const char* devices : {"4", "2,4,8,16"}) {
    std::vector<std::string> outputs;
    for (const char* jobs : {"1", "2", "5"}) {
      MemoryHost host = planning_host();
      std::string& model = host.files["model.json"];
      model.replace(model.find("\"heads\""), 0, "\"layers\": 2, ");
      run({"sweep", "model.json", "--rules", "rules.yaml", "--devices", devices,
           "--over", "fsdp,tp", "--mode", "decode", "--seq", "64,128",
           "--memory", "1MiB", "--jobs", jobs, "--expand"},
          host);
      outputs.push_back(host.out + host.err);
    }
    CHECK(outputs[0].find("configurations") != std::string::npos);
    CHECK(outputs[1] == outputs[0]);
    CHECK(outputs[2] == outputs[0]);
  }
}

TEST_CASE("times of a sweep are the same for any number of threads") {
  for (const Words& asked :
       {Words{"--optimizer", "adamw", "--remat", "none,full"},
        Words{"--mode", "decode"}, Words{"--mode", "prefill"},
        Words{"--mode", "decode", "--engine", "vllm"}}) {
    const bool serves = asked.back() == "vllm";
    std::vector<std::string> outputs;
    for (const char* jobs : {"1", "2", "5"}) {
      MemoryHost host;
      host.files["config.json"] = testing::tiny_llama().dump();
      Words words = {"sweep",       "config.json",
                     "-r",          "@llama",
                     "--devices",   "2,4,8",
                     "--over",      serves ? "dp,tp" : "fsdp,tp",
                     "--hardware",  "h100-sxm",
                     "--batch",     "8,16",
                     "--seq",       "32",
                     "--objective", "step-time",
                     "--json",      "--exit-zero",
                     "--jobs",      jobs};
      words.insert(words.end(), asked.begin(), asked.end());
      run(words, host);
      outputs.push_back(host.out + host.err);
    }
    const json report = json::parse(outputs[0]);
    for (const json& point : report.at("tables").at("points")) {
      CHECK(point.at("tokens_per_second").get<double>() > 0);
    }
    CHECK(outputs[1] == outputs[0]);
    CHECK(outputs[2] == outputs[0]);
  }
}

TEST_CASE("a sweep that some mesh ends says the first one, on any threads") {
  std::vector<std::string> outputs;
  for (const char* jobs : {"1", "3"}) {
    MemoryHost host = planning_host();
    host.files["rules.yaml"] =
        "rules:\n  - [\"embed\", [tp]]\n  - [\".*\", [fsdp]]\n";
    CHECK(run({"sweep", "model.json", "--rules", "rules.yaml", "--devices",
               "16", "--over", "fsdp,tp", "--optimizer", "adamw", "--zero", "1",
               "--zero-axes", "ep", "--jobs", jobs},
              host) == 2);
    outputs.push_back(host.out + host.err);
  }
  CHECK(outputs[0].find("on mesh fsdp=16,tp=1") != std::string::npos);
  CHECK(outputs[0].find("on mesh fsdp=8,tp=2") == std::string::npos);
  CHECK(outputs[1] == outputs[0]);
}

TEST_CASE("progress of a sweep says which mesh, and what is left") {
  MemoryHost host = planning_host();
  host.terminals = {Stream::Err};
  host.tick = 1;
  // One thread, since others begin with meshes in any order.
  CHECK(run({"sweep", "model.json", "--rules", "rules.yaml", "--devices", "64",
             "--over", "fsdp,tp", "--jobs", "1", "--exit-zero"},
            host) == 0);
  CHECK(host.err.find("mesh 2 of 7: fsdp=32,tp=2 ...") != std::string::npos);
  CHECK(host.err.find("mesh 7 of 7: ") != std::string::npos);
  CHECK(host.err.find(" left") != std::string::npos);
}

TEST_CASE("a sweep has what analyze says of each mesh alone") {
  const json report = swept({"--devices", "4", "--over", "fsdp,tp"}, 0);
  const json& points = report.at("tables").at("points");
  REQUIRE(points.size() == 3);
  for (const json& point : points) {
    std::string mesh;
    for (const char* axis : {"fsdp", "tp"}) {
      mesh += std::string(mesh.empty() ? "" : ",") + axis + "=" +
              std::to_string(point.at("mesh").at(axis).get<int>());
    }
    CAPTURE(mesh);
    const json alone = testing::report_of({"analyze"}, mesh);
    CHECK(point.at("parameters") ==
          alone.at("summary").at("memory_per_device").at("max"));
  }
  CHECK(report.at("summary").at("points") == 3);
  CHECK(report.at("summary").at("fitting").is_null());
  // fsdp=4,tp=1 loses nothing; tp=2 does not divide the vocabulary of 33 (SP203
  // and, since it is most of the model, SP304); tp=4 also cuts the two KV heads
  // of both layers (SP206).
  CHECK(points[0].at("errors") == 0);
  CHECK(points[0].at("warnings") == 0);
  CHECK(points[1].at("errors") == 1);
  CHECK(points[1].at("warnings") == 1);
  CHECK(points[2].at("errors") == 1 + 2);
}

TEST_CASE("a sweep in which nothing fits exits with 1") {
  const json report = swept({"--mesh", "tp=1;tp=2", "--memory", "100B"}, 1);
  CHECK(report.at("summary").at("fitting") == 0);
  CHECK(report.at("tables").at("points")[0].at("fits") == false);
  CHECK(report.at("tables").at("frontier").empty());
}

TEST_CASE("what is not known on a mesh names the mesh") {
  MemoryHost host = planning_host();
  CHECK(run({"sweep", "model.json", "--rules", "rules.yaml", "--mesh", "tp=2",
             "--mode", "decode", "--seq", "4"},
            host) == 2);
  CHECK(host.err.find("SP013") != std::string::npos);
  CHECK(host.err.find("on mesh tp=2") != std::string::npos);
}

TEST_CASE("lists are for sweep alone") {
  MemoryHost host = planning_host();
  CHECK(run({"analyze", "model.json", "--rules", "rules.yaml", "--mesh", "tp=2",
             "--mode", "decode", "--seq", "4,8"},
            host) == 2);
  CHECK(host.err.find("`--seq` must be an integer") != std::string::npos);
}

}  // namespace

}  // namespace shardplan::cli
