// SPDX-License-Identifier: Apache-2.0

#include "cli/views/simulate_report.h"

#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "sim/verdict.h"
#include "tests/support/builders.h"
#include "tests/support/reports.h"
#include "tests/support/simulating.h"
#include "tests/support/whole_values.h"

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
  CHECK(text.find(", as predicted") != std::string::npos);
  CHECK(text.find("ok: sharded and unsharded agree to 12 digits") !=
        std::string::npos);
}

TEST_CASE("a mismatch is in the summary and the last line") {
  Reported r;
  r.outcome.mismatch = Divergence{ValueId(3), 2, 1, false};
  r.outcome.structural_error = kInfinity;
  r.outcome.error_amplification = kInfinity;
  const auto summary = nlohmann::json::parse(r.text("json")).at("summary");
  CHECK(summary.at("verdict") == "mismatch");
  CHECK(summary.at("structural_error").is_null());
  CHECK(summary.at("error_amplification").is_null());
  CHECK(summary.at("bound_ratio").is_null());
  CHECK(summary.at("first_mismatch") ==
        r.of->input->graph.values[ValueId(3)].name);
  CHECK(summary.at("first_mismatch_device") == 2);
  const std::string text = r.text("text");
  CHECK(text.find("mismatch: the sharded run computes a different result") !=
        std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
}

// A difference between bytes moved and bytes priced was shown, and the verdict
// was ok: it is a bug of ours wherever it shows.
TEST_CASE("bytes that were not priced as moved are no report") {
  Reported r;
  r.outcome.collectives.emplace_back();
  r.outcome.collectives[0].priced.algorithm = "ring";
  r.outcome.collectives[0].priced.instruction = InstructionId(0);
  r.outcome.bytes_moved = 10;
  r.outcome.bytes_priced = 20;
  CHECK_THROWS_AS(r.text("text"), InternalError);
  r.outcome.bytes_priced = 10;
  CHECK(r.text("text").find("send 10 B, as predicted") != std::string::npos);
}

using nlohmann::json;
using testing::mesh;

Graph layers(const std::vector<std::string>& names) {
  Graph graph;
  graph.name = "model";
  for (const std::string& name : names) {
    graph.probes.emplace_back(graph.values.size());
    graph.values.emplace_back().name = name;
  }
  return graph;
}

Simulation errors(const std::vector<std::pair<double, double>>& numbers) {
  Simulation outcome;
  for (const auto& [unsharded, sharded] : numbers) {
    outcome.probes.push_back(
        {ValueId(outcome.probes.size()), unsharded, sharded});
  }
  return outcome;
}

std::string written(const std::vector<Table>& tables, std::string_view format) {
  Report report;
  report.command = "simulate";
  const Diagnostics diags;
  report.diagnostics = &diags;
  report.tables = tables;
  std::string out;
  find_renderer(format)->render(report, {}, [&](std::string_view text) {
    out += text;
    return true;
  });
  return out;
}

json rows(const std::vector<Table>& tables, const char* id) {
  return json::parse(written(tables, "json")).at("tables").at(id);
}

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("precision_report: a row per layer") {
  const Graph graph = layers({"h0", "h1", "h2", "h3"});
  const Simulation outcome =
      errors({{0, 0}, {0.001, 0.0015}, {0, 0.5}, {0.25, kInf}});
  CHECK(rows(error_tables(graph, outcome, false), "error_by_layer") ==
        json::parse(R"([
    {"value": "h0", "unsharded": 0.0, "sharded": 0.0, "amplification": 1.0},
    {"value": "h1", "unsharded": 0.001, "sharded": 0.0015,
     "amplification": 1.5},
    {"value": "h2", "unsharded": 0.0, "sharded": 0.5, "amplification": null},
    {"value": "h3", "unsharded": 0.25, "sharded": null, "amplification": null}
  ])"));
  const std::string text = written(error_tables(graph, outcome, false), "text");
  CHECK(text.find("Error by layer") != std::string::npos);
  CHECK(text.find("0.0015") != std::string::npos);
  CHECK(text.find("infinite") != std::string::npos);
}

TEST_CASE("precision_report: people see a dozen layers, programs all of them") {
  std::vector<std::string> names;
  std::vector<std::pair<double, double>> numbers;
  for (int i = 0; i < 40; ++i) {
    names.push_back("layer" + std::to_string(i) + "/out");
    numbers.emplace_back(0.001, 0.001);
  }
  const Graph graph = layers(names);
  const auto shown = [](const std::string& text) {
    int found = 0;
    for (size_t at = text.find("layer"); at != std::string::npos;
         at = text.find("layer", at + 1)) {
      found += text[at + 5] >= '0' && text[at + 5] <= '9';
    }
    return found;
  };
  const std::string text =
      written(error_tables(graph, errors(numbers), false), "text");
  CHECK(shown(text) == 12);
  CHECK(text.find("layer0/out") != std::string::npos);
  CHECK(text.find("layer39/out") != std::string::npos);
  const auto all = error_tables(graph, errors(numbers), true);
  CHECK(shown(written(all, "text")) == 40);
  CHECK(rows(error_tables(graph, errors(numbers), false), "error_by_layer")
            .size() == 40);
}

std::vector<Variant> two() {
  return {{mesh("tp=2"), "ring", Storage::BF16, Storage::BF16,
           errors({{0.002, 0.002}, {0.004, 0.0044}})},
          {mesh("tp=16"), "ring", Storage::BF16, Storage::BF16,
           errors({{0.002, 0.003}, {0.004, 0.008}})}};
}

TEST_CASE("precision_report: a row per variant") {
  const json found = rows(precision_tables(two()), "precision");
  REQUIRE(found.size() == 2);
  CHECK(found[1].at("mesh") == json{{"tp", 16}});
  CHECK(found[1].at("algorithm") == "ring");
  CHECK(found[1].at("dtype") == "bf16");
  CHECK(found[1].at("reduce_dtype") == "bf16");
  CHECK(found[1].at("unsharded") == 0.004);
  CHECK(found[1].at("sharded") == 0.008);
  CHECK(found[1].at("amplification") == 2.0);
  CHECK(found[1].at("growth_per_layer") == doctest::Approx(0.005));
}

TEST_CASE("precision_report: one layer does not grow") {
  const std::vector<Variant> variants = {
      {mesh("tp=2"), "ring", Storage::F32, Storage::F16, errors({{1, 1}})}};
  const json found = rows(precision_tables(variants), "precision");
  CHECK(found[0].at("growth_per_layer").is_null());
}

TEST_CASE("precision_report: the answer names the worst and the best") {
  const Graph graph = layers({"h0", "h1"});
  const std::vector<Variant> variants = two();
  CHECK(precision_line(graph, variants) ==
        "error at `h1`: 0.004 unsharded, 0.008 (2 times) sharded with tp=16; "
        "lowest 0.0044 (1.1 times) with tp=2");
  CHECK(precision_line(graph, std::span(variants).first(1)) ==
        "error at `h1`: 0.004 unsharded, 0.0044 (1.1 times) sharded");
}

// Of what is not finite the error was 0, or "infinite", and the least of all.
TEST_CASE("precision_report: what is not finite is the worst") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Graph graph = layers({"h0", "h1"});
  std::vector<Variant> variants = two();
  variants[0].outcome = errors({{0.002, nan}, {0.004, nan}});
  CHECK(precision_line(graph, variants) ==
        "error at `h1`: 0.004 unsharded, not finite sharded with tp=2; lowest "
        "0.008 (2 times) with tp=16");
  CHECK(
      rows(precision_tables(variants), "precision")[0].at("sharded").is_null());
}

TEST_CASE("precision_report: without probes there is nothing to say") {
  const std::vector<Variant> variants = {
      {mesh("tp=2"), "ring", Storage::F32, Storage::F32, {}}};
  CHECK(precision_tables(variants).empty());
  CHECK(precision_line(layers({}), variants).empty());
  CHECK(error_tables(layers({}), {}, false).empty());
  CHECK(error_plot(layers({}), variants).x_labels.empty());
}

TEST_CASE("precision_report: a plot names layers and what varies") {
  std::vector<Variant> variants = two();
  const Graph graph = layers({"layers/9/out", "layers/10/out"});
  Plot plot = error_plot(graph, variants);
  CHECK(plot.title == "Error by layer of model");
  CHECK(plot.x_title == "layer");
  CHECK(plot.x_labels == std::vector<std::string>{"9", "10"});
  REQUIRE(plot.series.size() == 3);
  CHECK(plot.series[0].name == "unsharded");
  CHECK(plot.series[0].points == std::vector<double>{0.002, 0.004});
  CHECK(plot.series[1].name == "tp=2");
  CHECK(plot.series[2].points == std::vector<double>{0.003, 0.008});
  variants[1].mesh = variants[0].mesh;
  variants[1].storage = Storage::F32;
  variants[1].reduce = Storage::F32;
  plot = error_plot(graph, variants);
  REQUIRE(plot.series.size() == 4);
  CHECK(plot.series[1].name == "unsharded, stored in f32");
  CHECK(plot.series[3].name == "stored in f32, summed in f32");
  CHECK(error_plot(graph, std::span(variants).first(1)).series[1].name ==
        "sharded");
}

TEST_CASE("precision_report: names lose whole words only") {
  const std::vector<Variant> variants = {{mesh("tp=2"), "ring", Storage::F32,
                                          Storage::F32,
                                          errors({{1, 1}, {1, 1}, {1, 1}})}};
  const auto labels = [&](const std::vector<std::string>& names) {
    return error_plot(layers(names), variants).x_labels;
  };
  using Labels = std::vector<std::string>;
  CHECK(labels({"embed", "middle", "norm"}) ==
        Labels{"embed", "middle", "norm"});
  CHECK(labels({"h10", "h11", "h12"}) == Labels{"h10", "h11", "h12"});
  CHECK(labels({"h_10.x", "h_11.x", "h_12.x"}) == Labels{"10", "11", "12"});
  CHECK(labels({"x", "x/1", "x/2"}) == Labels{"x", "x/1", "x/2"});
  CHECK(labels({"a", "a", "a"}) == Labels{"a", "a", "a"});
}

}  // namespace

}  // namespace shardplan::cli
