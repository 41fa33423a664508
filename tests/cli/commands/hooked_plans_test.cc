// SPDX-License-Identifier: Apache-2.0
// Plans that hooks run, against the libraries whose hooks these are: plans of
// transformers (tests/data/hf_tp_runs.jsonl, record_hf_tp_runs.py) and of
// PyTorch (torch_tp_runs.jsonl, record_torch_tp_runs.py), and the same with
// entries changed.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;

// What `simulate` says of a plan, and what the library did.
struct Judged {
  std::string verdict;
  std::string run_as;
  bool stops = false;           // it says that the plan stops somewhere
  bool wrong_gradient = false;  // SP514
  std::string forward;
  std::string backward;
};

Judged judged(MemoryHost host, const std::string& rules, const Json& recorded) {
  cli::run(
      {"simulate", "config.json", "--rules", rules, "--mesh", "tp=2", "--json"},
      host);
  const Json& backward = recorded.at("backward");
  const Json report = host.out.empty() ? Json() : Json::parse(host.out);
  if (!report.is_object() || !report.at("summary").contains("verdict")) {
    // A style that the version does not have.
    CHECK(host.out.find("has no style") != std::string::npos);
    return {"mismatch", "hooks", true, false, recorded.at("forward").at(0),
            "error"};
  }
  const Json& summary = report.at("summary");
  return {summary.at("verdict"),
          summary.at("run_as"),
          host.out.find("the plan fails at") != std::string::npos,
          host.out.find("\"SP514\"") != std::string::npos,
          recorded.at("forward").at(0),
          backward.is_null() ? "error" : backward.at(0).get<std::string>()};
}

// How often is what: "right", "wrong" and "error" as recorded; "unknown" where
// nothing is said; "alike" where errors and wrong numbers are told apart.
using Counts = std::map<std::string, size_t>;

void count(const Judged& each, bool has_gradients, Counts& counts) {
  ++counts[each.forward];
  const bool is_right = each.forward == "right";
  if (each.verdict == "inconclusive") {
    ++counts["unknown"];
    return;
  }
  CHECK(each.run_as == "hooks");
  CHECK(each.verdict == (is_right ? "ok" : "mismatch"));
  counts["alike"] += !is_right && each.stops == (each.forward == "error");
  if (is_right && has_gradients) {
    CHECK(each.wrong_gradient == (each.backward != "right"));
    counts["wrong gradients"] += each.wrong_gradient;
  }
}

std::vector<Json> recorded_lines(const std::string& name) {
  std::ifstream lines(source_dir() / "tests/data" / name);
  std::vector<Json> all;
  for (std::string line; std::getline(lines, line);) {
    all.push_back(Json::parse(line));
  }
  return all;
}

// Plans of transformers, each the model's own but for what changed.
Counts judge_tp_plans(const std::string& file, testing::Thinned rows) {
  Counts counts;
  Json config;
  Json own;
  for (const Json& recorded : recorded_lines(file)) {
    if (recorded.contains("config")) {
      config = recorded.at("config");
      own = recorded.at("plan");
    }
    if (rows.skips()) continue;
    const std::string name = recorded.at("name");
    CAPTURE(name);
    // Without `ep_dispatch_experts` transformers applies no plan of experts.
    if (name.find(" experts, layers.*.mlp.experts: replicate") !=
        std::string::npos) {
      continue;
    }
    Json plan = own;
    plan.update(recorded.at("changed"));
    const std::string version = recorded.at("versions").at("transformers");
    MemoryHost host;
    host.files["config.json"] = config.dump(1);
    host.files["plan.json"] =
        Json{{"tp_plan", plan}, {"transformers_version", version}}.dump(1);
    // Experts that are saved one by one are merged behind the cut: parts of the
    // gradient are right, and the recorder puts them together in another order.
    // Transformers 4 adds up gradients of biases behind a sum, though each is
    // whole.
    const bool has_gradients =
        name.find("experts.gate_up_proj: colwise") == std::string::npos &&
        !(version.starts_with("4.") && name.starts_with("llama biased"));
    count(judged(std::move(host), "plan.json", recorded), has_gradients,
          counts);
  }
  return counts;
}

TEST_CASE("simulate: a tp_plan is judged as transformers 5 runs it") {
  const testing::Thinned rows{10};
  Counts counts = judge_tp_plans("hf_tp_runs.jsonl", rows);
  const size_t broken = counts["error"] + counts["wrong"];
  CHECK(counts["right"] >= rows.of(140));
  CHECK(broken >= rows.of(380));
  CHECK(counts["wrong gradients"] >= rows.of(8));
  // Whether a router is a linear layer depends on the version.
  CHECK(counts["unknown"] <= 2);
  CHECK(counts["alike"] + 13 >= broken);
}

TEST_CASE("simulate: a tp_plan is judged as transformers 4 runs it") {
  const testing::Thinned rows{10};
  Counts counts = judge_tp_plans("hf_tp_runs_4.jsonl", rows);
  CHECK(counts["right"] >= rows.of(50));
  CHECK(counts["error"] >= rows.of(180));
  // qwen3's own plan of that version: norms of heads.
  CHECK(counts["wrong gradients"] >= rows.of(1));
}

TEST_CASE(
    "simulate: plans of parallelize_module are judged as torch runs them") {
  Counts counts;
  testing::Thinned rows{8};
  Json config;
  for (const Json& recorded : recorded_lines("torch_tp_runs.jsonl")) {
    if (recorded.contains("config")) config = recorded.at("config");
    if (rows.skips()) continue;
    CAPTURE(recorded.at("name").get<std::string>());
    MemoryHost host;
    host.files["config.json"] = config.dump(1);
    std::string plan = "plan = {\n";
    for (const auto& [key, style] : recorded.at("plan").items()) {
      plan += "    \"" + key + "\": " + style.get<std::string>() + ",\n";
    }
    host.files["plan.py"] = plan + "}\n";
    count(judged(std::move(host), "plan.py", recorded), true, counts);
  }
  CHECK(counts["right"] >= rows.of(26));
  CHECK(counts["error"] + counts["wrong"] >= rows.of(150));
}

TEST_CASE("export: what is written runs, or it is said that it does not") {
  size_t right = 0;
  size_t wrong = 0;
  for (const Json& recorded : recorded_lines("exports.jsonl")) {
    CAPTURE(recorded.at("name").get<std::string>());
    CAPTURE(recorded.at("rules").get<std::string>());
    MemoryHost host;
    host.files["config.json"] = recorded.at("config").dump(1);
    host.files["rules.yaml"] = recorded.at("rules");
    cli::run({"export", "config.json", "--rules", "rules.yaml", "--mesh",
              recorded.at("mesh").get<std::string>(), "--to",
              recorded.at("to").get<std::string>()},
             host);
    CHECK(host.out == recorded.at("text").get<std::string>());
    const bool is_right = recorded.at("forward").at(0) == "right" &&
                          recorded.at("backward").at(0) == "right";
    CHECK((host.err.find("warning[SP020]") == std::string::npos) == is_right);
    ++(is_right ? right : wrong);
  }
  CHECK(right >= 26);
  CHECK(wrong >= 1);
}

}  // namespace
}  // namespace shardplan
