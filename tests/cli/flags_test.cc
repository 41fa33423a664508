// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/args.h"
#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/options.h"
#include "comm/collective.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

// As which a finding of this code would be reported.
Severity severity_in(const Diagnostics& diags, Code code) {
  Diagnostics fresh = diags.fresh();
  fresh.report(code, {}, "");
  return fresh.all().empty() ? Severity::Off : fresh.all().front().severity;
}

using testing::command_line;
using testing::Words;

std::string value_of(const CommandLine& line, std::string_view flag) {
  std::string values;
  for (const Setting& setting : line.settings) {
    if (setting.flag->name == flag) values += "[" + setting.value + "]";
  }
  return values;
}

TEST_CASE("flags may stand before or after the command") {
  for (const Words& words : {Words{"check", "m.json", "--mesh", "tp=2", "-q"},
                             Words{"--mesh", "tp=2", "-q", "check", "m.json"},
                             Words{"-q", "check", "--mesh=tp=2", "m.json"},
                             Words{"check", "-q", "-mtp=2", "--", "m.json"}}) {
    Diagnostics diags;
    const CommandLine line = parse_command_line(words, diags);
    CHECK(diags.all().empty());
    REQUIRE(line.command != nullptr);
    CHECK(line.command->name == "check");
    CHECK(line.arguments == Words{"m.json"});
    CHECK(value_of(line, "mesh") == "[tp=2]");
    CHECK(value_of(line, "quiet") == "[]");
  }
}

TEST_CASE("values are taken as they stand") {
  Diagnostics diags;
  const CommandLine line = parse_command_line(
      {"check", "-", "--rules", "[a,b]", "-r", "{}", "--min-size", "-1", "-o",
       "-", "--deny", "SP203,SP204"},
      diags);
  CHECK(diags.all().empty());
  CHECK(line.arguments == Words{"-"});
  CHECK(value_of(line, "rules") == "[[a,b]][{}]");
  CHECK(value_of(line, "min-size") == "[-1]");
  CHECK(value_of(line, "output") == "[-]");
  CHECK(value_of(line, "deny") == "[SP203,SP204]");
}

TEST_CASE("help is asked for in every usual way") {
  const struct {
    Words words;
    const char* command;
  } rows[] = {{{}, ""},
              {{"-h"}, ""},
              {{"--help"}, ""},
              {{"help"}, ""},
              {{"help", "check"}, "check"},
              {{"check", "--help"}, "check"},
              {{"check", "-h", "m.json"}, "check"},
              {{"--help", "diff"}, "diff"}};
  for (const auto& row : rows) {
    CAPTURE(command_line(row.words));
    Diagnostics diags;
    const CommandLine line = parse_command_line(row.words, diags);
    CHECK(diags.all().empty());
    CHECK(line.help);
    CHECK((line.command == nullptr ? "" : line.command->name) == row.command);
  }
}

TEST_CASE("the version is asked for alone or beside anything") {
  for (const Words& words : {Words{"--version"}, Words{"check", "--version"}}) {
    Diagnostics diags;
    CHECK(parse_command_line(words, diags).version);
    CHECK(diags.all().empty());
  }
}

TEST_CASE("every mistake of usage has its words and its help") {
  const struct {
    Words words;
    const char* message;
    const char* help;
  } rows[] = {
      {{"chekc", "m.json"}, "unknown command `chekc`", "did you mean `check`?"},
      {{"quartz"},
       "unknown command `quartz`",
       "`shardplan help` shows all commands"},
      {{"help", "reslove"},
       "unknown command `reslove`",
       "did you mean `resolve`?"},
      {{"train", "m.json"},
       "unknown command `train`",
       "`shardplan help` shows all commands"},
      {{"check", "m.json", "--ruels", "x"},
       "unknown option `--ruels`",
       "did you mean `--rules`?"},
      {{"check", "m.json", "--quantum=h100"},
       "unknown option `--quantum`",
       "`shardplan help` lists the options"},
      {{"check", "m.json", "-x"},
       "unknown option `-x`",
       "`shardplan help` lists the options"},
      {{"resolve"},
       "`resolve` needs MODEL",
       "usage: `shardplan resolve MODEL`"},
      {{"diff", "a.plan.json"},
       "`diff` needs AFTER",
       "usage: `shardplan diff BEFORE AFTER`"},
      {{"check", "a", "b"},
       "unexpected argument `b`",
       "usage: `shardplan check [MODEL]`"},
      {{"list", "hardware", "a", "b"},
       "unexpected argument `b`",
       "usage: `shardplan list [TOPIC] [NAME]`"},
      {{"check", "m.json", "--why", "w"},
       "`--why` does not apply to `check`",
       "`resolve` takes it"},
      {{"check", "m.json", "--exit-code"},
       "`--exit-code` does not apply to `check`",
       "`diff` takes it"},
      {{"check", "m.json", "--mesh"},
       "`--mesh` is last and has no value",
       nullptr},
      {{"check", "m.json", "--mesh="}, "`--mesh` has an empty value", nullptr},
      {{"check", "m.json", "--json=false"}, "`--json` takes no value", nullptr},
      {{"check", "m.json", "--mesh", "tp=2", "-m", "tp=4"},
       "`--mesh` is given more than once",
       nullptr},
      {{"check", "m.json", "--mesh", "--json"},
       "`--mesh` has no value: `--json` follows",
       nullptr},
  };
  for (const auto& row : rows) {
    CAPTURE(command_line(row.words));
    Diagnostics diags;
    parse_command_line(row.words, diags);
    REQUIRE(diags.all().size() == 1);
    const Diagnostic& problem = diags.all()[0];
    CHECK(problem.code == Code::Usage);
    CHECK(problem.message == row.message);
    if (row.help != nullptr) {
      CHECK(problem.help == std::vector<std::string>{row.help});
    }
  }
}

TEST_CASE("several mistakes are reported at once") {
  Diagnostics diags;
  parse_command_line({"inspect", "--over", "tp", "--exit-code"}, diags);
  CHECK(diags.all().size() == 3);
}

TEST_CASE("whatever the words, there is a command or a reason why not") {
  CHECK(holds("parse_command_line", [] {
    const Words words = draw_list([] {
      return draw_of<std::string>(
          {"check",    "diff", "help",      "--mesh", "--mesh=", "-m",
           "--json",   "-q",   "-qv",       "--",     "-",       "",
           "--json=1", "-h",   "--version", "--x",    "-rx",     "{}",
           "[a]",      "tp=2", "++",        "-1",     "\n"});
    });
    Diagnostics diags;
    const CommandLine line = parse_command_line(words, diags);
    ENSURE(line.command != nullptr || line.help || line.version ||
           diags.cannot_run());
  }));
}

Options applied(std::vector<std::pair<const char*, const char*>> given,
                Diagnostics& diags) {
  std::vector<Setting> settings;
  for (const auto& [name, value] : given) {
    const Flag* flag = find_flag(name);
    REQUIRE(flag != nullptr);
    settings.push_back({flag, value, {}, ""});
  }
  Options options;
  apply_settings(settings, options, diags);
  return options;
}

TEST_CASE("every flag has a unique name, words for help and a group") {
  std::set<std::string_view> names;
  std::set<char> letters;
  const std::set<std::string_view> groups = {"Inputs", "Simulation", "Memory",
                                             "Output", "Diagnostics"};
  for (const Flag& flag : flags()) {
    CAPTURE(flag.name);
    CHECK(names.insert(flag.name).second);
    CHECK((flag.letter == 0 || letters.insert(flag.letter).second));
    CHECK_FALSE(flag.help.empty());
    CHECK(groups.count(flag.group) == 1);
    CHECK(flag.value.empty() == (flag.takes == Takes::Nothing));
    CHECK((flag.choices != nullptr) == (flag.takes == Takes::Choice));
  }
}

TEST_CASE("values become options") {
  Diagnostics diags;
  const Options options = applied({{"rules", "a.yaml"},
                                   {"rules", "@llama"},
                                   {"mesh", "fsdp=4,tp=2"},
                                   {"devices", "8"},
                                   {"axes", "dp,ep"},
                                   {"min-size", "-5"},
                                   {"on-indivisible", "pad"},
                                   {"unmatched", "replicate"},
                                   {"no-strict", ""},
                                   {"tolerance", "0.1"},
                                   {"max-replicated", "0"},
                                   {"format", "csv"},
                                   {"output", "x.csv"},
                                   {"color", "never"},
                                   {"jobs", "3"},
                                   {"why", "a/b"}},
                                  diags);
  CHECK(diags.all().empty());
  CHECK(options.planning.rules == std::vector<std::string>{"a.yaml", "@llama"});
  CHECK(options.planning.mesh->name() == "--mesh");
  CHECK(options.planning.mesh->text() == "fsdp=4,tp=2");
  CHECK(options.planning.devices == 8);
  CHECK(options.planning.axes == AxisNames{"dp", "ep"});
  CHECK(options.planning.min_size == -5);
  CHECK(options.planning.on_indivisible == OnIndivisible::Pad);
  CHECK(options.planning.unmatched == Unmatched::Replicate);
  CHECK_FALSE(options.planning.strict);
  CHECK(options.planning.tolerance == 0.1);
  CHECK(options.planning.max_replicated == 0.0);
  CHECK(options.output.format == "csv");
  CHECK(options.output.format_was_given);
  CHECK(options.output.file == "x.csv");
  CHECK(options.output.colour == Colour::Never);
  CHECK(options.planning.jobs == 3);
  CHECK(options.resolve.why == "a/b");
}

TEST_CASE("every policy of the choices is one that resolving knows") {
  for (const std::string& name : find_flag("on-indivisible")->choices()) {
    CAPTURE(name);
    CHECK(find_policy(name).has_value());
  }
}

TEST_CASE("values that cannot be understood are refused, each by itself") {
  const struct {
    const char* flag;
    const char* value;
  } rows[] = {{"devices", "0"},      {"devices", "1099511627777"},
              {"devices", "-1"},     {"min-size", "1.5"},
              {"jobs", "0"},         {"tolerance", "-0.1"},
              {"tolerance", "nan"},  {"max-replicated", "all"},
              {"axes", "dp,,tp"},    {"axes", "1d"},
              {"format", "xml"},     {"on-indivisible", "Drop"},
              {"unmatched", "warn"}, {"mesh", ""},
              {"deny", "SP999"},     {"allow", "SP001"}};
  for (const auto& row : rows) {
    CAPTURE(row.flag);
    CAPTURE(row.value);
    Diagnostics diags;
    applied({{row.flag, row.value}}, diags);
    REQUIRE(diags.all().size() == 1);
    CHECK(diags.all()[0].code == Code::Usage);
    CHECK(diags.cannot_run());
  }
}

TEST_CASE("denied and allowed codes are in force afterwards") {
  Diagnostics diags;
  const Options options = applied(
      {{"deny", "SP204,warnings"}, {"allow", "indivisible-dimension"}}, diags);
  apply_severities(options, diags);
  CHECK(severity_in(diags, Code::UnusedAxis) == Severity::Error);
  CHECK(severity_in(diags, Code::UnusedRule) == Severity::Error);
  CHECK(severity_in(diags, Code::IndivisibleDimension) == Severity::Off);
  CHECK(severity_in(diags, Code::SmallParameter) == Severity::Note);
}

TEST_CASE("every command that a flag names is in the table of commands") {
  for (const Flag& flag : flags()) {
    for (const std::string& name : split_list(flag.commands, ' ')) {
      CAPTURE(flag.name);
      CAPTURE(name);
      CHECK(find_command(name) != nullptr);
    }
  }
}

TEST_CASE("paths are relative to the folder of the file that names them") {
  const struct {
    const char* directory;
    const char* path;
    const char* joined;
  } rows[] = {{"", "a", "a"},
              {"d", "a", "d/a"},
              {"/d", "../a", "/d/../a"},
              {"/", "a", "/a"},
              {"d", "/a", "/a"}};
  for (const auto& row : rows) {
    CAPTURE(row.path);
    CHECK(join_path(row.directory, row.path) == row.joined);
  }
}

TEST_CASE("the flags of explain are in the table; simulate has one of them") {
  for (const cli::Flag& row : explain_flags()) {
    CAPTURE(row.name);
    const cli::Flag* flag = find_flag(row.name);
    REQUIRE(flag != nullptr);
    const bool shared = row.name == "algorithm";
    CHECK(flag->commands == (shared ? "explain simulate" : "explain"));
    CHECK(flag->configurable == shared);
  }
}

TEST_CASE("choices are the algorithms and the kinds of collectives") {
  CHECK(find_flag("algorithm")->choices().size() == algorithms().size());
  CHECK(find_flag("kind")->choices().size() ==
        static_cast<size_t>(kCollectiveKinds));
}

TEST_CASE("values end in their options") {
  std::vector<Setting> settings;
  for (const char* name : {"ranks", "inner"}) {
    settings.push_back({find_flag(name), "8", {}, ""});
  }
  settings.push_back({find_flag("kind"), "permute", {}, ""});
  settings.push_back({find_flag("algorithm"), "ring", {}, ""});
  settings.push_back({find_flag("matmul"), "P() @ P()", {}, ""});
  Options options;
  Diagnostics diags;
  apply_settings(settings, options, diags);
  CHECK(options.explain.ranks == 8);
  CHECK(options.explain.inner == 8);
  CHECK(options.explain.kind == "permute");
  CHECK(options.explain.algorithm == "ring");
  CHECK(options.explain.matmul->text() == "P() @ P()");
  settings = {{find_flag("inner"), "0", {}, ""}};
  apply_settings(settings, options, diags);
  CHECK(diags.all().size() == 1);
}

Options simulate_flags_applied(const std::string& name,
                               const std::string& value, Diagnostics& diags) {
  const Flag* flag = find_flag(name);
  REQUIRE(flag != nullptr);
  const std::vector<Setting> settings = {{flag, value, {}, "dir"}};
  Options options;
  options.command = "simulate";
  apply_settings(settings, options, diags);
  return options;
}

TEST_CASE("simulate's flags become options") {
  Diagnostics diags;
  CHECK(simulate_flags_applied("graph", "g.yaml", diags).simulate.graph ==
        "dir/g.yaml");
  CHECK(simulate_flags_applied("graph", "@mlp", diags).simulate.graph ==
        "@mlp");
  const DimSizes dims = {{"batch", 2}, {"length", 0}};
  CHECK(
      simulate_flags_applied("dims", "batch=2,length=0", diags).simulate.dims ==
      dims);
  CHECK(simulate_flags_applied("overlap", "ring", diags).simulate.overlap ==
        Overlap::Ring);
  CHECK(simulate_flags_applied("overlap", "split", diags).simulate.overlap ==
        Overlap::Split);
  CHECK(simulate_flags_applied("values", "field", diags).simulate.values ==
        ValueSource::Field);
  CHECK(simulate_flags_applied("seed", "-3", diags).simulate.seed == -3);
  CHECK(
      simulate_flags_applied("algorithm", "direct", diags).simulate.algorithm ==
      "direct");
  CHECK(simulate_flags_applied("layers", "2", diags).simulate.layers == 2);
  const auto tokens = simulate_flags_applied("tokens", "4x32", diags).simulate;
  CHECK(tokens.batch == 4);
  CHECK(tokens.length == 32);
  CHECK(simulate_flags_applied("dtype", "bf16", diags).simulate.storage ==
        Storage::BF16);
  CHECK(simulate_flags_applied("reduce-dtype", "f32", diags).simulate.reduce ==
        Storage::F32);
  CHECK(simulate_flags_applied("shrink", "", diags).simulate.shrink);
  CHECK(simulate_flags_applied("capacity", "3", diags).simulate.capacity == 3);
  CHECK(simulate_flags_applied("input-ids", "1,2", diags).simulate.input_ids ==
        "1,2");
  CHECK(simulate_flags_applied("expect", "e.safetensors", diags)
            .simulate.expect == "dir/e.safetensors");
  for (const char* plot : {"e.svg", "errors=e.svg", "errors"}) {
    const auto plots = simulate_flags_applied("plot", plot, diags).plots;
    REQUIRE(plots.size() == 1);
    CHECK(plots[0].figure == (plot[1] == '.' ? "" : "errors"));
    CHECK(plots[0].file.value_or("none") ==
          (plot == std::string("errors") ? "none" : "dir/e.svg"));
  }
  CHECK(simulate_flags_applied("vary", "tp", diags).simulate.vary ==
        std::vector<std::string>{"tp"});
  CHECK(diags.all().empty());
}

TEST_CASE("simulate's flags refuse what they do not understand") {
  for (const auto& row :
       std::vector<std::pair<std::string, std::string>>{{"dims", "batch"},
                                                        {"dims", "2=3"},
                                                        {"dims", "a=b"},
                                                        {"dims", "a=-1"},
                                                        {"overlap", "sideways"},
                                                        {"values", "ones"},
                                                        {"layers", "0"},
                                                        {"tokens", "2"},
                                                        {"tokens", "2x"},
                                                        {"tokens", "2x3x4"},
                                                        {"dtype", "f8"},
                                                        {"capacity", "-1"},
                                                        {"seed", "x"}}) {
    CAPTURE(row.first);
    CAPTURE(row.second);
    Diagnostics diags;
    simulate_flags_applied(row.first, row.second, diags);
    REQUIRE(diags.all().size() == 1);
    CHECK(diags.all()[0].code == Code::Usage);
  }
}

}  // namespace

}  // namespace shardplan::cli
