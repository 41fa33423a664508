// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.h"
#include "cli/flag_values.h"

namespace shardplan::cli {
namespace {

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
  CHECK(options.rules == std::vector<std::string>{"a.yaml", "@llama"});
  CHECK(options.mesh->name() == "--mesh");
  CHECK(options.mesh->text() == "fsdp=4,tp=2");
  CHECK(options.devices == 8);
  CHECK(options.axes == std::vector<std::string>{"dp", "ep"});
  CHECK(options.min_size == -5);
  CHECK(options.on_indivisible == OnIndivisible::Pad);
  CHECK(options.unmatched == Unmatched::Replicate);
  CHECK_FALSE(options.strict);
  CHECK(options.tolerance == 0.1);
  CHECK(options.max_replicated == 0.0);
  CHECK(options.format == "csv");
  CHECK(options.format_was_given);
  CHECK(options.output == "x.csv");
  CHECK(options.colour == Colour::Never);
  CHECK(options.jobs == 3);
  CHECK(options.why == "a/b");
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
  CHECK(diags.severity_of(Code::UnusedAxis) == Severity::Error);
  CHECK(diags.severity_of(Code::UnusedRule) == Severity::Error);
  CHECK(diags.severity_of(Code::IndivisibleDimension) == Severity::Off);
  CHECK(diags.severity_of(Code::SmallParameter) == Severity::Note);
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

}  // namespace
}  // namespace shardplan::cli
