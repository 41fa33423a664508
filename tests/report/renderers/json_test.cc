// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("JSON has the contract's keys in order, a line for each row") {
  const SourceFile rules("rules.yaml", "- [w, [tp]]\n");
  Diagnostics diags;
  diags
      .report(Code::IndivisibleDimension, span_of(rules, "tp"),
              "dimension 0 of `w` is not divisible")
      .label({}, "no place")
      .fact("3 mod 2 = 1")
      .help("pad it")
      .parameters({"w", "v"});
  Report report = sample_report();
  report.diagnostics = &diags;
  CHECK("\n" + rendered(report, "json") == R"(
{
  "schema": "shardplan.report/1",
  "command": "resolve",
  "summary": {
    "tensors": 2,
    "mesh": {"fsdp": 4, "tp": 2},
    "memory_per_device": {"max": 96, "min": 64, "mean": 80.5},
    "balance_score": 0.75
  },
  "tables": {
    "placements": [
      {"parameter": "norm", "spec": [], "bytes_per_device": 4096, "rule": null}
    ],
    "memory": [
      {"what": "weights", "bytes": 512, "share": 0.5},
      {"what": "gradients", "bytes": 1024, "share": 1}
    ],
    "corrections": []
  },
  "diagnostics": [
    {"code": "SP203", "name": "indivisible-dimension", "severity": "warning", "message": "dimension 0 of `w` is not divisible", "labels": [{"file": "rules.yaml", "line": 1, "column": 8, "end_column": 10, "text": ""}, {"file": null, "line": null, "column": null, "end_column": null, "text": "no place"}], "facts": ["3 mod 2 = 1"], "help": ["pad it"], "fixes": [], "parameters": ["w", "v"], "findings": 2}
  ]
}
)");
}

TEST_CASE("an empty report is a whole object") {
  CHECK(rendered(Report{}, "json") ==
        "{\n"
        "  \"schema\": \"shardplan.report/1\",\n"
        "  \"command\": \"\",\n"
        "  \"summary\": {},\n"
        "  \"tables\": {},\n"
        "  \"diagnostics\": []\n"
        "}\n");
}

TEST_CASE("hostile names stay names in JSON") {
  const std::string name = "a\"}],\n\x1b\\ \xE2\x80\xAE";
  Report report;
  report.command = name;
  report.tables = {{"t", "", {{"key", "key"}}, rows_of({{name}})}};
  const auto json = nlohmann::json::parse(rendered(report, "json"));
  CHECK(json["command"] == name);
  CHECK(json["tables"]["t"][0]["key"] == name);
}

TEST_CASE("a row that does not fit its table is a bug in JSON too") {
  Report report;
  report.tables = {{"t", "", {{"key", "key"}}, rows_of({{}})}};
  CHECK_THROWS_AS(rendered(report, "json"), InternalError);
}

}  // namespace shardplan
