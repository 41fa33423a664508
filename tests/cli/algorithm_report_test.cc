// SPDX-License-Identifier: Apache-2.0
#include "cli/algorithm_report.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::MemoryHost;

json answer(const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"explain", "--json"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  MemoryHost host;
  CHECK(run(arguments, host) == 0);
  return json::parse(host.out);
}

TEST_CASE("the summary says what is sent, in payloads") {
  const json summary =
      answer({"--algorithm", "ring", "--ranks", "4"}).at("summary");
  CHECK(summary == json{{"algorithm", "ring"},
                        {"kind", "all-reduce"},
                        {"ranks", 4},
                        {"inner", 1},
                        {"chunks", 4},
                        {"steps", 6},
                        {"copies", 6},
                        {"least_copies", 6},
                        {"busiest", 1.5}});
  const json more = answer({"--algorithm", "bidirectional-ring", "--kind",
                            "all-to-all", "--ranks", "8"})
                        .at("summary");
  CHECK(more.at("copies") == 16);
  CHECK(more.at("least_copies") == 7);
  CHECK(more.at("busiest") == 2.0);
  const json permuted =
      answer({"--algorithm", "ring", "--kind", "permute", "--ranks", "5"})
          .at("summary");
  CHECK(permuted.at("copies") == 5);
  CHECK(permuted.at("busiest") == 1.0);
}

TEST_CASE("every transfer is a row") {
  const json rows = answer({"--algorithm", "halving-doubling", "--ranks", "2"})
                        .at("tables")
                        .at("steps");
  CHECK(rows == json::parse(R"([
    {"step": 1, "source": 1, "target": 0, "first_chunk": 0, "chunk_count": 1,
     "reduce": true},
    {"step": 1, "source": 0, "target": 1, "first_chunk": 1, "chunk_count": 1,
     "reduce": true},
    {"step": 2, "source": 0, "target": 1, "first_chunk": 0, "chunk_count": 1,
     "reduce": false},
    {"step": 2, "source": 1, "target": 0, "first_chunk": 1, "chunk_count": 1,
     "reduce": false}])"));
  CHECK(answer({"--algorithm", "ring", "--ranks", "1"})
            .at("tables")
            .at("steps")
            .empty());
}

TEST_CASE("every algorithm has a chart of every kind that it lists") {
  MemoryHost host;
  CHECK(run({"list", "algorithms", "--json"}, host) == 0);
  const json listed = json::parse(host.out).at("tables").at("algorithms");
  CHECK(listed.size() == algorithm_names().size());
  int charts = 0;
  for (const json& row : listed) {
    for (const json& kind : row.at("kinds")) {
      Options options;
      options.algorithm = row.at("name");
      options.kind = kind;
      options.ranks = 8;
      if (options.algorithm == "hierarchical") options.inner = 4;
      Diagnostics diags;
      const auto report = algorithm_report(options, diags);
      REQUIRE(report.has_value());
      CHECK(report->drawing(Style())[0].starts_with("step  rank 0"));
      ++charts;
    }
  }
  CHECK(charts > 30);
}

TEST_CASE("what cannot be drawn is refused, with what can") {
  const struct {
    std::vector<std::string> flags;
    const char* message;
  } rows[] = {
      {{"--algorithm", "ring"}, "`--algorithm` needs `--ranks N`"},
      {{"--algorithm", "ring", "--ranks", "257"},
       "a schedule of 257 ranks is too large to show"},
      {{"--algorithm", "ring", "--ranks", "0"}, "`--ranks` must be"},
      {{"--algorithm", "rings", "--ranks", "4"},
       "a value with a similar name exists: `ring`"},
      {{"--algorithm", "ring", "--ranks", "4", "--kind", "all-to-all"},
       "these have: `pairwise`, `bidirectional-ring` and `direct`"},
      {{"--algorithm", "hierarchical", "--ranks", "4"}, "`--inner K` says"},
      {{"--algorithm", "hierarchical", "--ranks", "4", "--inner", "4"},
       "`hierarchical` has no all-reduce over 4 ranks, 4 of them fast"},
      {{"--algorithm", "hierarchical", "--ranks", "4", "--inner", "3"},
       "a fast axis of 3 does not divide 4 ranks"},
      {{"SP203", "--algorithm", "ring"},
       "both `SP203` and `--algorithm` are given"},
      {{"--matmul", "P() @ P()", "--algorithm", "ring"},
       "both `--matmul` and `--algorithm` are given"},
      {{"SP203", "--ranks", "4"}, "`--ranks` means nothing without"},
      {{"SP203", "--expand"}, "`--expand` means nothing without"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.message);
    std::vector<std::string> arguments = {"explain"};
    arguments.insert(arguments.end(), row.flags.begin(), row.flags.end());
    MemoryHost host;
    CHECK(run(arguments, host) == 2);
    CHECK(host.out.empty());
    CHECK_MESSAGE(host.err.find(row.message) != std::string::npos, host.err);
  }
}

}  // namespace
}  // namespace shardplan::cli
