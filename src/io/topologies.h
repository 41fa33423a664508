// SPDX-License-Identifier: Apache-2.0
// Topologies: the names that clouds and frameworks have for sets of devices.
//
// A topology is a TPU accelerator type (`v5p-128`), a GPU machine
// (`a3-highgpu-8g`) or a plain accelerator (`8xH100`). A leading number
// multiplies: `2xv5e-256` is two slices, `4xa3-highgpu-8g` is four machines. A
// device is what the framework shows as one (core/hardware.h). Case does not
// matter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

// The tables are in io/topology_table.cc.

// A document that numbers were read from, and the day: "2026-11-22".
struct TopologySource {
  std::string_view id;
  std::string_view title;
  std::string_view url;
  std::string_view read;
};
std::span<const TopologySource> topology_sources();

struct TopologyNumber {
  int64_t value = 0;
  std::string_view source;  // the id of a TopologySource
};

// The unit that the number after the name of a TPU family counts.
enum class TpuUnit : uint8_t { Cores, Chips };

// A TPU family: its names (`v5p` of `v5p-128`) and the legal sizes of a slice.
struct TpuFamily {
  std::vector<std::string_view> names;  // the usual one first
  std::string_view title;
  TpuUnit unit = TpuUnit::Chips;
  std::string_view unit_source;
  TopologyNumber cores_per_chip;
  TopologyNumber devices_per_chip;
  TopologyNumber chips_per_host;
  // The units that a slice may have: one of `sizes`, or a multiple of `step` up
  // to `most`. `step` is 0 if `sizes` lists them all.
  std::vector<int64_t> sizes;
  int64_t step = 0;
  TopologyNumber most;
  std::string_view hardware;  // a shipped profile, or empty
  int64_t example = 0;        // a well-known size
};
std::span<const TpuFamily> tpu_families();

// A cloud machine, under the cloud's own name for it.
struct GpuMachine {
  std::vector<std::string_view> names;
  std::string_view title;
  TopologyNumber devices;
  std::string_view hardware;
};
std::span<const GpuMachine> gpu_machines();

// An accelerator that is a topology only with a leading number: `8xH100`.
struct PlainAccelerator {
  std::vector<std::string_view> names;
  std::string_view hardware;
};
std::span<const PlainAccelerator> plain_accelerators();
// Returns the profile of the accelerator with this name, in any case:
// "h100-sxm" for "H100". Returns "" if there is none.
std::string_view profile_of_accelerator(std::string_view name);

// A name with two meanings, which is refused.
struct AmbiguousTopology {
  std::string_view name;  // a family or an accelerator
  std::string_view why;
  std::string_view help;
};
std::span<const AmbiguousTopology> ambiguous_topologies();

// The meaning of a topology's name.
struct NamedTopology {
  std::string name;  // spelled as in the tables: "2xv5e-256"
  int64_t devices = 1;
  std::optional<int64_t> slices;  // TPUs only; GPU names do not show how
                                  // machines are connected
  std::optional<int64_t> hosts;   // unknown for plain accelerators
  std::string hardware;           // a shipped profile; may be empty
  // "512 devices in 2 slices (v5e counts chips)"
  std::string meaning;
  // Bytes that a program can allocate on one device, if a profile states them.
  std::optional<int64_t> device_bytes;
  // The documented numbers that `devices` and `hosts` follow from, by name.
  std::vector<std::pair<std::string, TopologyNumber>> numbers;
};

// Returns nullopt, with the reason reported (SP010 at `where`), on failure.
std::optional<NamedTopology> read_topology(std::string_view text, Span where,
                                           Diagnostics& diags);

// "v5p-128: 64 devices (v5p counts cores, 2 a chip), 95.7 GiB each"
std::string topology_text(const NamedTopology& topology);

// Returns one name of each TPU family, all machines, and eight of each plain
// accelerator.
std::vector<std::string> topology_examples();

// "8, 16 or multiples of 64 up to 2,048"
std::string sizes_text(const TpuFamily& family);

}  // namespace shardplan
