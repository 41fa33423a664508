// SPDX-License-Identifier: Apache-2.0
#include "tests/support/markdown_case.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan::testing {
namespace {

// Says its arguments, then what it was told through the host.
int echo(const std::vector<std::string>& arguments, Host& host) {
  for (const std::string& word : arguments) {
    host.write(Stream::Out, "<" + word + ">\n");
  }
  std::string why;
  if (!arguments.empty() && arguments[0] == "cat") {
    host.write(Stream::Out, host.read_file(arguments[1], -1, why)->view());
  }
  if (!arguments.empty() && arguments[0] == "env") {
    host.write(Stream::Out, host.environment(arguments[1]).value_or("-"));
  }
  host.write(Stream::Out, host.read_stdin(why)->view());
  if (arguments.empty()) host.write(Stream::Err, "\x1b[1mno words\n");
  return arguments.empty() ? 2 : 0;
}

MarkdownRun run(const std::string& page) {
  MemoryHost host;
  return run_markdown(page, host, echo);
}

TEST_CASE("a page that shows what happens passes and stays as it is") {
  const std::string page =
      "# Title\n\n"
      "```yaml title=a/rules.yaml\nrules: []\n```\n\n"
      "```console\n"
      "$ shardplan cat a/rules.yaml\n<cat>\n<a/rules.yaml>\nrules: []\n\n"
      "$ scripts/setup\nwhatever it says\n"
      "$ shardplan 'x y' \\\n  z < a/rules.yaml\n<x y>\n<z>\nrules: []\n"
      "$ shardplan\n␛[1mno words\n[exit 2]\n"
      "```\n";
  const MarkdownRun result = run(page);
  CHECK(result.failures.empty());
  CHECK(result.commands == 3);
  CHECK(result.corrected == page);
}

TEST_CASE("a wrong expectation is a failure and is corrected in place") {
  const MarkdownRun result = run(
      "```console\n$ shardplan a\nwrong\n\n$ shardplan b\n<b>\n```\nafter\n");
  REQUIRE(result.failures.size() == 1);
  CHECK(result.failures[0].line == 2);
  CHECK(result.corrected ==
        "```console\n$ shardplan a\n<a>\n\n$ shardplan b\n<b>\n```\nafter\n");
}

TEST_CASE("an expected exit code that did not happen is a failure") {
  CHECK(
      run("```console\n$ shardplan a\n<a>\n[exit 1]\n```\n").failures.size() ==
      1);
  CHECK(run("```console\n$ shardplan\n␛[1mno words\n```\n").failures.size() ==
        1);
}

TEST_CASE("words after console set the terminal for that block only") {
  CHECK(run("```console width=60\n$ shardplan env COLUMNS\n<env>\n<COLUMNS>\n"
            "60\n```\n```console\n$ shardplan env COLUMNS\n<env>\n<COLUMNS>\n"
            "100\n```\n")
            .failures.empty());
  CHECK(run("```console ascii\n$ shardplan env LANG\n<env>\n<LANG>\nC\n```\n")
            .failures.empty());
  CHECK(run("```console\n$ A=b shardplan env A\n<env>\n<A>\nb\n```\n")
            .failures.empty());
  CHECK(run("```console norun\n$ shardplan\nno\n```\n").commands == 0);
}

TEST_CASE("what would be skipped in silence is a failure") {
  CHECK(run("  ```console\n  $ shardplan\n  ```\n").failures.size() == 1);
  CHECK(run("```console\n$ shardplan a\n<a>\n").failures.size() == 1);
  CHECK(run("```console norn\n```\n").failures.size() == 1);
  CHECK(run("```consol\n```\n").failures.size() == 1);
  CHECK(run("```sh\n$ ls\n```\n").failures.size() == 1);
  CHECK(run("```\n$ shardplan\n```\n").failures.size() == 1);
  CHECK(run("```text\n$ shardplan\n```\n").failures.size() == 1);
  CHECK(run("```text\nof shardplan\n```\n").failures.empty());
}

TEST_CASE("a block inside a longer fence is text") {
  const MarkdownRun result =
      run("````markdown\n```console\n$ shardplan\nno\n```\n````\n");
  CHECK(result.commands == 0);
  CHECK(result.failures.empty());
}

TEST_CASE("three dots stand for any lines") {
  const struct {
    std::vector<std::string> expected;
    bool matches;
  } rows[] = {
      {{"a", "b", "c"}, true},
      {{"..."}, true},
      {{"a", "..."}, true},
      {{"a", "...", "c"}, true},
      {{"...", "c"}, true},
      {{"a", "...", "b", "c"}, true},
      {{"...", "b"}, false},
      {{"a", "...", "d"}, false},
      {{"a", "b"}, false},
      {{"a", "b", "c", ""}, true},
      {{"a", "b", "c", "..."}, true},
  };
  for (const auto& row : rows) {
    CAPTURE(row.expected.size());
    CAPTURE(row.expected.front());
    CHECK(lines_match(row.expected, {"a", "b", "c"}) == row.matches);
  }
}

TEST_CASE("words are split as a shell splits them") {
  CHECK(shell_words("a  'b c' \"d 'e'\" f\\ g ''") ==
        std::vector<std::string>{"a", "b c", "d 'e'", "f g", ""});
}

}  // namespace
}  // namespace shardplan::testing
