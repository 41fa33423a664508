// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/topics.h"
#include "graph/composites.h"
#include "graph/op.h"
#include "io/graph_file.h"
#include "io/load.h"
#include "io/shipped.h"
#include "report/report.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

nlohmann::json listed(const std::string& topic) {
  MemoryHost host;
  CHECK(run({"list", topic, "--json"}, host) == 0);
  CHECK(host.err.empty());
  return nlohmann::json::parse(host.out).at("tables");
}

TEST_CASE("list shows its topics, and each of them can be listed") {
  MemoryHost host;
  CHECK(run({"list"}, host) == 0);
  for (const std::string& topic : topic_names()) {
    CAPTURE(topic);
    CHECK(host.out.find(topic) != std::string::npos);
    CHECK_FALSE(listed(topic).empty());
  }
}

TEST_CASE("lists have a row for everything in their tables") {
  CHECK(listed("codes").at("codes").size() == all_codes().size());
  CHECK(listed("commands").at("commands").size() == commands().size());
  CHECK(listed("dialects").at("dialects").size() == rule_dialects().size());
  CHECK(listed("rules").at("rules").size() ==
        shipped_files("models").size() + shipped_files("logical").size());
  const auto formats = listed("formats");
  CHECK(formats.at("model_formats").size() == manifest_formats().size());
  CHECK(formats.at("output_formats").size() == renderers().size());
}

TEST_CASE("operations are listed with what may be sharded of them") {
  const auto tables = listed("ops");
  CHECK(tables.at("ops").size() == ops().size());
  size_t attributes = 0;
  for (const OpDef& op : ops()) attributes += op.attributes.size();
  CHECK(tables.at("composites").size() == composites().size());
  for (const CompositeDef& op : composites()) {
    attributes += op.attributes.size();
  }
  CHECK(tables.at("attributes").size() == attributes);
  const auto& einsum = tables.at("ops").at(0);
  CHECK(einsum.at("name") == "einsum");
  CHECK(einsum.at("operands") == "2");
  CHECK(einsum.at("factors") ==
        "every letter; those that are summed give partial sums");
  CHECK(tables.at("attributes").at(0).at("need") == "required");
  bool concatenate = false;
  for (const auto& row : tables.at("ops")) {
    if (row.at("name") == "concatenate") {
      concatenate = row.at("operands") == "2 or more";
    }
  }
  CHECK(concatenate);
}

TEST_CASE("shipped graphs are listed by the name that models have") {
  const auto graphs = listed("graphs").at("graphs");
  CHECK(graphs.size() == shipped_files(kGraphFolder).size());
  for (const auto& row : graphs) {
    CHECK(row.at("name").get<std::string>().starts_with("@"));
    CHECK_FALSE(row.at("summary").get<std::string>().empty());
  }
}

TEST_CASE("shipped rules are listed by the name that --rules takes") {
  const auto rules = listed("rules").at("rules");
  bool llama = false;
  for (const auto& row : rules) {
    CHECK(row.at("name").get<std::string>().starts_with("@"));
    CHECK_FALSE(row.at("summary").get<std::string>().empty());
    llama = llama || row.at("name") == "@llama";
  }
  CHECK(llama);
}

TEST_CASE("an unknown topic gets the nearest one") {
  MemoryHost host;
  CHECK(run({"list", "ruls"}, host) == 2);
  CHECK(host.err ==
        "error[SP010]: unknown topic `ruls`\n"
        "help: a topic with a similar name exists: `rules`\n");
}

}  // namespace
}  // namespace shardplan::cli
