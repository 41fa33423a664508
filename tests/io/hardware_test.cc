// SPDX-License-Identifier: Apache-2.0
#include "io/hardware.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/shipped.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::MemoryHost;

HardwareProfile shipped(const std::string& name) {
  MemoryHost host;
  Diagnostics diags;
  const auto profile = load_hardware(name, host, diags);
  CHECK(testing::messages(diags).empty());
  REQUIRE(profile);
  return *profile;
}

// Sources that some number of the profile names.
std::set<size_t> sources_in_use(const HardwareProfile& profile) {
  std::set<size_t> used;
  const auto add = [&](const auto& number) {
    if (number) used.insert(number->source);
  };
  used.insert(profile.devices_per_chip.source);
  add(profile.devices_per_host);
  add(profile.hbm_bytes);
  add(profile.hbm_usable_bytes);
  add(profile.hbm_bytes_per_second);
  for (const auto& rate : profile.flops_per_second) {
    used.insert(rate.second.source);
  }
  for (const LinkTier& link : profile.links) {
    used.insert(link.bytes_per_second.source);
    add(link.latency_seconds);
    add(link.devices);
    add(link.extents);
    add(link.wrap_multiple);
  }
  return used;
}

TEST_CASE("the profiles that were promised are shipped, under their names") {
  const std::vector<std::string> names = shipped_names(kHardwareFolder);
  for (const char* name : {"tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7x",
                           "a100-40", "a100-80", "h100-sxm", "h200", "b200",
                           "gb200", "mi300x", "mi325x", "l40s", "cpu"}) {
    CAPTURE(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(shipped(name).name == name);
  }
}

// The reader refuses numbers without a source and sources without a date, so
// this looks at what it cannot see: documents that nothing refers to, and
// numbers whose source has no address.
TEST_CASE("every source of a shipped profile is used, and has an address") {
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    CAPTURE(name);
    const HardwareProfile profile = shipped(name);
    CHECK(sources_in_use(profile).size() == profile.sources.size());
    for (const Citation& source : profile.sources) {
      CAPTURE(source.id);
      CHECK(source.title.size() > 8);
      CHECK((source.url.starts_with("https://") || name == "cpu"));
      CHECK(source.read.starts_with("20"));
    }
  }
}

TEST_CASE("shipped accelerators have memory, bandwidth, bf16 and a link") {
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    if (name == "cpu") continue;
    CAPTURE(name);
    const HardwareProfile profile = shipped(name);
    REQUIRE(profile.hbm_bytes);
    REQUIRE(profile.hbm_usable_bytes);
    CHECK_FALSE(profile.hbm_usable_bytes->estimated);
    // Observations lose a few percent, never a unit of GB against GiB.
    const double usable = static_cast<double>(profile.hbm_usable_bytes->value);
    const double nominal = static_cast<double>(profile.hbm_bytes->value);
    CHECK(usable / nominal > 0.93);
    CHECK(usable / nominal <= 1.0);
    CHECK(profile.hbm_bytes_per_second);
    CHECK_FALSE(profile.links.empty());
    bool bf16 = false;
    for (const auto& rate : profile.flops_per_second) {
      bf16 = bf16 || rate.first == Precision::BF16;
    }
    CHECK(bf16);
  }
}

TEST_CASE("dense rates double as the width halves, where they are stated") {
  for (const std::string& name : shipped_names(kHardwareFolder)) {
    CAPTURE(name);
    double bf16 = 0;
    double i8 = 0;
    for (const auto& rate : shipped(name).flops_per_second) {
      if (rate.first == Precision::BF16) bf16 = rate.second.value;
      if (rate.first == Precision::I8) i8 = rate.second.value;
    }
    if (i8 == 0) continue;
    // A sparse rate among dense ones would show as 4 or as 1/2. v4 is as fast
    // in both.
    const double ratio = i8 / bf16;
    CHECK((name == "tpu-v4" ? ratio == 1 : ratio > 1.9));
    CHECK(ratio < 2.1);
  }
}

TEST_CASE("known devices have the numbers that vendors and logs show") {
  const HardwareProfile h100 = shipped("h100-sxm");
  CHECK(h100.hbm_bytes->value == 85'899'345'920);         // 80 GiB
  CHECK(h100.hbm_usable_bytes->value == 84'932'978'278);  // 79.10 GiB
  const HardwareProfile v7x = shipped("tpu-v7x");
  CHECK(v7x.devices_per_chip.value == 2);
  CHECK(v7x.hbm_bytes->value == 103'079'215'104);  // half of 192 GiB
  const HardwareProfile v5e = shipped("tpu-v5e");
  REQUIRE(v5e.links.size() == 2);
  CHECK(v5e.links[0].topology == Topology::Torus);
  CHECK(v5e.links[0].extents->value == std::vector<int64_t>{16, 16});
  CHECK(v5e.links[0].wrap == Wrap::Each);
  CHECK(v5e.links[0].wrap_multiple->value == 16);
  CHECK_FALSE(shipped("cpu").hbm_bytes);
}

TEST_CASE("an unknown name gets the names that are near or that go on so") {
  const struct {
    const char* name;
    const char* help;
  } rows[] = {
      {"h100", "names that start so: `h100-sxm`"},
      {"a100", "names that start so: `a100-40`, `a100-80`"},
      {"h100-sxn", "a profile with a similar name is `h100-sxm`"},
      {"tpuv5p", "a profile with a similar name is `tpu-v5p`"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    MemoryHost host;
    Diagnostics diags;
    CHECK_FALSE(load_hardware(row.name, host, diags));
    CHECK(testing::messages(diags) ==
          "SP001 no hardware profile named `" + std::string(row.name) + "`");
    CHECK(diags.all()[0].help ==
          std::vector<std::string>{row.help,
                                   "`shardplan list hardware` shows all"});
  }
}

TEST_CASE("a file needs a dot or a slash, and one without is pointed out") {
  CHECK(is_hardware_path("own.yaml"));
  CHECK(is_hardware_path("./own"));
  CHECK_FALSE(is_hardware_path("own"));
  CHECK_FALSE(is_hardware_path(""));
  MemoryHost host;
  host.files["own"] =
      "name: own\ntitle: Own\nvendor: Us\n"
      "sources: {us: {title: Ourselves, read: 2026-01-31}}\n"
      "devices_per_chip: {value: 1, source: us}\n";
  Diagnostics diags;
  const auto read = load_hardware("./own", host, diags);
  REQUIRE(read);
  CHECK(read->title == "Own");
  CHECK(diags.all().empty());
  CHECK_FALSE(load_hardware("own", host, diags));
  CHECK(diags.all()[0].help[0] == "`./own` is taken as a file");
  CHECK_FALSE(load_hardware("none.yaml", host, diags));
  CHECK(diags.all()[1].message ==
        "cannot read `none.yaml`: no such file or directory");
}

}  // namespace
}  // namespace shardplan
