// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::MemoryHost;
using testing::planning_host;

json swept(std::vector<std::string> words, int expected) {
  MemoryHost host = planning_host();
  words.insert(words.begin(),
               {"sweep", "model.json", "--rules", "rules.yaml", "--json"});
  CHECK(run(words, host) == expected);
  CAPTURE(host.err);
  return json::parse(host.out);
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
  const json report = swept({"--mesh", "tp=1;tp=2", "--memory", "100"}, 1);
  CHECK(report.at("summary").at("fitting") == 0);
  CHECK(report.at("tables").at("points")[0].at("fits") == false);
  CHECK(report.at("tables").at("frontier").empty());
}

TEST_CASE("what cannot be told on a mesh names the mesh") {
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
