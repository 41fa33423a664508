// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "cli/code_pages.h"
#include "cli/commands.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

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
  for (const CodePage& page : code_pages()) {
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
  } rows[] = {{"indivisible-dimensoin",
               "a code with a similar name exists: `indivisible-dimension`"},
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

}  // namespace
}  // namespace shardplan::cli
