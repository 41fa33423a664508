// SPDX-License-Identifier: Apache-2.0
#include "report/runner_commands.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/property.h"

namespace shardplan {
namespace {

// What GitHub's runner does with a line, as its source has it.
bool is_command(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r\v\f");
  if (begin == std::string_view::npos) return false;
  if (line.substr(begin).starts_with("::")) return true;
  const size_t hash = line.find("##[");
  return hash != std::string_view::npos ||
         line.find("##vso[") != std::string_view::npos;
}

bool has_command(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (is_command(text.substr(0, end))) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

TEST_CASE("lines that CI runners take for commands are escaped") {
  const struct {
    const char* text;
    const char* shown;
  } rows[] = {
      {"::error::x", "\\x3a:error::x"},
      {"a\n::error::x\n", "a\n\\x3a:error::x\n"},
      {"  \t::add-mask::x", "  \t\\x3a:add-mask::x"},
      {"\xC2\xA0::x", "\xC2\xA0\\x3a:x"},
      {"\xE3\x80\x80::x", "\xE3\x80\x80\\x3a:x"},
      {"\x1b[1m::x\x1b[0m", "\x1b[1m\\x3a:x\x1b[0m"},
      {":::", "\\x3a::"},
      {"a ::error::x", "a ::error::x"},
      {"std::x", "std::x"},
      {":x:", ":x:"},
      {"a ##[error]x", "a #\\x23[error]x"},
      {"###[x] ##vso[y] ##teamcity[z]",
       "##\\x23[x] #\\x23vso[y] #\\x23teamcity[z]"},
      {"::##[x]", "\\x3a:#\\x23[x]"},
      {"# [x] #[x] ## [x] ##1[x]", "# [x] #[x] ## [x] ##1[x]"},
      {"", ""},
      {"\n\n", "\n\n"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(without_commands(row.text) == row.shown);
  }
}

TEST_CASE("no text leaves a command, however it is cut into pieces") {
  CHECK(holds([] {
    const auto text = draw_text(":#[ \n1\t");
    const auto size = draw_in<size_t>(1, 5);
    std::string out;
    const TextSink sink = [&](std::string_view piece) {
      out += piece;
      return true;
    };
    LineGuard guard(sink);
    for (size_t at = 0; at < text.size(); at += size) {
      ENSURE(guard.write(std::string_view(text).substr(at, size)));
    }
    ENSURE(guard.finish());
    ENSURE(out == without_commands(text));
    ENSURE(!has_command(out));
    // The mutation: as it is, unless there was none.
    ENSURE((out == text) == !has_command(text));
  }));
}

TEST_CASE("a refusing sink is noticed, and gets nothing more") {
  int calls = 0;
  const TextSink sink = [&](std::string_view) {
    ++calls;
    return false;
  };
  LineGuard guard(sink);
  CHECK(guard.write("no end yet"));
  CHECK_FALSE(guard.write("\n"));
  CHECK_FALSE(guard.write("more\n"));
  CHECK_FALSE(guard.finish());
  CHECK(calls == 1);
}

}  // namespace
}  // namespace shardplan
