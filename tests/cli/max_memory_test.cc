// SPDX-License-Identifier: Apache-2.0
#include "cli/max_memory.h"

#include <new>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using testing::MemoryHost;

constexpr int64_t kGiB = int64_t{1} << 30U;

MemoryHost machine() {
  MemoryHost host;
  host.files["/proc/meminfo"] =
      "MemTotal:        8388608 kB\nMemFree:          123456 kB\n";
  return host;
}

TEST_CASE("max memory: three quarters of the machine's") {
  MemoryHost host = machine();
  CHECK(default_max_memory(host) == 6 * kGiB);
}

TEST_CASE("max memory: none where nothing tells") {
  MemoryHost host;
  CHECK_FALSE(default_max_memory(host));
  for (const char* text : {"", "MemTotal:", "MemTotal: x kB", "MemFree: 1 kB",
                           "MemTotal: -1 kB", "MemTotal: 0 kB"}) {
    CAPTURE(text);
    host.files["/proc/meminfo"] = text;
    CHECK_FALSE(default_max_memory(host));
  }
}

TEST_CASE("max memory: a control group's limit, and those around it") {
  MemoryHost host = machine();
  host.files["/sys/fs/cgroup/memory.max"] = "4294967296\n";
  CHECK(default_max_memory(host) == 3 * kGiB);
  host.files["/proc/self/cgroup"] = "0::/user.slice/job\n";
  host.files["/sys/fs/cgroup/user.slice/job/memory.max"] = "max\n";
  host.files["/sys/fs/cgroup/user.slice/memory.max"] = "2147483648\n";
  CHECK(default_max_memory(host) == kGiB / 2 * 3);
  host.files["/sys/fs/cgroup/user.slice/job/memory.max"] = "1073741824\n";
  CHECK(default_max_memory(host) == kGiB / 4 * 3);
}

TEST_CASE("max memory: the limit of version 1, which may be none") {
  MemoryHost host = machine();
  auto& limit = host.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"];
  limit = "9223372036854771712\n";
  CHECK(default_max_memory(host) == 6 * kGiB);
  limit = "1073741824\n";
  CHECK(default_max_memory(host) == kGiB / 4 * 3);
}

TEST_CASE("max memory: what is said names limit, work and size") {
  AllocationLimit limit;
  limit.set(int64_t{1} << 20U);
  note_work("reading", "a.json");
  CHECK_THROWS_AS(claim_memory(int64_t{1} << 30U), std::bad_alloc);
  Diagnostics diags;
  report_no_memory({}, diags);
  note_work("");
  REQUIRE(diags.all().size() == 1);
  const Diagnostic& only = diags.all().front();
  CHECK(only.code == Code::MemoryBudget);
  CHECK(only.message ==
        "more than the 1.00 MiB of memory that the program may use would be "
        "needed");
  REQUIRE(only.facts.size() == 2);
  CHECK(only.facts[0] == "what it was doing: reading `a.json`");
  CHECK(only.facts[1].ends_with(" and asked for 1.00 GiB more"));
  CHECK(only.help.front().find("--max-memory") != std::string::npos);
}

}  // namespace
}  // namespace shardplan::cli
