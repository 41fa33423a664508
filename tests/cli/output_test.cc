// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "cli/options.h"
#include "tests/support/memory_host.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;

using shardplan::testing::MemoryHost;

// Finishes a report of one note after reporting `codes`.
struct Run {
  MemoryHost host;
  Options options;
  Diagnostics diags;
  bool is_answer = false;

  Exit finish(std::vector<Code> codes = {}) {
    for (Code code : codes) diags.report(code, {}, "about " + code_id(code));
    Progress progress(host, false);
    options.command = "check";
    Context context = {options, host, diags, progress};
    Report report;
    report.notes = {"the answer"};
    report.diagnostics_are_the_answer = is_answer;
    return cli::finish(context, std::move(report));
  }
};

TEST_CASE("colour follows the flag, then the environment, then the terminal") {
  const struct {
    Colour flag;
    bool terminal;
    std::map<std::string, std::string> variables;
    bool colour;
  } rows[] = {
      {Colour::Auto, true, {}, true},
      {Colour::Auto, false, {}, false},
      {Colour::Auto, true, {{"TERM", "dumb"}}, false},
      {Colour::Auto, true, {{"NO_COLOR", "1"}}, false},
      {Colour::Auto, true, {{"NO_COLOR", ""}}, true},
      {Colour::Auto, false, {{"CLICOLOR_FORCE", "1"}}, true},
      {Colour::Auto, false, {{"FORCE_COLOR", "1"}}, true},
      {Colour::Auto, false, {{"FORCE_COLOR", "0"}}, false},
      {Colour::Auto, false, {{"FORCE_COLOR", ""}}, false},
      {Colour::Auto, false, {{"FORCE_COLOR", "1"}, {"NO_COLOR", "1"}}, false},
      {Colour::Always, false, {{"NO_COLOR", "1"}}, true},
      {Colour::Never, true, {{"FORCE_COLOR", "1"}}, false},
  };
  for (const auto& row : rows) {
    MemoryHost host;
    host.variables = row.variables;
    if (row.terminal) host.terminals = {Stream::Out};
    Options options;
    options.output.colour = row.flag;
    CAPTURE(&row - rows);
    CHECK(style_of(Stream::Out, options.output, host).colour == row.colour);
    CHECK(style_of(Stream::Err, options.output, host).colour ==
          (row.colour && (row.flag == Colour::Always || !row.terminal)));
  }
}

TEST_CASE("the width is COLUMNS, or the terminal's, or 100") {
  const struct {
    bool terminal;
    std::optional<int> columns;
    const char* variable;
    int width;
  } rows[] = {{true, 80, nullptr, 80},
              {false, 80, nullptr, 100},
              {true, std::nullopt, nullptr, 100},
              {true, 0, nullptr, 100},
              {true, 80, "120", 120},
              {false, 80, "60", 60},
              {true, 80, "wide", 80},
              {true, 80, "0", 80},
              {true, 80, "-5", 80},
              {true, 3, nullptr, 20}};
  for (const auto& row : rows) {
    CAPTURE(&row - rows);
    MemoryHost host;
    if (row.terminal) host.terminals = {Stream::Out};
    host.width = row.columns;
    if (row.variable != nullptr) host.variables["COLUMNS"] = row.variable;
    CHECK(style_of(Stream::Out, {}, host).width == row.width);
  }
}

TEST_CASE("glyphs follow the first locale variable that is set") {
  const struct {
    std::map<std::string, std::string> variables;
    bool unicode;
  } rows[] = {{{}, false},
              {{{"LANG", "C.UTF-8"}}, true},
              {{{"LANG", "de_DE.utf8"}}, true},
              {{{"LANG", "C.UTF-8"}, {"LC_ALL", "C"}}, false},
              {{{"LANG", "C.UTF-8"}, {"LC_ALL", ""}}, true},
              {{{"LC_CTYPE", "POSIX"}, {"LANG", "C.UTF-8"}}, false},
              {{{"LC_ALL", "en_US.UTF-8"}, {"LC_CTYPE", "C"}}, true}};
  for (const auto& row : rows) {
    CAPTURE(&row - rows);
    MemoryHost host;
    host.variables = row.variables;
    CHECK(style_of(Stream::Out, {}, host).unicode == row.unicode);
  }
}

TEST_CASE("errors are a finding, warnings and notes are not") {
  CHECK(Run().finish() == Exit::Fine);
  CHECK(Run().finish({Code::UnusedAxis, Code::SmallParameter}) == Exit::Fine);
  CHECK(Run().finish({Code::UnknownAxis}) == Exit::Findings);
}

TEST_CASE("people see diagnostics on stderr, after the answer on stdout") {
  Run run;
  CHECK(run.finish({Code::UnusedAxis}) == Exit::Fine);
  CHECK(run.host.out == "the answer\n");
  CHECK(has_text(run.host.err, "warning[SP204]: about SP204"));
}

TEST_CASE("on a terminal an empty line stands between the two") {
  Run run;
  run.host.terminals = {Stream::Out, Stream::Err};
  run.options.output.colour = Colour::Never;
  run.finish({Code::UnusedAxis});
  CHECK(run.host.err.starts_with("\nwarning[SP204]"));
}

TEST_CASE("where diagnostics are the answer they are on stdout") {
  Run run;
  run.is_answer = true;
  run.finish({Code::UnusedAxis});
  CHECK(has_text(run.host.out, "warning[SP204]: about SP204"));
  CHECK(has_text(run.host.out, "the answer"));
  CHECK(run.host.err.empty());
}

TEST_CASE("programs find diagnostics in the answer itself") {
  Run run;
  run.options.output.format = "json";
  run.finish({Code::UnusedAxis});
  CHECK(has_text(run.host.out, "\"SP204\""));
  CHECK(run.host.err.empty());
}

TEST_CASE("quiet hides warnings from people and from nobody else") {
  Run text;
  text.options.output.quiet = true;
  text.finish({Code::UnusedAxis, Code::UnknownAxis});
  CHECK_FALSE(has_text(text.host.err, "SP204"));
  CHECK(has_text(text.host.err, "SP201"));
  Run json;
  json.options.output.quiet = true;
  json.options.output.format = "json";
  json.finish({Code::UnusedAxis});
  CHECK(has_text(json.host.out, "\"SP204\""));
}

TEST_CASE("what prevents running leaves no answer") {
  Run run;
  run.options.output.file = "x.txt";
  CHECK(run.finish({Code::MalformedDocument}) == Exit::CouldNotRun);
  CHECK(run.host.out.empty());
  CHECK(run.host.written.empty());
}

TEST_CASE("a file is written whole, or not at all and with a reason") {
  const auto with_output = [](const char* path) {
    Run run;
    run.options.output.file = path;
    return run;
  };
  Run fine = with_output("x.txt");
  CHECK(fine.finish() == Exit::Fine);
  CHECK(fine.host.files["x.txt"] == "the answer\n");
  CHECK(fine.host.out.empty());

  Run refused = with_output("x.txt");
  refused.host.fail_create = true;
  CHECK(refused.finish() == Exit::CouldNotRun);
  CHECK(refused.diags.all().at(0).message ==
        "cannot write `x.txt`: permission denied");

  for (bool full : {true, false}) {
    Run run = with_output("x.txt");
    run.host.files["x.txt"] = "before";
    if (full) run.host.file_capacity = 5;
    run.host.fail_commit = !full;
    if (full) run.host.file_problem = "no space left on device";
    CHECK(run.finish() == Exit::CouldNotRun);
    CHECK(run.diags.all().at(0).message ==
          "cannot write all of `x.txt`" +
              std::string(full ? ": no space left on device" : ""));
    CHECK(run.host.files["x.txt"] == "before");
  }
}

// `-o` onto the model replaced it by the answer.
TEST_CASE("an answer replaces no input of its run, by whichever name") {
  for (const char* path : {"m.json", "./m.json", "link", "/project/m.json"}) {
    CAPTURE(path);
    Run run;
    run.host.files["m.json"] = "the model";
    run.host.links["link"] = "m.json";
    run.options.output.file = path;
    std::string why;
    CHECK(run.host.read_file("m.json", 1, why) != nullptr);
    CHECK(run.finish() == Exit::CouldNotRun);
    CHECK(run.diags.all().at(0).code == Code::Usage);
    CHECK(run.host.files["m.json"] == "the model");
    // The mutation: one that was not read is replaced.
    run.host.read.clear();
    run.diags = {};
    CHECK(run.finish() == Exit::Fine);
    CHECK(run.host.files["m.json"] == "the answer\n");
  }
}

TEST_CASE("the step summary is not added to an input either") {
  Run run;
  run.options.output.format = "github";
  run.host.variables["GITHUB_STEP_SUMMARY"] = "m.json";
  run.host.files["m.json"] = "the model";
  std::string why;
  CHECK(run.host.read_file("m.json", 1, why) != nullptr);
  CHECK(run.finish() == Exit::CouldNotRun);
  CHECK(run.host.files["m.json"] == "the model");
}

TEST_CASE("a dash is standard output") {
  Run run;
  run.options.output.file = "-";
  CHECK(run.finish() == Exit::Fine);
  CHECK(run.host.out == "the answer\n");
  CHECK(run.host.written.empty());
}

TEST_CASE("a closed pipe ends quietly") {
  Run run;
  run.host.stream_capacity = 3;
  CHECK(run.finish() == Exit::Fine);
  CHECK(run.host.out.empty());
  CHECK(run.host.err.empty());
}

TEST_CASE("an answer that does not fit on the disk is no answer") {
  Run run;
  run.host.stream_capacity = 3;
  run.host.stream_problem = "no space left on device";
  CHECK(run.finish() == Exit::CouldNotRun);
  CHECK(run.diags.all().at(0).message ==
        "cannot write to standard output: no space left on device");
}

TEST_CASE("files have no colour though stdout is a terminal") {
  Run run;
  run.options.output.file = "x.txt";
  run.host.terminals = {Stream::Out, Stream::Err};
  run.finish();
  CHECK_FALSE(has_text(run.host.files["x.txt"], "\x1b"));
}

TEST_CASE("the step summary of GitHub is appended") {
  Run run;
  run.options.output.format = "github";
  run.host.variables["GITHUB_STEP_SUMMARY"] = "summary.md";
  run.host.files["summary.md"] = "before\n";
  CHECK(run.finish({Code::UnusedAxis}) == Exit::Fine);
  const std::string& summary = run.host.files["summary.md"];
  CHECK(summary.starts_with("before\n"));
  CHECK(has_text(summary, "the answer"));
  CHECK(has_text(run.host.out, "::warning"));
}

TEST_CASE("in a workflow of GitHub files are named from the checkout's root") {
  Run run;
  run.options.output.format = "github";
  run.options.planning.model = "m.json";
  run.host.directory = "/w/repo/sub";
  run.host.files["m.json"] = "{}";
  run.host.files["/w/repo/sub/m.json"] = "{}";
  run.host.variables["GITHUB_WORKSPACE"] = "/w/repo";
  run.host.files["r.yaml"] = "x";
  const auto rules = std::make_shared<SourceFile>("r.yaml", "x");
  run.diags.add_source(rules);
  run.diags.report(Code::UnusedRule, {rules.get(), 0, 1}, "m");
  CHECK(run.finish() == Exit::Fine);
  CHECK(has_text(run.host.out, "file=sub/r.yaml,line=1"));
  run.host.out.clear();
  run.options.output.format = "sarif";
  CHECK(run.finish({Code::UnusedAxis}) == Exit::Fine);
  CHECK(has_text(run.host.out, "\"sub/r.yaml\""));
  // What has no place is about the model.
  CHECK(has_text(run.host.out, "\"sub/m.json\""));
  run.host.out.clear();
  run.host.variables["GITHUB_WORKSPACE"] = "/w/other";
  CHECK(run.finish() == Exit::Fine);
  CHECK(has_text(run.host.out, "\"r.yaml\""));
  // Shipped rules are no file of the repository.
  run.host.out.clear();
  run.host.files.erase("r.yaml");
  CHECK(run.finish() == Exit::Fine);
  CHECK_FALSE(has_text(run.host.out, "r.yaml"));
  CHECK(has_text(run.host.out, "\"ruleId\": \"SP102\""));
}

TEST_CASE("diagnostics are grouped by severity, each group in its order") {
  Diagnostics diags;
  diags.report(Code::SmallParameter, {}, "n1");
  diags.report(Code::UnusedAxis, {}, "w1").fact("f").help("h");
  diags.report(Code::UnknownAxis, {}, "e1").parameters({"a", "b"});
  diags.report(Code::UnusedRule, {}, "w2").findings(7);
  diags.report(Code::RepeatedAxis, {}, "e2");
  const auto messages = [](const Diagnostics& some) {
    std::string text;
    for (const Diagnostic& d : some.all()) text += d.message + " ";
    return text;
  };
  const Diagnostics all = arranged(diags);
  CHECK(messages(all) == "e1 e2 w1 w2 n1 ");
  CHECK(all.all()[0].parameters == std::vector<std::string>{"a", "b"});
  CHECK(all.all()[2].facts == std::vector<std::string>{"f"});
  CHECK(all.all()[2].help == std::vector<std::string>{"h"});
  CHECK(all.count(Severity::Warning) == diags.count(Severity::Warning));
  CHECK(messages(arranged(diags, Severity::Error)) == "e1 e2 ");
}

TEST_CASE("findings are ranked by what they cost, a loss after its cause") {
  Diagnostics diags;
  diags.report(Code::IndivisibleDimension, {}, "small").bytes(1);
  diags.report(Code::SplitUnit, {}, "split").bytes(900);
  diags.report(Code::IndivisibleDimension, {}, "large").bytes(5);
  diags.report(Code::ShardingLost, {}, "lost").bytes(1000);
  diags.report(Code::LargeReplicatedParameter, {}, "replica").bytes(700);
  diags.report(Code::UnplacedLogicalAxis, {}, "label").bytes(2);
  // What a reader of files says comes first, as it stands in them.
  diags.error(Code::UnknownKey, {}, "key 1");
  diags.error(Code::MalformedDocument, {}, "form");
  diags.error(Code::UnknownKey, {}, "key 2");
  const Diagnostics ranked = arranged(diags);
  std::string text;
  for (const Diagnostic& d : ranked.all()) text += d.message + " ";
  CHECK(text == "key 1 form key 2 split large small lost replica label ");
}

TEST_CASE("only a bare plan name asks for a plan") {
  const struct {
    std::optional<std::string> output;
    bool format;
    bool plan;
  } rows[] = {{std::nullopt, false, false},
              {"x.plan.json", false, true},
              {"x.plan.json", true, false},
              {"x.json", false, false},
              {"-", false, false}};
  for (const auto& row : rows) {
    Options options;
    options.output.file = row.output;
    options.output.format_was_given = row.format;
    CHECK(asks_for_plan(options.output) == row.plan);
  }
}

TEST_CASE("the ending of a report's file is its format") {
  const struct {
    const char* file;
    bool given;
    const char* format;  // null: refused
  } rows[] = {{"r.json", false, "json"},      {"r.md", false, "markdown"},
              {"a.b/r.csv", false, "csv"},    {"r.sarif", false, "sarif"},
              {"r.xml", false, "junit"},      {"r.txt", false, "text"},
              {"r", false, "text"},           {"a.json/r", false, "text"},
              {"/dev/stdout", false, "text"}, {".json", false, "text"},
              {"r.yaml", false, nullptr},     {"r.yaml", true, "text"},
              {"r.json", true, "text"},       {"x.plan.json", false, "text"},
              {"r.JSON", false, nullptr},     {"r.", false, nullptr}};
  for (const auto& row : rows) {
    CAPTURE(row.file);
    OutputOptions output;
    output.file = row.file;
    output.format_was_given = row.given;
    Diagnostics diags;
    settle_format(output, diags);
    CHECK(diags.has_errors() == (row.format == nullptr));
    if (row.format != nullptr) CHECK(output.format == row.format);
  }
}

TEST_CASE("a failure is reported on stderr, or in the format made for that") {
  const struct {
    const char* format;
    bool on_stdout;
  } rows[] = {{"text", false},     {"json", true},    {"csv", false},
              {"markdown", false}, {"concise", true}, {"github", true},
              {"sarif", true},     {"junit", true}};
  for (const auto& row : rows) {
    CAPTURE(row.format);
    MemoryHost host;
    Options options;
    options.output.format = row.format;
    Diagnostics diags;
    diags.error(Code::Usage, {}, "wrong");
    explain_failure(options, diags, false, host);
    CHECK(has_text(row.on_stdout ? host.out : host.err, "wrong"));
    CHECK((row.on_stdout ? host.err : host.out).empty());
    // What has begun on stdout is not continued by something else.
    host.out.clear();
    host.err.clear();
    explain_failure(options, diags, true, host);
    CHECK(has_text(host.err, "wrong"));
    CHECK(host.out.empty());
  }
}

// A command that ended with 2 and had reported nothing that prevents running
// ended silently: findings are not shown where there is no answer.
TEST_CASE("output: no answer without a reason is a bug of ours") {
  MemoryHost host;
  Options options;
  options.command = "simulate";
  Diagnostics diags;
  Progress progress(host, false);
  Context context{options, host, diags, progress};
  CHECK_THROWS_AS(explain_no_answer(context), InternalError);
  CHECK(host.err.empty());
  diags.error(Code::UnknownAxis, {}, "a finding");
  CHECK_THROWS_AS(explain_no_answer(context), InternalError);
  CHECK(has_text(host.err, "a finding"));
  host.err.clear();
  diags.error(Code::InvalidGraph, {}, "a reason");
  explain_no_answer(context);
  CHECK(has_text(host.err, "a reason"));
  CHECK_FALSE(has_text(host.err, "a finding"));
}

TEST_CASE("output: what has been explained is not explained again") {
  MemoryHost host;
  Options options;
  options.output.format = "json";
  Diagnostics diags;
  diags.error(Code::MissingFacts, {}, "a reason");
  Progress progress(host, false);
  Context context{options, host, diags, progress};
  Report report;
  report.command = "analyze";
  report.summary = {{"tensors", Count{3}}};
  CHECK(finish(context, report) == Exit::CouldNotRun);
  CHECK(has_text(host.out, "\"tensors\": 3"));
  CHECK(has_text(host.out, "a reason"));
  const std::string once = host.out;
  explain_no_answer(context);
  CHECK(host.out == once);
  CHECK(host.err.empty());
}

}  // namespace
}  // namespace shardplan::cli
