// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/check.h"
#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("CSV has the tables for programs, the placements first") {
  Report report = sample_report();
  std::swap(report.tables[0], report.tables[2]);  // memory first
  CHECK("\n" + rendered(report, "csv") == R"(
parameter,spec,bytes_per_device,rule
norm,[],4096,

what,bytes,share
weights,512,0.5
gradients,1024,1

parameter
)");
}

TEST_CASE("without tables CSV has the summary") {
  Report report = sample_report();
  report.tables.clear();
  CHECK("\n" + rendered(report, "csv") == R"(
key,value
tensors,2
mesh,"{""fsdp"": 4, ""tp"": 2}"
memory_per_device,"{""max"": 96, ""min"": 64, ""mean"": 80.5}"
balance_score,0.75
)");
  CHECK(rendered(Report{}, "csv").empty());
}

TEST_CASE("fields are quoted where they must be, and never altered") {
  using S = std::string;
  const std::vector<Column> columns = {{"a", "a"}, {"b", "b"}};
  Report report;
  report.tables = {{"t", "", columns,
                    rows_of({{S("a,b"), S("say \"x\"")},
                             {S("two\nlines"), S("cr\r")},
                             {S(" blank"), S("end ")},
                             {S("=1+1"), S("@x\x1b\xFF")},
                             {S(), std::monostate{}},
                             {PartitionSpec{{{}, {"tp"}}}, Flag{true}}})}};
  CHECK(rendered(report, "csv") ==
        "a,b\n"
        "\"a,b\",\"say \"\"x\"\"\"\n"
        "\"two\nlines\",\"cr\r\"\n"
        "\" blank\",\"end \"\n"
        "=1+1,@x\x1b\xFF\n"
        "\"\",\n"
        "\"[null, \"\"tp\"\"]\",true\n");
}

TEST_CASE("a row of one absent value is no empty line") {
  Report report;
  report.tables = {{"t",
                    "",
                    {{"a", "a"}},
                    rows_of({{std::monostate{}}, {std::string("x")}})}};
  CHECK(rendered(report, "csv") == "a\n\"\"\nx\n");
}

TEST_CASE("a row that does not fit its table is a bug in CSV too") {
  Report report;
  report.tables = {{"t", "", {{"key", "key"}}, rows_of({{}})}};
  CHECK_THROWS_AS(rendered(report, "csv"), InternalError);
}

}  // namespace shardplan
