// SPDX-License-Identifier: Apache-2.0
#include "cli/args.h"

#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan::cli {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

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
    CAPTURE(joined(row.words));
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
      {{"chekc", "m.json"},
       "unknown command `chekc`",
       "a command with a similar name exists: `check`"},
      {{"quartz"},
       "unknown command `quartz`",
       "`shardplan help` shows all commands"},
      {{"help", "reslove"},
       "unknown command `reslove`",
       "a command with a similar name exists: `resolve`"},
      {{"train", "m.json"},
       "unknown command `train`",
       "`shardplan help` shows all commands"},
      {{"check", "m.json", "--ruels", "x"},
       "unknown option `--ruels`",
       "an option with a similar name exists: `--rules`"},
      {{"check", "m.json", "--topology=h100"},
       "unknown option `--topology`",
       "`shardplan help` shows what there is"},
      {{"check", "m.json", "-x"},
       "unknown option `-x`",
       "`shardplan help` shows what there is"},
      {{"check"},
       "`check` needs MODEL",
       "`shardplan check MODEL` is how it is called"},
      {{"diff", "a.plan.json"},
       "`diff` needs B.plan.json",
       "`shardplan diff A.plan.json B.plan.json` is how it is called"},
      {{"check", "a", "b"},
       "unexpected argument `b`",
       "`shardplan check MODEL` is how it is called"},
      {{"list", "hardware", "a", "b"},
       "unexpected argument `b`",
       "`shardplan list [TOPIC] [NAME]` is how it is called"},
      {{"check", "m.json", "--why", "w"},
       "`--why` means nothing to `check`",
       "`resolve` takes it"},
      {{"check", "m.json", "--exit-code"},
       "`--exit-code` means nothing to `check`",
       "`diff` takes it"},
      {{"check", "m.json", "--mesh"},
       "`--mesh` stands last and has no value",
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
    CAPTURE(joined(row.words));
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
  CHECK(rc::check("parse_command_line", [] {
    const auto word = rc::gen::element<std::string>(
        "check", "diff", "help", "--mesh", "--mesh=", "-m", "--json", "-q",
        "-qv", "--", "-", "", "--json=1", "-h", "--version", "--x", "-rx", "{}",
        "[a]", "tp=2", "++", "-1", "\n");
    const auto words = *rc::gen::container<Words>(word);
    Diagnostics diags;
    const CommandLine line = parse_command_line(words, diags);
    RC_ASSERT(line.command != nullptr || line.help || line.version ||
              diags.cannot_run());
  }));
}

}  // namespace
}  // namespace shardplan::cli
