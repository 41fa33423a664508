// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("text has the headline, the tables for people, notes, a next step") {
  CHECK("\n" + rendered(sample_report(), "text") == R"(
tiny: 2 parameters
mesh fsdp=4,tp=2: 8 devices

parameter                    spec                 per device  rule
layers/*/mlp/up_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1
norm                         P()                    4.00 KiB     –
                                                    ────────
                                                    31.3 MiB

Memory per device
  weights       512 B  ███████████████
  gradients  1.00 KiB  ██████████████████████████████

1 dimension is not divisible by its axes
`shardplan explain SP203` describes a code
)");
}

TEST_CASE(
    "findings follow the summary where they are the answer, else stderr has "
    "them") {
  Diagnostics diags;
  diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing");
  Report report;
  report.command = "check";
  report.headline = {"1 warning in 7 rules"};
  report.next_step = "`shardplan explain SP204` describes a code";
  report.diagnostics = &diags;
  CHECK(rendered(report, "text") ==
        "1 warning in 7 rules\n\n"
        "`shardplan explain SP204` describes a code\n");
  report.diagnostics_are_the_answer = true;
  CHECK(rendered(report, "text") ==
        "1 warning in 7 rules\n\n"
        "warning[SP204]: axis `sp` shards nothing\n\n"
        "`shardplan explain SP204` describes a code\n");
}

TEST_CASE("an empty report is empty text") {
  CHECK(rendered(Report{}, "text").empty());
}

TEST_CASE("a headline is bold and a next step in colour") {
  Report report;
  report.headline = {"first\x1b", "second"};
  report.next_step = "next";
  Style style;
  style.colour = true;
  CHECK(rendered(report, "text", style) ==
        "\x1b[1mfirst\\x1b\x1b[0m\nsecond\n\n\x1b[1;36mnext\x1b[0m\n");
}

TEST_CASE("concise prints the findings and nothing else") {
  const SourceFile rules("rules.yaml", "- [w, [tp]]\n");
  Diagnostics diags;
  diags.report(Code::UnknownAxis, span_of(rules, "tp"), "unknown axis `tp`");
  Report report = sample_report();
  CHECK(rendered(report, "concise").empty());
  report.diagnostics = &diags;
  CHECK(rendered(report, "concise") ==
        "rules.yaml:1:8: error[SP201] unknown axis `tp`\n");
}

TEST_CASE("JUnit has a case for each finding, or one that passes") {
  const SourceFile rules("r&<.yaml", "- [w, [tp]]\n");
  Diagnostics diags;
  Report report = sample_report();
  report.command = "check";
  CHECK(rendered(report, "junit").find("tests=\"1\" failures=\"0\"") !=
        std::string::npos);
  diags.report(Code::UnknownAxis, span_of(rules, "tp"), "axis `\"<t>\x1b`")
      .help("a & b");
  diags.report(Code::UnusedAxis, {}, "axis `sp`");
  report.diagnostics = &diags;
  CHECK("\n" + rendered(report, "junit") == R"(
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1">
  <testsuite name="shardplan check" tests="2" failures="1" errors="0" skipped="0">
    <testcase classname="SP201 unknown-axis" name="axis `&quot;&lt;t&gt;\x1b`" file="r&amp;&lt;.yaml" line="1">
      <failure type="SP201" message="axis `&quot;&lt;t&gt;\x1b`">axis `&quot;&lt;t&gt;\x1b`
help: a &amp; b
</failure>
    </testcase>
    <testcase classname="SP204 unused-axis" name="axis `sp`">
      <system-out>axis `sp`
</system-out>
    </testcase>
  </testsuite>
</testsuites>
)");
}

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
                             {PartitionSpec{{{}, {"tp"}}}, YesNo{true}}})}};
  CHECK(rendered(report, "csv") ==
        "a,b\n"
        "\"a,b\",\"say \"\"x\"\"\"\n"
        "two\\nlines,cr\\r\n"
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
      {"\rx", "'\\rx"},
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

TEST_CASE("a row of one absent value is not an empty line") {
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

TEST_CASE("each finding is an annotation at its place") {
  const SourceFile rules("dir/a,b:c.yaml", "# 100%\n- [w, [tp]]\n");
  Diagnostics diags;
  diags
      .report(Code::IndivisibleDimension, span_of(rules, "tp"),
              "dimension 0 is 50% too long: it has 3, not 2")
      .fact("3 mod 2 = 1")
      .help("pad it");
  diags.report(Code::UnknownAxis, {}, "unknown axis `x`");
  diags.report(Code::SmallParameter, {}, "`w` is\nsmall\r");
  Report report = sample_report();
  report.diagnostics = &diags;
  CHECK("\n" + rendered(report, "github") == R"(
::warning file=dir/a%2Cb%3Ac.yaml,line=2,col=8,endColumn=10,title=SP203 indivisible-dimension::dimension 0 is 50%25 too long: it has 3, not 2%0A= 3 mod 2 = 1%0Ahelp: pad it
::error title=SP201 unknown-axis::unknown axis `x`
::notice title=SP207 small-parameter::`w` is\nsmall\r
)");
}

TEST_CASE("flags and standard input are no files to annotate") {
  const SourceFile mesh("--mesh", "tp=0");
  const SourceFile stdin_text("-", "x");
  const SourceFile named("<stdin>", "x");
  Diagnostics diags;
  diags.error(Code::InvalidMesh, {&mesh, 3, 4}, "m");
  diags.error(Code::MalformedDocument, {&stdin_text, 0, 1}, "d");
  diags.error(Code::MalformedDocument, {&named, 0, 1}, "d");
  Report report;
  report.diagnostics = &diags;
  CHECK(rendered(report, "github") ==
        "::error title=SP007 invalid-mesh::m\n"
        "::error title=SP002 malformed-document::d\n"
        "::error title=SP002 malformed-document::d\n");
}

TEST_CASE("a name cannot start a workflow command of its own") {
  Diagnostics diags;
  diags.report(Code::UnknownKey, {}, "unknown key `a\n::set-output::`")
      .fact("\n::add-mask::x");
  Report report;
  report.diagnostics = &diags;
  CHECK(lines_of(rendered(report, "github")).size() == 1);
  CHECK(rendered(Report{}, "github").empty());
}

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

TEST_CASE("sentences show hostile names escaped in JSON, values hold them") {
  const std::string name = "a\n\x1b\xFF\xE2\x80\xAE";
  const std::string shown = "a\\n\\x1b\\xff\\u{202e}";
  const SourceFile file("m.json", "w");
  Diagnostics diags;
  diags.report(Code::UnusedAxis, {}, "m " + name)
      .label(span_of(file, "w"), "l " + name)
      .fact("f " + name)
      .help("h " + name)
      .parameters({"a\n"});
  Fix fix;
  fix.text = "t " + name;
  diags.all().front().fixes = {fix};
  Report report;
  report.tables = {
      {"t", "", {{"why", "why"}}, rows_of({{Prose{"w " + name}}})}};
  report.diagnostics = &diags;
  const auto json = nlohmann::json::parse(rendered(report, "json"));
  CHECK(json["tables"]["t"][0]["why"] == "w " + shown);
  const auto& found = json["diagnostics"][0];
  CHECK(found["message"] == "m " + shown);
  CHECK(found["labels"][0]["text"] == "l " + shown);
  CHECK(found["facts"][0] == "f " + shown);
  CHECK(found["help"][0] == "h " + shown);
  CHECK(found["fixes"][0]["text"] == "t " + shown);
  CHECK(found["parameters"][0] == "a\n");
  CHECK(rendered(report, "csv") == "why\nw " + shown + "\n");
}

TEST_CASE("a row that does not fit its table is a bug in JSON too") {
  Report report;
  report.tables = {{"t", "", {{"key", "key"}}, rows_of({{}})}};
  CHECK_THROWS_AS(rendered(report, "json"), InternalError);
}

TEST_CASE("Markdown has the headline, tables for people and the findings") {
  const SourceFile rules("rules.yaml", "- [w, [tp]]\n");
  Diagnostics diags;
  diags
      .report(Code::IndivisibleDimension, span_of(rules, "tp"),
              "dimension 0 of `a_b` is not divisible by *its* axes")
      .fact("3 mod 2 = 1")
      .help("pad `a_b`");
  diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing");
  Report report = sample_report();
  report.diagnostics = &diags;
  CHECK("\n" + rendered(report, "markdown") == R"(
### shardplan resolve

tiny: 2 parameters  
mesh fsdp=4,tp=2: 8 devices

| parameter | spec | per device | rule |
| --- | --- | ---: | ---: |
| `layers/*/mlp/up_proj/kernel` | P(None, (fsdp, tp)) | 31.3 MiB | 1 |
| `norm` | P() | 4.00 KiB | – |
| | | **31.3 MiB** | |

**Memory per device**

| | | |
| --- | ---: | --- |
| weights | 512 B | ███████████████ |
| gradients | 1.00 KiB | ██████████████████████████████ |

1 dimension is not divisible by its axes

- **warning SP203** dimension 0 of `a_b` is not divisible by \*its\* axes (`rules.yaml:1:8`)
  - 3 mod 2 = 1
  - help: pad `a_b`
- **warning SP204** axis `sp` shards nothing

`shardplan explain SP203` describes a code
)");
}

TEST_CASE("a terminal's width, colour and glyphs do not matter to a page") {
  Style style;
  style.width = 20;
  style.colour = true;
  style.unicode = false;
  CHECK(rendered(sample_report(), "markdown", style) ==
        rendered(sample_report(), "markdown"));
  style.exact = true;
  CHECK(rendered(sample_report(), "markdown", style).find("| 32769024 |") !=
        std::string::npos);
}

// The slow twin: the same rows one by one.
TEST_CASE("rows that share what follows their names are written alike") {
  NamedRows named;
  named.rests = [] {
    return std::vector<Row>{{std::string(), Count{1}, Cell()},
                            {std::string(), Count{-2}, std::string("x\"\n")}};
  };
  named.each = [](const NamedRows::Sink& sink) {
    for (const std::string_view name :
         {"w", "", "a \"name\"", "\x1b[0m\x7f", "\xff\xfe", "caf\xc3\xa9"}) {
      sink(name, name.size() % 2);
    }
  };
  Report report;
  report.command = "resolve";
  report.tables = {{"t", "", {{"a", "a"}, {"b", "b"}, {"c", "c"}}, {}}};
  report.tables.front().rows = rows_of_named(named);
  for (const std::string format : {"json", "csv", "text", "markdown"}) {
    CAPTURE(format);
    report.tables.front().named.reset();
    const std::string slow = rendered(report, format);
    report.tables.front().named = named;
    CHECK(rendered(report, format) == slow);
  }
  named.each = [](const NamedRows::Sink&) {};
  report.tables.front().named = named;
  CHECK(rendered(report, "json").find("\"t\": []") != std::string::npos);
}

TEST_CASE("a hostile name stays in its cell") {
  using S = std::string;
  Report report;
  report.command = "resolve";
  report.tables = {{"t",
                    "",
                    {{"a", "a|b", Align::Left, true}, {"b", "b"}},
                    rows_of({{S("x|y"), S("x|y")},
                             {S("x\\|`y"), S("<img src=x>")},
                             {S("new\nline"), S("[a](b)\n| c |")}})}};
  CHECK("\n" + rendered(report, "markdown") == R"(
### shardplan resolve

| a\|b | b |
| --- | --- |
| `x\|y` | x\|y |
| <code>x&#92;&#124;&#96;y</code> | \<img src=x\> |
| `new\nline` | \[a\](b)\\n\| c \| |
)");
}

TEST_CASE("a row that does not fit its table is a bug in Markdown too") {
  Report report;
  report.tables = {{"t", "", {{"key", "key"}}, rows_of({{}})}};
  CHECK_THROWS_AS(rendered(report, "markdown"), InternalError);
}

}  // namespace shardplan
