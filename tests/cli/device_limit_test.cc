// SPDX-License-Identifier: Apache-2.0
#include "cli/device_limit.h"

#include <doctest/doctest.h>

#include "tests/support/memory_host.h"

namespace shardplan::cli {
namespace {

using shardplan::testing::MemoryHost;

constexpr int64_t kGiB = int64_t{1} << 30U;

struct Asked {
  std::optional<DeviceLimit> limit;
  Diagnostics diags;
};

// `own.yaml` states 10 GiB, of which `usable` (a whole line) can be allocated.
Asked ask(const MemoryOptions& memory, const std::string& usable = "") {
  MemoryHost host;
  host.files["own.yaml"] =
      "name: own\ntitle: Own\nvendor: Us\n"
      "sources: {us: {title: Ourselves, read: 2026-01-31}}\n"
      "devices_per_chip: {value: 1, source: us}\n"
      "hbm_bytes: {value: 10GiB, source: us}\n" +
      usable;
  Options options;
  options.memory = memory;
  Asked asked;
  asked.limit = device_limit(options, host, asked.diags);
  return asked;
}

TEST_CASE("without flags there is no limit, and nothing is wrong") {
  const Asked asked = ask({});
  CHECK_FALSE(asked.limit);
  CHECK(asked.diags.all().empty());
}

TEST_CASE("--memory alone is all that a device has, and all of it is usable") {
  MemoryOptions memory;
  memory.limit = 5 * kGiB;
  const Asked asked = ask(memory);
  REQUIRE(asked.limit);
  CHECK(asked.limit->name == "--memory");
  CHECK(asked.limit->nominal == 5 * kGiB);
  CHECK(asked.limit->usable == 5 * kGiB);
  CHECK_FALSE(asked.limit->usable_is_estimated);
}

TEST_CASE("a profile gives what was seen to be usable") {
  MemoryOptions memory;
  memory.hardware = "own.yaml";
  const Asked asked =
      ask(memory, "hbm_usable_bytes: {value: 9GiB, source: us}\n");
  REQUIRE(asked.limit);
  CHECK(asked.limit->name == "own");
  CHECK(asked.limit->nominal == 10 * kGiB);
  CHECK(asked.limit->usable == 9 * kGiB);
  CHECK_FALSE(asked.limit->usable_is_estimated);
}

TEST_CASE("where nobody saw what is usable, all is taken and it is said") {
  MemoryOptions memory;
  memory.hardware = "own.yaml";
  const Asked asked = ask(memory);
  REQUIRE(asked.limit);
  CHECK(asked.limit->usable == 10 * kGiB);
  CHECK(asked.limit->usable_is_estimated);
  const Asked worked_out = ask(memory,
                               "hbm_usable_bytes: {value: 8GiB, source: us, "
                               "estimated: true, note: half of a pair}\n");
  REQUIRE(worked_out.limit);
  CHECK(worked_out.limit->usable == 8 * kGiB);
  CHECK(worked_out.limit->usable_is_estimated);
}

TEST_CASE("--memory overrides a profile, which must exist all the same") {
  MemoryOptions memory;
  memory.hardware = "own.yaml";
  memory.limit = 3 * kGiB;
  REQUIRE(ask(memory).limit);
  CHECK(ask(memory).limit->usable == 3 * kGiB);
  memory.hardware = "onw.yaml";
  const Asked asked = ask(memory);
  CHECK_FALSE(asked.limit);
  CHECK(asked.diags.cannot_run());
}

TEST_CASE("a profile without memory asks for --memory") {
  MemoryOptions memory;
  memory.hardware = "cpu";
  const Asked asked = ask(memory);
  CHECK_FALSE(asked.limit);
  REQUIRE(asked.diags.all().size() == 1);
  CHECK(asked.diags.all()[0].code == Code::Usage);
  CHECK(asked.diags.all()[0].message ==
        "hardware profile `cpu` does not say how much memory a device has");
  memory.limit = kGiB;
  CHECK(ask(memory).limit);
}

TEST_CASE("a reserve is a size, or a fraction of what is usable, rounded up") {
  const DeviceLimit limit = {"x", 2000, 1001, false};
  Options options;
  Diagnostics diags;
  CHECK(reserve_bytes(options, limit, diags) == 0);
  options.memory.reserve = 7;
  CHECK(reserve_bytes(options, std::nullopt, diags) == 7);
  options.memory.reserve = 0;
  options.memory.reserve_fraction = 0.25;
  CHECK(reserve_bytes(options, limit, diags) == 251);  // 250.25
  CHECK(diags.all().empty());
  CHECK_FALSE(reserve_bytes(options, std::nullopt, diags));
  CHECK(diags.cannot_run());
}

}  // namespace
}  // namespace shardplan::cli
