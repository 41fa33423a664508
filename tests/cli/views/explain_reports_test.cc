// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/commands/requests.h"
#include "cli/views/algorithm_report.h"
#include "comm/collective.h"
#include "report/figures/figures.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using nlohmann::json;
using testing::MemoryHost;

json answer(const std::string& product, int code = 0) {
  MemoryHost host;
  CHECK(run({"explain", "--matmul", product, "--parity", "--json"}, host) ==
        code);
  return json::parse(host.out);
}

TEST_CASE("a product has a spec, and needs what its operands do not have") {
  struct Row {
    const char* product;
    json output;
    std::vector<std::string> needs;
  };
  const json none;
  const Row rows[] = {
      {"P(dp, None) @ P(None, tp)", {"dp", "tp"}, {"nothing"}},
      {"P(dp, tp) @ P(tp, None)",
       {"dp", none},
       {"all-reduce", "or reduce-scatter"}},
      {"P(None, tp) @ P(None, None)", {none, none}, {"all-gather, or slice"}},
      {"P(None, None) @ P(tp, None)", {none, none}, {"all-gather, or slice"}},
      {"P(dp, None) @ P(None, dp)", {"dp", none}, {"all-gather"}},
      {"P(None, (a, b)) @ P((b, a), None)",
       {none, none},
       {"resharding", "all-reduce", "or reduce-scatter"}},
      {"P(dp, None, None) @ P(None, None, tp)",
       {"dp", none, "tp"},
       {"resharding"}},
      {"P(tp) @ P(tp)", json::array(), {"all-reduce"}},
      {"PartitionSpec('dp', ('fsdp', \"tp\")) @ jax.P(None, [sp])",
       {"dp", "sp"},
       {"all-gather, or slice"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.product);
    const json report = answer(row.product);
    CHECK(report.at("summary").at("output") == row.output);
    std::vector<std::string> needs;
    for (const json& need : report.at("tables").at("needs")) {
      needs.push_back(need.at("what"));
    }
    CHECK(needs == row.needs);
  }
}

TEST_CASE("partial sums and mismatches are lists of axes") {
  const json summary =
      answer("P(dp, (tp, sp)) @ P((tp, fsdp), None)").at("summary");
  CHECK(summary.at("partial") == json{"tp"});
  CHECK(summary.at("mismatched") == json{"sp", "fsdp"});
  CHECK(summary.at("repeated") == json::array());
}

TEST_CASE("the original's answer stands beside ours") {
  CHECK(answer("P(dp, tp) @ P(tp, None)").at("summary").at("parity") ==
        json{"dp", nullptr});
  // It drops the only entry of a vector and takes the weight's last.
  CHECK(answer("P(dp) @ P(None)").at("summary").at("parity") ==
        json::array({nullptr}));
  MemoryHost host;
  CHECK(run({"explain", "--matmul", "P(dp) @ P(None)", "--parity"}, host) == 0);
  CHECK(host.out.find("get_matmul_output_sharding: P(None), since") !=
        std::string::npos);
}

TEST_CASE("what is not a product is refused at its place") {
  const struct {
    const char* product;
    const char* says;
  } rows[] = {
      {"P(dp, None)", "error[SP002]: `@` is missing between the operands"},
      {"P(dp, 3) @ P(None)", "error[SP002]: `3` is not an axis"},
      {"P(dp, (tp, None)) @ P(a)", "error[SP002]: `None` is not an axis"},
      {"dp @ P(None)", "error[SP002]: the left operand is not a spec"},
      {"P(a) @ P(b) @ P(c)", "error[SP002]: a product has two operands"},
      {"P(a", "error[SP002]"},
      {"@", "error[SP002]"},
      {"P() @ P(a)",
       "error[SP010]: an operand of a matrix product has at least one"},
      {"P(a, None) @ P(b, None, None)",
       "error[SP010]: no product of 2 dimensions with 3 dimensions"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.product);
    MemoryHost host;
    CHECK(run({"explain", "--matmul", row.product}, host) == 2);
    CHECK(host.out.empty());
    CHECK(host.err.find(row.says) == 0);
  }
}

TEST_CASE("an axis twice in one operand is SP202, and is answered") {
  const json report = answer("P(tp, tp) @ P(None, dp)", 1);
  CHECK(report.at("diagnostics")[0].at("code") == "SP202");
  CHECK(report.at("summary").at("output") == json{"tp", "dp"});
}

using Lines = std::vector<std::string>;

Style style_of(int width, bool unicode = true) {
  Style style;
  style.width = width;
  style.unicode = unicode;
  return style;
}

Schedule schedule_of(const char* algorithm, CollectiveKind kind, int ranks) {
  return find_algorithm(algorithm)->schedule(kind, {ranks, 1});
}

Lines draw_schedule(const Schedule& schedule, Style style, bool expand) {
  style.expand = expand;
  return lines_of(chart_of(schedule), style);
}

TEST_CASE("a row per step says who sends which chunks to whom") {
  CHECK(draw_schedule(schedule_of("ring", CollectiveKind::AllReduce, 2),
                      style_of(80), false) == Lines{"step  rank 0  rank 1",  //
                                                    "   1  1 → +1  0 → +0",  //
                                                    "   2  0 → 1   1 → 0"});
  CHECK(draw_schedule(schedule_of("ring", CollectiveKind::Broadcast, 2),
                      style_of(80, false),
                      false) == Lines{"step  rank 0  rank 1",  //
                                      "   1  0 -> 1",          //
                                      "   2  1 -> 1"});
}

TEST_CASE("chunks of one way and ways of one chunk are one line") {
  const Schedule schedule{4,
                          6,
                          {{{0, 1, 0, 3},
                            {0, 1, 5},
                            {0, 2, 4, 1, true},
                            {0, 3, 4, 1, true},
                            {1, 0, 3}}}};
  const Lines lines = draw_schedule(schedule, style_of(80), false);
  CHECK(lines == Lines{"step  rank 0     rank 1  rank 2  rank 3",
                       "   1  0-2,5 → 1  3 → 0", "      4 → +2,3"});
}

TEST_CASE("what does not fit is left out, or drawn below") {
  const Schedule schedule = schedule_of("ring", CollectiveKind::AllGather, 30);
  const Lines cut = draw_schedule(schedule, style_of(60), false);
  REQUIRE(cut.size() == 1 + 22 + 1 + 1 + 1);
  for (const std::string& line : cut) CHECK(display_width(line) <= 60);
  CHECK(cut[cut.size() - 3] == "  ..");
  CHECK(cut[cut.size() - 2].starts_with("  29  2 → 1"));
  CHECK(cut.back() == "23 ranks and 6 steps not shown (--expand)");
  const Lines whole = draw_schedule(schedule, style_of(60), true);
  CHECK(whole.size() == 5 * 30 + 4);
  const auto last = std::find_if(whole.begin(), whole.end(), [](auto& line) {
    return line.find("rank 29") != std::string::npos;
  });
  CHECK(last != whole.end());
}

TEST_CASE("a full cell is cut, but for --expand") {
  const Schedule schedule = schedule_of("direct", CollectiveKind::AllToAll, 12);
  const Lines cut = draw_schedule(schedule, style_of(200), false);
  CHECK(cut.size() == 9);
  CHECK(cut.back().find("and 4 more") != std::string::npos);
  CHECK(draw_schedule(schedule, style_of(200), true).size() == 12);
}

TEST_CASE("one rank is drawn however narrow it gets") {
  const Lines lines =
      draw_schedule(schedule_of("pairwise", CollectiveKind::AllGather, 3),
                    style_of(5), false);
  CHECK(lines == Lines{"step  rank 0", "   1  0 → 1", "   2  0 → 2",
                       "2 ranks not shown (--expand)"});
}

json algorithm_report_answer(const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"explain", "--json"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  MemoryHost host;
  CHECK(run(arguments, host) == 0);
  return json::parse(host.out);
}

TEST_CASE("the summary says what is sent, in payloads") {
  const json summary =
      algorithm_report_answer({"--algorithm", "ring", "--ranks", "4"})
          .at("summary");
  CHECK(summary == json{{"algorithm", "ring"},
                        {"kind", "all-reduce"},
                        {"ranks", 4},
                        {"inner", 1},
                        {"chunks", 4},
                        {"steps", 6},
                        {"copies", 6},
                        {"least_copies", 6},
                        {"busiest", 1.5}});
  const json more =
      algorithm_report_answer({"--algorithm", "bidirectional-ring", "--kind",
                               "all-to-all", "--ranks", "8"})
          .at("summary");
  CHECK(more.at("copies") == 16);
  CHECK(more.at("least_copies") == 7);
  CHECK(more.at("busiest") == 2.0);
  const json permuted =
      algorithm_report_answer(
          {"--algorithm", "ring", "--kind", "permute", "--ranks", "5"})
          .at("summary");
  CHECK(permuted.at("copies") == 5);
  CHECK(permuted.at("busiest") == 1.0);
}

TEST_CASE("every transfer is a row") {
  const json rows = algorithm_report_answer(
                        {"--algorithm", "halving-doubling", "--ranks", "2"})
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
  CHECK(algorithm_report_answer({"--algorithm", "ring", "--ranks", "1"})
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
      ExplainRequest request;
      request.algorithm = row.at("name");
      request.kind = kind;
      request.ranks = 8;
      if (request.algorithm == "hierarchical") request.inner = 4;
      Diagnostics diags;
      const auto report = algorithm_report(request, diags);
      REQUIRE(report.has_value());
      REQUIRE(report->figures.size() == 1);
      CHECK(lines_of(report->figures[0].make(), Style())[0].starts_with(
          "step  rank 0"));
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
      {{"--algorithm", "rings", "--ranks", "4"}, "did you mean `ring`?"},
      {{"--algorithm", "ring", "--ranks", "4", "--kind", "all-to-all"},
       "supported by `pairwise`, `bidirectional-ring` and `direct`"},
      {{"--algorithm", "hierarchical", "--ranks", "4"}, "`--inner K` sets"},
      {{"--algorithm", "hierarchical", "--ranks", "4", "--inner", "4"},
       "`hierarchical` does not support all-reduce over 4 ranks, 4 on the fast "
       "axis"},
      {{"--algorithm", "hierarchical", "--ranks", "4", "--inner", "3"},
       "a fast axis of 3 does not divide 4 ranks"},
      {{"SP203", "--algorithm", "ring"},
       "both `SP203` and `--algorithm` are given"},
      {{"--matmul", "P() @ P()", "--algorithm", "ring"},
       "both `--matmul` and `--algorithm` are given"},
      {{"SP203", "--ranks", "4"}, "`--ranks` needs `--algorithm`"},
      {{"SP203", "--expand"}, "`--expand` needs `--algorithm`"},
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
