// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
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

TEST_CASE("what is no product is refused at its place") {
  const struct {
    const char* product;
    const char* says;
  } rows[] = {
      {"P(dp, None)", "error[SP002]: `@` is missing between the operands"},
      {"P(dp, 3) @ P(None)", "error[SP002]: `3` is no axis"},
      {"P(dp, (tp, None)) @ P(a)", "error[SP002]: `None` is no axis"},
      {"dp @ P(None)", "error[SP002]: the left operand is no spec"},
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

}  // namespace
}  // namespace shardplan::cli
