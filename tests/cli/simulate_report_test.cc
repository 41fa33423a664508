// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_report.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "sim/verdict.h"
#include "tests/support/reports.h"
#include "tests/support/simulating.h"

namespace shardplan::cli {
namespace {

using testing::Simulating;
using testing::simulating;

struct Reported {
  std::unique_ptr<Simulating> of = simulating();
  Program program = partition(of->input->graph, of->input->session.plan.mesh,
                              of->input->placed.wanted, of->input->how);
  Simulation outcome;

  std::string text(const char* format) {
    Progress progress(of->host, false);
    const Context context{of->options, of->host, of->diags, progress};
    const std::vector<Variant> runs = {
        {program.mesh, "ring", Storage::F32, Storage::F32, outcome}};
    return rendered(simulate_report(context, *of->input, program, runs),
                    format);
  }
};

TEST_CASE("collectives alike are one row, with their bytes together") {
  Reported r;
  SimulateOptions options;
  const auto values =
      make_values(r.of->input->graph, ValueSource::Random, 0, r.of->diags);
  REQUIRE(values);
  r.outcome = simulate(r.program, *values, options);
  const auto report = nlohmann::json::parse(r.text("json"));
  const auto& rows = report.at("tables").at("collectives");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("count") == 2);
  CHECK(rows[0].at("at") == nlohmann::json{"h", "y"});
  int64_t total = 0;
  for (const MovedBytes& moved : r.outcome.collectives) total += moved.moved;
  CHECK(report.at("summary").at("bytes_moved") == total);
  const std::string text = r.text("text");
  CHECK(text.find("as priced") != std::string::npos);
  CHECK(text.find("ok: sharded and unsharded agree to 12 digits") !=
        std::string::npos);
}

TEST_CASE("a mismatch is in the summary and the last line") {
  Reported r;
  r.outcome.mismatch = Divergence{3, 2, 1, false};
  r.outcome.structural_error = kInfinity;
  r.outcome.error_amplification = kInfinity;
  const auto summary = nlohmann::json::parse(r.text("json")).at("summary");
  CHECK(summary.at("verdict") == "mismatch");
  CHECK(summary.at("structural_error").is_null());
  CHECK(summary.at("error_amplification").is_null());
  CHECK(summary.at("bound_ratio").is_null());
  CHECK(summary.at("first_mismatch") == r.of->input->graph.values[3].name);
  CHECK(summary.at("first_mismatch_device") == 2);
  const std::string text = r.text("text");
  CHECK(text.find("mismatch: the sharded run computes something else") !=
        std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
}

// A difference between bytes moved and bytes priced was shown, and the verdict
// was ok: it is a bug of ours wherever it shows.
TEST_CASE("bytes that were not priced as moved are no report") {
  Reported r;
  r.outcome.collectives.emplace_back();
  r.outcome.collectives[0].priced.algorithm = "ring";
  r.outcome.bytes_moved = 10;
  r.outcome.bytes_priced = 20;
  CHECK_THROWS_AS(r.text("text"), InternalError);
  r.outcome.bytes_priced = 10;
  CHECK(r.text("text").find("send 10 B, as priced") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
