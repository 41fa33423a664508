// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/shipped.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/pages.h"
#include "graph/composites.h"
#include "graph/op.h"
#include "io/graph/graph_file.h"
#include "io/load.h"
#include "report/report.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

std::string script(const char* shell) {
  MemoryHost host;
  CHECK(run({"completion", shell}, host) == 0);
  CHECK(host.err.empty());
  return host.out;
}

bool is_there(const char* shell) {
  return std::system(("command -v " + std::string(shell) + " >/dev/null 2>&1")
                         .c_str()) == 0;
}

// Runs `shell -c` with the script in a file as its only argument, and gives
// what it prints.
std::string shell_output(const std::string& shell, const std::string& text,
                         const std::string& command) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() /
      ("shardplan_completion_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const fs::path file = folder / "script";
  const fs::path out = folder / "out";
  std::ofstream(file) << text;
  const std::string line = shell + " -c '" + command + "' x " + file.string() +
                           " >" + out.string() + " 2>&1";
  CHECK(std::system(line.c_str()) == 0);
  std::ifstream result(out);
  std::string content((std::istreambuf_iterator<char>(result)), {});
  fs::remove_all(folder);
  return content;
}

TEST_CASE("every shell completes every command and flag") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    const std::string text = script(shell);
    for (const Command& command : commands()) {
      CAPTURE(command.name);
      CHECK(text.find(command.name) != std::string::npos);
    }
    for (const Flag& flag : flags()) {
      CAPTURE(flag.name);
      const std::string name = shell == std::string("fish")
                                   ? "-l " + std::string(flag.name)
                                   : "--" + std::string(flag.name);
      CHECK(text.find(name) != std::string::npos);
    }
    CHECK(text.find("drop prefix pad chunk rows error") != std::string::npos);
  }
}

TEST_CASE("the shells that are there accept their scripts") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    if (!is_there(shell)) continue;
    CAPTURE(shell);
    CHECK(shell_output(shell, script(shell),
                       std::string(shell) + " -n \"$1\"") == "");
  }
}

TEST_CASE("bash completes commands, flags, choices and words") {
  if (!is_there("bash")) return;
  const struct {
    const char* words;  // after `shardplan`
    const char* replies;
  } rows[] = {
      {"insp", "inspect"},
      {"--mesh tp=2 insp", "inspect"},
      {"check m.json --on-indivisible p", "prefix pad"},
      {"inspect m.json --isol", "--isolated"},
      {"diff a.json b.json --mes", "--mesh"},
      {"explain split", "split-unit"},
      {"list cod", "codes"},
      {"completion f", "fish"},
      {"help di", "diff"},
  };
  const std::string text = script("bash");
  for (const auto& row : rows) {
    CAPTURE(row.words);
    const std::string got = shell_output(
        "bash", text,
        "source \"$1\"; COMP_WORDS=(shardplan " + std::string(row.words) +
            "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _shardplan; "
            "echo \"${COMPREPLY[*]}\"");
    CHECK(got == row.replies + std::string("\n"));
  }
}

TEST_CASE("an unknown shell is refused with those that are known") {
  MemoryHost host;
  CHECK(run({"completion", "csh"}, host) == 2);
  CHECK(
      host.err ==
      "error[SP010]: unknown shell `csh`\nhelp: use `bash`, `zsh` or `fish`\n");
}

TEST_CASE("every code is explained by number, in any case, and by name") {
  for (const CodeInfo& info : all_codes()) {
    CAPTURE(info.name);
    MemoryHost by_number;
    CHECK(run({"explain", code_id(info.code)}, by_number) == 0);
    CHECK(by_number.out.find(code_id(info.code)) != std::string::npos);
    MemoryHost by_name;
    CHECK(run({"explain", std::string(info.name)}, by_name) == 0);
    CHECK(by_name.out == by_number.out);
  }
}

TEST_CASE("pages are printed without the marks of Markdown") {
  for (const Page& page : code_pages()) {
    CAPTURE(page.path);
    REQUIRE(page.path.ends_with(".md"));
    MemoryHost host;
    CHECK(run({"explain", std::string(page.path.substr(0, 5))}, host) == 0);
    CHECK(host.out.find("```") == std::string::npos);
    CHECK(host.out.find("\n## ") == std::string::npos);
    CHECK(host.out.find('\x1b') == std::string::npos);
    CHECK(host.out.find(".md)") == std::string::npos);
    CHECK_FALSE(host.out.starts_with("#"));
  }
}

TEST_CASE("examples are indented below the names of their files") {
  MemoryHost host;
  CHECK(run({"explain", "SP203"}, host) == 0);
  CHECK(host.out.find("\n  rules.yaml:\n    rules:\n      - [") !=
        std::string::npos);
  CHECK(host.out.find("\n    $ shardplan check ") != std::string::npos);
}

TEST_CASE("headings are bold in colour") {
  MemoryHost host;
  CHECK(run({"explain", "SP203", "--color", "always"}, host) == 0);
  CHECK(host.out.starts_with("\x1b[1m"));
}

TEST_CASE("an unknown code gets the nearest one, or the list of codes") {
  const struct {
    const char* word;
    const char* help;
  } rows[] = {
      {"indivisible-dimensoin", "did you mean `indivisible-dimension`?"},
      {"quartz", "`shardplan list codes` shows all codes"}};
  for (const auto& row : rows) {
    CAPTURE(row.word);
    MemoryHost host;
    CHECK(run({"explain", row.word}, host) == 2);
    CHECK(host.err == "error[SP010]: unknown code `" + std::string(row.word) +
                          "`\nhelp: " + row.help + "\n");
    CHECK(host.out.empty());
  }
}

nlohmann::json listed(const std::string& topic) {
  MemoryHost host;
  CHECK(run({"list", topic, "--json"}, host) == 0);
  CHECK(host.err.empty());
  return nlohmann::json::parse(host.out).at("tables");
}

TEST_CASE("list shows its topics, and each of them can be listed") {
  MemoryHost host;
  CHECK(run({"list"}, host) == 0);
  for (const std::string& topic : topic_names()) {
    CAPTURE(topic);
    CHECK(host.out.find(topic) != std::string::npos);
    CHECK_FALSE(listed(topic).empty());
  }
}

TEST_CASE("lists have a row for everything in their tables") {
  CHECK(listed("codes").at("codes").size() == all_codes().size());
  CHECK(listed("commands").at("commands").size() == commands().size());
  CHECK(listed("dialects").at("dialects").size() == rule_dialects().size());
  CHECK(listed("rules").at("rules").size() ==
        shipped_files("models").size() + shipped_files("any").size() +
            shipped_files("logical").size());
  const auto formats = listed("formats");
  CHECK(formats.at("model_formats").size() == manifest_formats().size());
  CHECK(formats.at("output_formats").size() == renderers().size());
}

TEST_CASE("operations are listed with what may be sharded of them") {
  const auto tables = listed("ops");
  CHECK(tables.at("ops").size() == ops().size());
  size_t attributes = 0;
  for (const OpDef& op : ops()) attributes += op.attributes.size();
  CHECK(tables.at("composites").size() == composites().size());
  for (const CompositeDef& op : composites()) {
    attributes += op.attributes.size();
  }
  CHECK(tables.at("attributes").size() == attributes);
  const auto& einsum = tables.at("ops").at(0);
  CHECK(einsum.at("name") == "einsum");
  CHECK(einsum.at("operands") == "2");
  CHECK(einsum.at("factors") ==
        "every letter; summed letters give partial sums");
  CHECK(tables.at("attributes").at(0).at("need") == "required");
  bool concatenate = false;
  for (const auto& row : tables.at("ops")) {
    if (row.at("name") == "concatenate") {
      concatenate = row.at("operands") == "2 or more";
    }
  }
  CHECK(concatenate);
}

TEST_CASE("shipped graphs are listed by the name that models have") {
  const auto graphs = listed("graphs").at("graphs");
  CHECK(graphs.size() == shipped_files(kGraphFolder).size());
  for (const auto& row : graphs) {
    CHECK(row.at("name").get<std::string>().starts_with("@"));
    CHECK_FALSE(row.at("summary").get<std::string>().empty());
  }
}

TEST_CASE("shipped rules are listed by the name that --rules takes") {
  const auto rules = listed("rules").at("rules");
  bool llama = false;
  for (const auto& row : rules) {
    CHECK(row.at("name").get<std::string>().starts_with("@"));
    CHECK_FALSE(row.at("summary").get<std::string>().empty());
    llama = llama || row.at("name") == "@llama";
  }
  CHECK(llama);
}

TEST_CASE("`list operations` is `list ops`") {
  MemoryHost short_name;
  MemoryHost long_name;
  CHECK(run({"list", "ops"}, short_name) == 0);
  CHECK(run({"list", "operations"}, long_name) == 0);
  CHECK_FALSE(short_name.out.empty());
  CHECK(long_name.out == short_name.out);
}

TEST_CASE("an unknown topic gets the nearest one") {
  MemoryHost host;
  CHECK(run({"list", "ruls"}, host) == 2);
  CHECK(host.err ==
        "error[SP010]: unknown topic `ruls`\n"
        "help: did you mean `rules`?\n");
}

}  // namespace

}  // namespace shardplan::cli
