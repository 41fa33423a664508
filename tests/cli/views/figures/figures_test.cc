// SPDX-License-Identifier: Apache-2.0
// Figures show the numbers of the tables and the summary.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;
using testing::Json;
using testing::MemoryHost;
using testing::Words;

MemoryHost host_of() {
  MemoryHost host;
  host.files["config.json"] = testing::tiny_llama().dump();
  return host;
}

Json report_of(Words words) {
  MemoryHost host = host_of();
  words.emplace_back("--json");
  run(words, host);
  return Json::parse(host.out);
}

Json figure_of(const Json& report, const std::string& name) {
  for (const Json& figure : report.at("figures")) {
    if (figure.at("name") == name) return figure;
  }
  FAIL("no figure " << name);
  return {};
}

double sum_of(const Json& numbers) {
  double sum = 0;
  for (const Json& number : numbers) sum += number.get<double>();
  return sum;
}

const Words kStep = {"analyze",     "config.json", "-r",         "@all_models",
                     "-m",          "fsdp=2,tp=2", "--batch",    "8",
                     "--seq",       "64",          "--hardware", "h100-sxm",
                     "--optimizer", "adamw"};

TEST_CASE("figures: a step's bars and moments are its bracket") {
  const std::vector<Words> ways = {
      {},
      {"--remat", "none", "--microbatches", "2"},
      {"--framework", "torch", "--remat", "full"},
      {"--framework", "jax", "--remat", "full"},
      {"--zero", "3", "--zero-axes", "fsdp", "--kernels", "eager"}};
  for (const Words& more : ways) {
    Words words = kStep;
    words.insert(words.end(), more.begin(), more.end());
    CAPTURE(words.back());
    const Json report = report_of(words);
    const Json& bracket = report.at("summary").at("memory_bracket");
    const Json bars = figure_of(report, "memory").at("bars");
    REQUIRE(bars.size() == 3);
    CHECK(sum_of(bars[0].at("values")) == bracket.at("lower"));
    CHECK(sum_of(bars[1].at("values")) == bracket.at("estimate"));
    CHECK(sum_of(bars[2].at("values")) == bracket.at("upper"));
    const Json moments = figure_of(report, "moments");
    const size_t places = moments.at("x_labels").size();
    CHECK(moments.at("x_labels")[0] == "forward embedding");
    CHECK(moments.at("x_labels")[places - 1] == "optimizer");
    const size_t stacked = moments.at("stacked").get<size_t>();
    double most = 0;
    double upper = 0;
    for (size_t at = 0; at < places; ++at) {
      double sum = 0;
      for (size_t s = 0; s < stacked; ++s) {
        sum += moments.at("series")[s].at("points")[at].get<double>();
      }
      most = std::max(most, sum);
      upper = std::max(
          upper, moments.at("series")[stacked].at("points")[at].get<double>());
    }
    CHECK(most == bracket.at("estimate"));
    CHECK(upper == bracket.at("upper"));
    CHECK(figure_of(report, "memory").at("limit").at("value") ==
          report.at("summary").at("memory_limit"));
  }
}

TEST_CASE("figures: parameters, time and mesh are those of the tables") {
  const Json report = report_of(kStep);
  double bytes = 0;
  const Json map = figure_of(report, "parameters");
  for (const Json& leaf : map.at("leaves")) {
    bytes += leaf.at("bytes_per_device").get<double>();
  }
  CHECK(bytes == report.at("summary").at("memory_per_device").at("max"));
  const Json time = figure_of(report, "time").at("bars");
  const Json& parts = report.at("tables").at("step_time");
  REQUIRE(time.size() == parts.size() + 1);
  CHECK(time[0].at("values")[0] ==
        report.at("summary").at("step_time").at("estimate"));
  for (size_t i = 0; i < parts.size(); ++i) {
    CHECK(time[i + 1].at("label") == parts[i].at("part"));
    CHECK(time[i + 1].at("values")[0] == parts[i].at("exposed"));
  }
  double sent = 0;
  const Json mesh = figure_of(report, "mesh");
  for (const Json& use : mesh.at("uses")) {
    sent += use.at("bytes_per_device").get<double>();
  }
  double listed = 0;
  for (const Json& row : report.at("tables").at("step_collectives")) {
    listed += row.at("bytes_per_device").get<double>();
  }
  CHECK(sent > 0);
  // The table has whole bytes.
  CHECK(std::abs(sent - listed) <
        static_cast<double>(report.at("tables").at("step_collectives").size()));
}

TEST_CASE("figures: a sweep's bars leave out what cannot run") {
  const Json report =
      report_of({"sweep", "config.json", "-r", "@all_models", "--over",
                 "fsdp,tp", "--devices", "8", "--memory", "1GiB"});
  std::vector<double> shown;
  const Json memory = figure_of(report, "memory");
  for (const Json& bar : memory.at("bars")) {
    shown.push_back(sum_of(bar.at("values")));
  }
  std::vector<double> sound;
  for (const Json& row : report.at("tables").at("points")) {
    if (row.at("errors") == 0) sound.push_back(row.at("bytes_per_device"));
  }
  std::ranges::sort(shown);
  std::ranges::sort(sound);
  CHECK(shown == sound);
  CHECK(shown.size() < report.at("tables").at("points").size());
}

TEST_CASE("figures: check without memory flags shows parameters alone") {
  const Json report = report_of(
      {"check", "config.json", "-r", "@all_models", "-m", "fsdp=2,tp=2"});
  CHECK(figure_of(report, "memory").at("bars")[0].at("values")[0] ==
        report.at("summary").at("memory_per_device").at("max"));
  CHECK(figure_of(report, "mesh").at("axes").size() == 2);
  CHECK(!figure_of(report, "mesh").contains("uses"));
}

TEST_CASE("--plot writes any figure, or draws it") {
  const Words asked = {"analyze",     "config.json", "-r",
                       "@all_models", "-m",          "fsdp=2,tp=2"};
  MemoryHost host = host_of();
  Words words = asked;
  words.insert(words.end(), {"--plot", "first.svg", "--plot",
                             "parameters=map.svg", "--plot", "mesh"});
  CHECK(run(words, host) == 0);
  CHECK(host.files.at("first.svg").starts_with("<svg"));
  CHECK(has_text(host.files.at("first.svg"), "as planned"));
  CHECK(has_text(host.files.at("map.svg"), "by module and sharding"));
  CHECK(has_text(host.out, "\nfsdp=2\ntp=2\n"));

  host = host_of();
  words = asked;
  words.insert(words.end(), {"--plot", "moments=x.svg"});
  CHECK(run(words, host) == 2);
  CHECK(has_text(host.err, "this report has no figure `moments`"));
  CHECK(has_text(host.err, "it has `memory`, `parameters` and `mesh`"));
  CHECK(host.files.count("x.svg") == 0);

  host = host_of();
  words = asked;
  words.insert(words.end(), {"-o", "x.svg"});
  CHECK(run(words, host) == 0);
  CHECK(host.files.at("x.svg").starts_with("<svg"));
  host = host_of();
  CHECK(run({"list", "formats", "-o", "x.svg"}, host) == 2);
  CHECK(has_text(host.err, "this report has no figure"));
}

TEST_CASE("what could not run is said where a file has the report") {
  MemoryHost host = host_of();
  host.files["shardplan.yaml"] =
      "targets:\n  a: {model: missing.json, rules: ['@llama'], mesh: tp=2}\n";
  for (const char* file : {"x.html", "x.md", "x.json"}) {
    host.err.clear();
    CHECK(run({"check", "-o", file}, host) == 2);
    CHECK(has_text(host.err, "missing.json"));
  }
}

}  // namespace
}  // namespace shardplan::cli
