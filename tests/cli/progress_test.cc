// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

TEST_CASE("the status line comes after half a second and is erased") {
  MemoryHost host;
  host.terminals = {Stream::Err};
  {
    Progress progress(host, true);
    host.clock = 0.4;
    progress.stage("reading");
    CHECK(host.err.empty());
    host.clock = 0.6;
    progress.stage("matching");
    CHECK(host.err == "\r\x1b[Kmatching ...");
  }
  CHECK(host.err == "\r\x1b[Kmatching ...\r\x1b[K");
  CHECK(host.out.empty());
}

TEST_CASE("nothing is shown where it would disturb") {
  const struct {
    bool terminal;
    bool enabled;
  } rows[] = {{false, true}, {true, false}, {false, false}};
  for (const auto& row : rows) {
    CAPTURE(row.terminal);
    CAPTURE(row.enabled);
    MemoryHost host;
    if (row.terminal) host.terminals = {Stream::Err};
    Progress progress(host, row.enabled);
    host.clock = 10;
    progress.stage("reading");
    progress.clear();
    CHECK(host.err.empty());
  }
}

TEST_CASE("a status line fits the terminal and cannot write escapes") {
  MemoryHost host;
  host.terminals = {Stream::Err};
  host.width = 20;
  Progress progress(host, true);
  host.clock = 1;
  progress.stage("reading \x1b[31m" + std::string(100, 'x'));
  CHECK(host.err.size() == 19 + std::string_view("\r\x1b[K").size());
  CHECK(host.err.find("\x1b[31m") == std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
