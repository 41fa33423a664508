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

TEST_CASE("fields are quoted where they must be") {
  using S = std::string;
  const std::vector<Column> columns = {{"a", "a"}, {"b", "b"}};
  Report report;
  report.tables = {{"t", "", columns,
                    rows_of({{S("a,b"), S("say \"x\"")},
                             {S("two\nlines"), S("cr\r")},
                             {S(" blank"), S("end ")},
                             {S("::error::x"), S("x=1\x1b\xFF")},
                             {S(), std::monostate{}},
                             {PartitionSpec{{{}, {"tp"}}}, Flag{true}}})}};
  CHECK(rendered(report, "csv") ==
        "a,b\n"
        "\"a,b\",\"say \"\"x\"\"\"\n"
        "\"two\nlines\",\"cr\r\"\n"
        "\" blank\",\"end \"\n"
        "\"::error::x\",x=1\\x1b\\xff\n"
        "\"\",\n"
        "\"[null, \"\"tp\"\"]\",true\n");
}

// A parameter named `=cmd|..` was computed by whichever spreadsheet opened the
// file.
TEST_CASE("texts that a spreadsheet would compute get an apostrophe") {
  const struct {
    const char* text;
    const char* field;
  } rows[] = {
      {"=1+1", "'=1+1"},
      {"+x", "'+x"},
      {"-x", "'-x"},
      {"@sum(a)", "'@sum(a)"},
      {"\tx", "'\tx"},
      {"\rx", "\"'\rx\""},
      {"=a,\"b\"", "\"'=a,\"\"b\"\"\""},
      // These are none.
      {"-0.5", "-0.5"},
      {"-3", "-3"},
      {"x=1", "x=1"},
      {"'=1", "'=1"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    Report report;
    report.tables = {{"t",
                      "",
                      {{"a", "a"}, {"b", "b"}},
                      rows_of({{std::string(row.text), Count{-7}}})}};
    CHECK(rendered(report, "csv") ==
          "a,b\n" + std::string(row.field) + ",-7\n");
    // The mutation: JSON, which nothing computes, has it as it is.
    const bool own = row.text[0] == '\'';
    CHECK((rendered(report, "json").find('\'') != std::string::npos) == own);
  }
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
