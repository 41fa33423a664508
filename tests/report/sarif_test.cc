// SPDX-License-Identifier: Apache-2.0
// What SARIF says of findings; tests/report/schema_test.py holds whole reports
// against a schema, and tests/data/judge_sarif.py against the standard's.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/property.h"
#include "tests/support/reports.h"
#include "tests/support/words.h"

namespace shardplan {
namespace {

using nlohmann::json;
using testing::has_text;

json sarif_run(const Report& report) {
  return json::parse(rendered(report, "sarif")).at("runs").at(0);
}

json sarif_results(const Diagnostics& diags, std::string main_file = "m.json") {
  Report report;
  report.command = "check";
  report.diagnostics = &diags;
  report.main_file = std::move(main_file);
  return sarif_run(report).at("results");
}

std::string fingerprint_of(const Diagnostics& diags, size_t number = 0) {
  return sarif_results(diags)
      .at(number)
      .at("partialFingerprints")
      .at("shardplanFinding/v1");
}

// The byte of a 1-based line and column, which counts code points.
size_t byte_at(const std::string& text, int64_t line, int64_t column) {
  size_t at = 0;
  for (; line > 1; --line) at = text.find('\n', at) + 1;
  for (; column > 1; --column) {
    do {
      ++at;
    } while (at < text.size() && (text[at] & 0xC0) == 0x80);
  }
  return at;
}

// As an editor applies the replacements of a fix: from the last to the first.
std::string edited(std::string text, const json& fix) {
  json replacements = fix.at("artifactChanges").at(0).at("replacements");
  std::reverse(replacements.begin(), replacements.end());
  for (const json& replacement : replacements) {
    const json& region = replacement.at("deletedRegion");
    const size_t begin =
        byte_at(text, region.at("startLine"), region.at("startColumn"));
    const size_t end =
        byte_at(text, region.at("endLine"), region.at("endColumn"));
    text.replace(
        begin, end - begin,
        replacement.at("insertedContent").at("text").get<std::string>());
  }
  return text;
}

}  // namespace

TEST_CASE("SARIF: a finding is a result at its line, of a rule that is named") {
  const SourceFile rules("rules.yaml", "# é\n- [\"wé\", [tp]]\n");
  Diagnostics diags;
  diags.report(Code::UnusedAxis, {}, "axis `fsdp` shards nothing");
  diags
      .report(Code::IndivisibleDimension, span_of(rules, "tp"),
              "dimension 0 of `w` is not divisible")
      .label(span_of(rules, "\"wé\""), "the rule")
      .fact("3 mod 2 = 1")
      .help("pad it")
      .parameters({"a.w", "b.w"});
  Report report;
  report.command = "check";
  report.diagnostics = &diags;
  report.main_file = "m.json";
  const json run = sarif_run(report);
  CHECK(run.at("columnKind") == "unicodeCodePoints");
  CHECK(run.at("invocations").at(0).at("executionSuccessful") == true);
  const json& known = run.at("tool").at("driver").at("rules");
  REQUIRE(known.size() == 2);
  CHECK(known[0].at("id") == "SP203");
  CHECK(known[1].at("id") == "SP204");
  const json& results = run.at("results");
  REQUIRE(results.size() == 2);
  for (const json& result : results) {
    const size_t index = result.at("ruleIndex");
    CHECK(known.at(index).at("id") == result.at("ruleId"));
  }
  const json& found = results[1];
  CHECK(found.at("level") == "warning");
  CHECK(found.at("message").at("text") ==
        "dimension 0 of `w` is not divisible\n= 3 mod 2 = 1\nhelp: pad it");
  const json& place = found.at("locations").at(0).at("physicalLocation");
  CHECK(place.at("artifactLocation").at("uri") == "rules.yaml");
  CHECK(place.at("region") == json{{"startLine", 2},
                                   {"startColumn", 11},
                                   {"endColumn", 13},
                                   {"snippet", {{"text", "tp"}}}});
  CHECK(found.at("relatedLocations").at(0).at("message").at("text") ==
        "the rule");
  CHECK(found.at("properties").at("parameters") == json{"a.w", "b.w"});
  CHECK(found.at("locations").at(0).at("logicalLocations").size() == 2);
}

TEST_CASE("SARIF: what has no line is about the model's file, or of the tool") {
  const SourceFile mesh("--mesh", "fsdp=2");
  Diagnostics diags;
  diags.report(Code::UnusedAxis, span_of(mesh, "fsdp"), "fsdp shards nothing");
  const json results = sarif_results(diags, "my model.json");
  REQUIRE(results.size() == 1);
  CHECK(results[0]
            .at("locations")
            .at(0)
            .at("physicalLocation")
            .at("artifactLocation")
            .at("uri") == "my%20model.json");
  Report report;
  report.command = "check";
  report.diagnostics = &diags;
  const json run = sarif_run(report);
  CHECK(run.at("results").empty());
  const json& notes =
      run.at("invocations").at(0).at("toolExecutionNotifications");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].at("message").at("text") == "fsdp shards nothing");
  CHECK(notes[0].at("descriptor").at("id") ==
        run.at("tool").at("driver").at("notifications").at(0).at("id"));
  CHECK(run.at("tool").at("driver").at("rules").empty());
}

TEST_CASE("SARIF: a run that could not judge says so") {
  const SourceFile rules("rules.yaml", "- [\n");
  Diagnostics diags;
  diags.error(Code::MalformedDocument, {&rules, 0, 1}, "no end");
  diags.error(Code::InvalidMesh, {}, "no mesh was given");
  Report report;
  report.command = "check";
  report.diagnostics = &diags;
  report.main_file = "m.json";
  const json run = sarif_run(report);
  const json& call = run.at("invocations").at(0);
  CHECK(call.at("executionSuccessful") == false);
  // A broken file is shown at its line; the missing flag is not a file's fault.
  REQUIRE(run.at("results").size() == 1);
  CHECK(run.at("results").at(0).at("ruleId") == "SP002");
  REQUIRE(call.at("toolExecutionNotifications").size() == 1);
  CHECK(call.at("toolExecutionNotifications").at(0).at("level") == "error");
}

TEST_CASE("SARIF: names are text, never links, placeholders or controls") {
  const SourceFile rules("a b%/é.yaml", "x");
  Diagnostics diags;
  diags
      .report(Code::UnusedRule, {&rules, 0, 1},
              "rule `[x](https://evil){0}\x1b[31m\n::error::\xff`")
      .parameters({"p\x1b\xff"});
  Report report;
  report.command = "check";
  report.diagnostics = &diags;
  report.repository_prefix = "sub/";
  const std::string text = rendered(report, "sarif");
  CHECK(std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\n' || (c >= ' ' && c < 0x7f);
  }));
  const json result = json::parse(text).at("runs").at(0).at("results").at(0);
  CHECK(result.at("message").at("text") ==
        "rule `[x\\](https://evil){{0}}\\x1b[31m\\n::error::\\xff`");
  CHECK(result.at("locations")
            .at(0)
            .at("physicalLocation")
            .at("artifactLocation")
            .at("uri") == "sub/a%20b%25/%C3%A9.yaml");
  const SourceFile absolute("/w/r.yaml", "x");
  Diagnostics elsewhere;
  elsewhere.report(Code::UnusedRule, {&absolute, 0, 1}, "m");
  report.diagnostics = &elsewhere;
  CHECK(has_text(rendered(report, "sarif"), "\"file:///w/r.yaml\""));
}

TEST_CASE("SARIF: a finding keeps its fingerprint when lines and layers come") {
  const SourceFile before("r.yaml", "- [w, [tp]]\n");
  const SourceFile after("r.yaml", "# new\n\n- [w, [tp]]\n");
  const auto found = [](const SourceFile& file, std::vector<std::string> names,
                        const char* axis) {
    Diagnostics diags;
    diags.report(Code::IndivisibleDimension, span_of(file, "tp"), "m")
        .parameters(std::move(names))
        .about({1, 0, axis});
    return diags;
  };
  const std::string first =
      fingerprint_of(found(before, {"layers.0.w", "layers.1.w"}, "tp"));
  CHECK(first == fingerprint_of(found(
                     after, {"layers.0.w", "layers.1.w", "layers.2.w"}, "tp")));
  CHECK(first != fingerprint_of(found(before, {"layers.0.w"}, "fsdp")));
  CHECK(first != fingerprint_of(found(before, {"layers.0.v"}, "tp")));
  // Twice the same is told apart, in order.
  Diagnostics twice = found(before, {"layers.0.w"}, "tp");
  twice.report(Code::IndivisibleDimension, span_of(before, "tp"), "other words")
      .parameters({"layers.0.w"})
      .about({1, 0, "tp"});
  CHECK(fingerprint_of(twice, 0) == first);
  CHECK(fingerprint_of(twice, 1) == first + ":2");
}

TEST_CASE("SARIF: its edits make what the fix's own make") {
  CHECK(holds("edits by line and column are those by bytes", [] {
    const std::string alphabet[] = {"a", "é", "\n", " ", "𝄞"};
    std::string text;
    std::vector<size_t> starts = {0};
    for (int64_t n = draw_in<int64_t>(0, 30); n > 0; --n) {
      text += alphabet[static_cast<size_t>(draw_in(0, 4))];
      starts.push_back(text.size());
    }
    std::vector<size_t> cuts;
    for (int64_t n = 2 * draw_in<int64_t>(1, 3); n > 0; --n) {
      cuts.push_back(starts[static_cast<size_t>(
          draw_in<int64_t>(0, static_cast<int64_t>(starts.size()) - 1))]);
    }
    std::sort(cuts.begin(), cuts.end());
    const SourceFile file("r.yaml", text);
    Fix fix;
    fix.text = "change it";
    for (size_t i = 0; i < cuts.size(); i += 2) {
      // Apart from one another, as fixes' edits are.
      if (i > 0 && cuts[i] == cuts[i - 1]) continue;
      fix.edits.push_back(
          {{&file, cuts[i], cuts[i + 1]}, alphabet[i % 5] + "x"});
    }
    Diagnostics diags;
    diags.report(Code::UnusedRule, {&file, 0, 0}, "m");
    diags.all().front().fixes = {fix};
    std::string expected = text;
    for (size_t i = fix.edits.size(); i-- > 0;) {
      const Span& where = fix.edits[i].where;
      expected.replace(where.begin, where.end - where.begin, fix.edits[i].text);
    }
    ENSURE(edited(text, sarif_results(diags).at(0).at("fixes").at(0)) ==
           expected);
  }));
  // A fix that is not an edit of a file stays in the words.
  Diagnostics diags;
  diags.report(Code::UnusedAxis, {}, "m");
  Fix size;
  size.kind = FixKind::AxisSize;
  size.text = "make it 2";
  diags.all().front().fixes = {size};
  CHECK_FALSE(sarif_results(diags).at(0).contains("fixes"));
}

TEST_CASE("SARIF and annotations say as notes what else a line does") {
  const SourceFile rules("r.yaml", "- [w, [tp]]\n");
  const Diagnostics none;
  Diagnostics remarks;
  Diagnostic note;
  note.code = Code::LostAxes;
  note.severity = Severity::Note;
  note.message = "`w` loses `fsdp`";
  note.labels = {{span_of(rules, "tp"), ""}};
  remarks.add(note);
  Report report;
  report.command = "gate";
  report.diagnostics = &none;
  report.remarks = &remarks;
  const json results = sarif_run(report).at("results");
  REQUIRE(results.size() == 1);
  CHECK(results[0].at("level") == "note");
  CHECK(rendered(report, "github") ==
        "::notice file=r.yaml,line=1,col=8,endColumn=10,title=SP601 "
        "lost-axes::`w` loses `fsdp`\n");
  CHECK(rendered(report, "concise").empty());
}

}  // namespace shardplan
