// SPDX-License-Identifier: Apache-2.0
#include "io/topologies.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "core/mesh.h"
#include "io/hardware.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

NamedTopology understood(const std::string& name) {
  Diagnostics diags;
  const auto topology = read_topology(name, {}, diags);
  CAPTURE(name);
  CHECK(testing::messages(diags).empty());
  REQUIRE(topology);
  return *topology;
}

HardwareProfile profile_of(std::string_view name) {
  testing::MemoryHost host;
  Diagnostics diags;
  const auto profile = load_hardware(std::string(name), host, diags);
  REQUIRE(profile);
  return *profile;
}

std::string lower_text(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lowered;
}

TEST_CASE("a name says devices, slices, hosts and hardware") {
  constexpr int64_t kUnsaid = 0;  // of slices and hosts
  const struct {
    const char* name;
    int64_t devices;
    int64_t slices;
    int64_t hosts;
    const char* hardware;
    const char* text;
  } rows[] = {
      {"v2-8", 8, 1, 1, "",
       "v2-8: 8 devices (v2 counts cores, each one a device)"},
      {"v3-32", 32, 1, 4, "",
       "v3-32: 32 devices (v3 counts cores, each one a device)"},
      {"v4-8", 4, 1, 1, "tpu-v4",
       "v4-8: 4 devices (v4 counts cores, 2 per chip), 30.8 GiB each"},
      {"v5p-128", 64, 1, 16, "tpu-v5p",
       "v5p-128: 64 devices (v5p counts cores, 2 per chip), 95.7 GiB each"},
      {"v5p-17920", 8960, 1, 2240, "tpu-v5p",
       "v5p-17920: 8,960 devices (v5p counts cores, 2 per chip), 95.7 GiB "
       "each"},
      {"v5e-256", 256, 1, 32, "tpu-v5e",
       "v5e-256: 256 devices (v5e counts chips), 15.8 GiB each"},
      {"v5litepod-16", 16, 1, 2, "tpu-v5e",
       "v5litepod-16: 16 devices (v5litepod counts chips), 15.8 GiB each"},
      {"v6e-1", 1, 1, 1, "tpu-v6e",
       "v6e-1: 1 device (v6e counts chips), 31.2 GiB"},
      {"tpu7x-16", 16, 1, 2, "tpu-v7x",
       "tpu7x-16: 16 devices (tpu7x counts cores, each one a device), 94.8 GiB "
       "each"},
      {"2xv5e-256", 512, 2, 64, "tpu-v5e",
       "2xv5e-256: 512 devices in 2 slices (v5e counts chips), 15.8 GiB each"},
      {"1xv5e-256", 256, 1, 32, "tpu-v5e",
       "1xv5e-256: 256 devices (v5e counts chips), 15.8 GiB each"},
      {"V5P-128", 64, 1, 16, "tpu-v5p",
       "v5p-128: 64 devices (v5p counts cores, 2 per chip), 95.7 GiB each"},
      {"a3", 8, kUnsaid, 1, "h100-sxm",
       "a3: 8 devices (NVIDIA H100 SXM5 80GB), 79.1 GiB each"},
      {"a2-megagpu-16g", 16, kUnsaid, 1, "a100-40",
       "a2-megagpu-16g: 16 devices (NVIDIA A100 SXM4 40GB), 39.5 GiB each"},
      {"4xa3-highgpu-8g", 32, kUnsaid, 4, "h100-sxm",
       "4xa3-highgpu-8g: 32 devices (4 machines of 8, NVIDIA H100 SXM5 80GB), "
       "79.1 GiB each"},
      {"p4de.24xlarge", 8, kUnsaid, 1, "a100-80",
       "p4de.24xlarge: 8 devices (NVIDIA A100 SXM4 80GB), 79.2 GiB each"},
      {"standard_nd96isr_h100_v5", 8, kUnsaid, 1, "h100-sxm",
       "Standard_ND96isr_H100_v5: 8 devices (NVIDIA H100 SXM5 80GB), 79.1 GiB "
       "each"},
      {"2XND-MI300X-v5", 16, kUnsaid, 2, "mi300x",
       "2xND-MI300X-v5: 16 devices (2 machines of 8, AMD Instinct MI300X "
       "192GB), 192.0 GiB each"},
      {"8xH100", 8, kUnsaid, kUnsaid, "h100-sxm",
       "8xH100: 8 devices (NVIDIA H100 SXM5 80GB), 79.1 GiB each"},
      {"8xa100-80gb", 8, kUnsaid, kUnsaid, "a100-80",
       "8xA100-80GB: 8 devices (NVIDIA A100 SXM4 80GB), 79.2 GiB each"},
      {"1xL40S", 1, kUnsaid, kUnsaid, "l40s",
       "1xL40S: 1 device (NVIDIA L40S 48GB), 45.0 GiB"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    const NamedTopology topology = understood(row.name);
    CHECK(topology.devices == row.devices);
    CHECK(topology.slices.value_or(kUnsaid) == row.slices);
    CHECK(topology.hosts.value_or(kUnsaid) == row.hosts);
    CHECK(topology.hardware == row.hardware);
    CHECK(topology_text(topology) == row.text);
  }
}

TEST_CASE("what is not a topology is told why, with help") {
  const struct {
    const char* name;
    const char* message;
    const char* fact;  // the first, where there is one
    const char* help;  // the first
  } rows[] = {
      {"v5p-100", "unknown topology `v5p-100`",
       "v5p counts cores, 2 per chip; a slice has a multiple of 8 up to 17,920",
       "100 chips are `v5p-200`"},
      {"v5p-4", "unknown topology `v5p-4`",
       "v5p counts cores, 2 per chip; a slice has a multiple of 8 up to 17,920",
       "4 chips are `v5p-8`"},
      {"tpu7x-1", "unknown topology `tpu7x-1`",
       "tpu7x counts cores, each one a device; a slice has 2 or a multiple of "
       "8 up "
       "to 18,432",
       "1 chip is `tpu7x-2`"},
      {"v5e-12", "unknown topology `v5e-12`",
       "v5e counts chips; a slice has 1, 4, 8, 16, 32, 64, 128, 256", nullptr},
      {"v5p-99999999999999999999",
       "unknown topology `v5p-99999999999999999999`",
       "v5p counts cores, 2 per chip; a slice has a multiple of 8 up to 17,920",
       nullptr},
      {"v7x-16", "topology `v7x-16` is ambiguous",
       "`v7x-16` may mean 16 cores on 8 chips, or 16 chips with 32 devices",
       "write `tpu7x-N`, which counts cores, each one a device: `tpu7x-16` is "
       "8 chips"},
      {"8xA100", "topology `8xA100` is ambiguous",
       "the A100 comes with 40 GB or 80 GB",
       "write `8xA100-40GB` or `8xA100-80GB`"},
      {"v5p", "topology `v5p` has no size", "v5p counts cores, 2 per chip",
       "write the size of the slice, e.g. `v5p-128`"},
      {"H100", "topology `H100` has no device count", nullptr,
       "write the number of devices, e.g. `8xH100`"},
      {"H100:8", "unknown topology `H100:8`", nullptr,
       "write the number first: `8xH100`"},
      {"a3-highgpu-8gx4", "unknown topology `a3-highgpu-8gx4`", nullptr,
       "write the number first: `4xa3-highgpu-8g`"},
      {"v5e-256*2", "unknown topology `v5e-256*2`", nullptr,
       "write the number first: `2xv5e-256`"},
      {"v5q-128", "unknown topology `v5q-128`", nullptr,
       "did you mean `v5e-128`?"},
      {"3xa3-hihgpu-8g", "unknown topology `3xa3-hihgpu-8g`", nullptr,
       "did you mean `3xa3-highgpu-8g`?"},
      {"MI300", "unknown topology `MI300`", nullptr,
       "did you mean `8xMI300X`?"},
      {"v5p-0128", "unknown topology `v5p-0128`", nullptr,
       "`shardplan list topologies` shows all; describe any other with "
       "`--devices` and `--hardware`"},
      {"0xH100", "unknown topology `0xH100`", nullptr,
       "did you mean `8xH100`?"},
      {"1x2", "unknown topology `1x2`", nullptr,
       "`shardplan list topologies` shows all; describe any other with "
       "`--devices` and `--hardware`"},
      {"x", "unknown topology `x`", nullptr,
       "`shardplan list topologies` shows all; describe any other with "
       "`--devices` and `--hardware`"},
      {"-", "unknown topology `-`", nullptr,
       "`shardplan list topologies` shows all; describe any other with "
       "`--devices` and `--hardware`"},
      {"\x1b[31m", "unknown topology `\x1b[31m`", nullptr,
       "`shardplan list topologies` shows all; describe any other with "
       "`--devices` and `--hardware`"},
      {"9999999999999xH100",
       "topology `9999999999999xH100` has too many devices", "more than 2^40",
       nullptr},
      {"99999999999999999999xv5e-256",
       "topology `99999999999999999999xv5e-256` has too many devices",
       "more than 2^40", nullptr},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    Diagnostics diags;
    CHECK_FALSE(read_topology(row.name, {}, diags));
    REQUIRE(diags.all().size() == 1);
    const Diagnostic& problem = diags.all()[0];
    CHECK(problem.code == Code::Usage);
    CHECK(problem.message == row.message);
    CHECK((problem.facts.empty() ? "" : problem.facts.front()) ==
          (row.fact == nullptr ? "" : row.fact));
    CHECK((problem.help.empty() ? "" : problem.help.front()) ==
          (row.help == nullptr ? "" : row.help));
  }
}

TEST_CASE("a place in a file is pointed at") {
  const SourceFile file("shardplan.yaml", "topology: v5p-4\n");
  Diagnostics diags;
  CHECK_FALSE(read_topology("v5p-4", {&file, 10, 15}, diags));
  CHECK(testing::messages(diags) ==
        "SP010 shardplan.yaml:1:11 unknown topology `v5p-4`");
}

TEST_CASE("every shipped name says what its table has") {
  for (const std::string& name : topology_examples()) {
    CHECK(understood(name).name == name);
  }
  for (const GpuMachine& machine : gpu_machines()) {
    for (const std::string_view name : machine.names) {
      const NamedTopology topology = understood(std::string(name));
      CHECK(topology.devices == machine.devices.value);
      CHECK(topology.hardware == machine.hardware);
    }
  }
  for (const PlainAccelerator& plain : plain_accelerators()) {
    for (const std::string_view name : plain.names) {
      CHECK(understood("3x" + std::string(name)).hardware == plain.hardware);
    }
  }
  for (const TpuFamily& family : tpu_families()) {
    for (const int64_t size : family.sizes) {
      for (const std::string_view name : family.names) {
        understood(std::string(name) + "-" + std::to_string(size));
      }
    }
  }
}

TEST_CASE("slices of any size and number multiply, whatever the capitals") {
  CHECK(testing::holds("slices multiply", [] {
    const auto families = tpu_families();
    const TpuFamily& family =
        families[testing::draw_in<size_t>(0, families.size())];
    int64_t size = 0;
    if (family.step == 0 || (!family.sizes.empty() && testing::draw_bool())) {
      size = family.sizes[testing::draw_in<size_t>(0, family.sizes.size())];
    } else {
      size = family.step *
             testing::draw_in<int64_t>(1, family.most.value / family.step + 1);
    }
    const auto times = testing::draw_in<int64_t>(1, 65);
    const std::string one =
        std::string(family.names.back()) + "-" + std::to_string(size);
    const NamedTopology single = understood(one);
    std::string many = std::to_string(times) + "x" + one;
    for (char& c : many) {
      if (testing::draw_bool()) {
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      }
    }
    const NamedTopology all = understood(many);
    ENSURE(all.devices == times * single.devices);
    ENSURE(all.slices == times);
    ENSURE(*all.hosts == times * *single.hosts);
    ENSURE(all.name == std::to_string(times) + "x" + single.name);
    // As many cores as the name says, or as its chips have.
    const int64_t cores = family.unit == TpuUnit::Cores
                              ? size
                              : size * family.cores_per_chip.value;
    ENSURE(single.devices * family.cores_per_chip.value ==
           cores * family.devices_per_chip.value);
  }));
}

TEST_CASE("any text is a topology or has one diagnostic") {
  CHECK(testing::holds("no text is neither", [] {
    const std::vector<std::string> parts = {
        "v5p", "tpu7x", "-",  "8",    "0",   "128", "x",        "X",
        ":",   "*",     "a3", "H100", "v7x", "\n",  "\xff\xfe", "9999999999"};
    std::string text;
    for (int64_t i = testing::draw_in<int64_t>(0, 12); i > 0; --i) {
      text += parts[testing::draw_in<size_t>(0, parts.size())];
    }
    Diagnostics diags;
    const auto topology = read_topology(text, {}, diags);
    ENSURE(diags.all().size() == (topology ? 0U : 1U));
    if (topology) {
      ENSURE(topology->devices >= 1);
      ENSURE(topology->devices <= kMaxDevices);
      ENSURE(understood(topology->name).devices == topology->devices);
    }
  }));
}

TEST_CASE("no name stands for two things") {
  std::set<std::string> names;
  const auto add = [&](std::string_view name) {
    CAPTURE(name);
    CHECK(names.insert(lower_text(name)).second);
  };
  for (const TpuFamily& family : tpu_families()) {
    for (const std::string_view name : family.names) add(name);
  }
  for (const GpuMachine& machine : gpu_machines()) {
    for (const std::string_view name : machine.names) add(name);
  }
  for (const PlainAccelerator& plain : plain_accelerators()) {
    for (const std::string_view name : plain.names) add(name);
  }
  for (const AmbiguousTopology& ambiguous : ambiguous_topologies()) {
    add(ambiguous.name);
  }
}

TEST_CASE(
    "every number has a source with an address, and every source is used") {
  std::set<std::string_view> ids;
  for (const TopologySource& source : topology_sources()) {
    CAPTURE(source.id);
    CHECK(ids.insert(source.id).second);
    CHECK(source.title.size() > 8);
    CHECK(source.url.starts_with("https://"));
    CHECK(source.read.starts_with("2026-"));
  }
  std::set<std::string_view> used;
  for (const TpuFamily& family : tpu_families()) {
    for (const std::string_view source :
         {family.unit_source, family.cores_per_chip.source,
          family.devices_per_chip.source, family.chips_per_host.source,
          family.most.source}) {
      used.insert(source);
    }
  }
  for (const GpuMachine& machine : gpu_machines()) {
    used.insert(machine.devices.source);
  }
  CHECK(used == ids);
}

// The profiles were written from other documents.
TEST_CASE("families agree with the profiles of their hardware") {
  for (const TpuFamily& family : tpu_families()) {
    CAPTURE(family.title);
    CHECK(family.cores_per_chip.value >= family.devices_per_chip.value);
    if (!family.sizes.empty()) {
      CHECK(family.sizes.back() <= family.most.value);
    }
    if (family.step > 0) {
      CHECK(family.most.value % family.step == 0);
      CHECK(family.step % family.cores_per_chip.value == 0);
    }
    if (family.hardware.empty()) continue;
    const HardwareProfile profile = profile_of(family.hardware);
    CHECK(profile.devices_per_chip.value == family.devices_per_chip.value);
    REQUIRE(profile.devices_per_host);
    CHECK(profile.devices_per_host->value ==
          family.chips_per_host.value * family.devices_per_chip.value);
  }
  for (const GpuMachine& machine : gpu_machines()) {
    CAPTURE(machine.names.front());
    CHECK(machine.devices.value >= 1);
    CHECK(profile_of(machine.hardware).devices_per_chip.value == 1);
  }
}

}  // namespace
}  // namespace shardplan
