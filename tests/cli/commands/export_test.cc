// SPDX-License-Identifier: Apache-2.0
#include "io/export.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/planning.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;
using shardplan::testing::planning_host;
using shardplan::testing::run_on;

// Without the comment above it.
std::string body_of(const std::string& text) {
  size_t at = 0;
  while (text.compare(at, 2, "# ") == 0) at = text.find('\n', at) + 1;
  return text.substr(at);
}

TEST_CASE("stdout holds the text alone, and findings are told beside it") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"export", "--to", "yaml"}, "fsdp=2,tp=2") == 1);
  CHECK(host.out ==
        R"(# Partition rules, as given; `shardplan export --to yaml`.
# model: model.json
# rules: rules.yaml
# mesh: fsdp=2,tp=2
mesh: {fsdp: 2, tp: 2}
rules:
  - ["embedding", [tp, fsdp]]
  - ["_proj/kernel", [fsdp, tp]]
  - ["scale", []]
)");
  CHECK(host.err.find("warning[SP203]") != std::string::npos);
}

TEST_CASE("a file is written whole") {
  MemoryHost host = planning_host();
  run_on(host, {"export", "--to", "python", "-o", "rules.py", "-q"}, "tp=2");
  CHECK(host.out.empty());
  CHECK(host.written == std::vector<std::string>{"rules.py"});
  CHECK(host.files["rules.py"].find("RULES = (\n") != std::string::npos);
}

TEST_CASE("what cannot be said is not written") {
  MemoryHost host = planning_host();
  CHECK(
      run_on(host,
             {"export", "--to", "jax", "-o", "m.py", "--on-indivisible", "pad"},
             "tp=2") == 2);
  CHECK(host.out.empty());
  CHECK(host.written.empty());
  CHECK(host.err.starts_with(
      "error[SP014]: `jax` cannot say how `--on-indivisible pad` cuts "
      "`embed/embedding`\n"));
}

TEST_CASE("flags that rules have no words for make it a table") {
  MemoryHost host = planning_host();
  run_on(host, {"export", "--to", "yaml", "--min-size", "300"}, "fsdp=2,tp=2");
  CHECK(host.out.find("# flags: --min-size 300\n") != std::string::npos);
  CHECK(host.out.find("# flags had a part in this plan") != std::string::npos);
  CHECK(
      host.out.find("  - [\"^layers/[0-9]+/self_attn/k_proj/kernel$\", []]") !=
      std::string::npos);
  // A flag that changed nothing does not.
  MemoryHost plain = planning_host();
  run_on(plain, {"export", "--to", "yaml", "--no-strict", "--min-size", "2"},
         "fsdp=2,tp=2");
  CHECK(plain.out.find("# Partition rules, as given") != std::string::npos);
}

TEST_CASE("parameters without a rule are said only where that is meant") {
  MemoryHost host = planning_host();
  host.files["rules.yaml"] = "rules:\n  - [_proj, [fsdp, tp]]\n";
  run_on(host, {"export", "--to", "json"}, "tp=2");
  CHECK(host.out.find("norm") == std::string::npos);
  host.out.clear();
  run_on(host, {"export", "--to", "json", "--unmatched", "replicate"}, "tp=2");
  CHECK(host.out.find("[\"^norm/scale$\", []]") != std::string::npos);
}

// The round trip through the whole program.
TEST_CASE("rules, a saved plan and the exports of both are one plan") {
  MemoryHost host = planning_host();
  const auto fingerprint_of = [&](std::vector<std::string> words) {
    host.out.clear();
    words.insert(words.begin(), {"resolve", "model.json", "--json"});
    run(words, host);
    return nlohmann::json::parse(host.out).at("summary").at("fingerprint");
  };
  const auto expected =
      fingerprint_of({"-r", "rules.yaml", "-m", "fsdp=2,tp=2"});
  run_on(host, {"resolve", "-o", "a.plan.json"}, "fsdp=2,tp=2");
  for (const char* target : {"yaml", "json"}) {
    run_on(host, {"export", "--to", target, "-o", "out.yaml"}, "fsdp=2,tp=2");
    CHECK(fingerprint_of({"-r", "out.yaml"}) == expected);
    run({"export", "model.json", "--plan", "a.plan.json", "--to", target, "-o",
         "saved.yaml"},
        host);
    CHECK(host.files["saved.yaml"] != host.files["out.yaml"]);
    CHECK(fingerprint_of({"-r", "saved.yaml"}) == expected);
  }
}

TEST_CASE("every target writes, or says why it cannot") {
  for (const ExportTarget& target : export_targets()) {
    CAPTURE(target.name);
    MemoryHost host = planning_host();
    const int code =
        run_on(host, {"export", "--to", std::string(target.name)}, "tp=2");
    CHECK((code == 2) == host.out.empty());
    CHECK((code == 2) == (host.err.find("SP014") != std::string::npos));
    CHECK_FALSE((code != 2 && body_of(host.out).empty()));
  }
}

TEST_CASE("a target is needed, and has to exist") {
  MemoryHost host = planning_host();
  CHECK(run_on(host, {"export"}, "tp=2") == 2);
  CHECK(host.err.starts_with("error[SP010]: `export` needs `--to`\n"));
  host.err.clear();
  CHECK(run_on(host, {"export", "--to", "yml"}, "tp=2") == 2);
  CHECK(host.err.find("`yaml`") != std::string::npos);
  host.err.clear();
  CHECK(run_on(host, {"export", "--to", "yaml", "-o", "x.plan.json"}, "tp=2") ==
        2);
  CHECK(host.err.starts_with(
      "error[SP010]: `export` writes no plan, and `x.plan.json` is the name of "
      "one\n"));
}

}  // namespace
}  // namespace shardplan::cli
