// SPDX-License-Identifier: Apache-2.0
// Topologies: devices by the names that clouds and frameworks have for them.
//
// A TPU accelerator type (`v5p-128`), a GPU machine (`a3-highgpu-8g`) or a
// plain accelerator (`8xH100`). A number in front multiplies: `2xv5e-256` is
// two slices, `4xa3-highgpu-8g` four machines. A device is what the framework
// shows as one (core/hardware.h). Capitals do not matter.
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

// The tables, in io/topology_table.cc.

// Where a number was read, and the day of it: "2026-11-22".
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

// What the number behind the name of a TPU family counts.
enum class TpuUnit : uint8_t { Cores, Chips };

// `v5p-128`: one of the names, and how many units a slice has.
struct TpuFamily {
  std::vector<std::string_view> names;  // the usual one first
  std::string_view title;
  TpuUnit unit = TpuUnit::Chips;
  std::string_view unit_source;
  TopologyNumber cores_per_chip;
  TopologyNumber devices_per_chip;
  TopologyNumber chips_per_host;
  // Units that a slice may have: one of `sizes`, or a multiple of `step` up to
  // `most`; `step` is 0 where `sizes` are all.
  std::vector<int64_t> sizes;
  int64_t step = 0;
  TopologyNumber most;
  std::string_view hardware;  // a shipped profile; empty where there is none
  int64_t example = 0;        // a size that people know
};
std::span<const TpuFamily> tpu_families();

// A machine of a cloud, by its own name.
struct GpuMachine {
  std::vector<std::string_view> names;
  std::string_view title;
  TopologyNumber devices;
  std::string_view hardware;
};
std::span<const GpuMachine> gpu_machines();

// Only with a number in front.
struct PlainAccelerator {
  std::vector<std::string_view> names;
  std::string_view hardware;
};
std::span<const PlainAccelerator> plain_accelerators();
// The profile of the accelerator with this name, in any case: "h100-sxm" for
// "H100"; empty: there is none.
std::string_view hardware_called(std::string_view name);

// A name with two meanings, which is refused.
struct AmbiguousTopology {
  std::string_view name;  // of a family, or of an accelerator
  std::string_view why;
  std::string_view help;
};
std::span<const AmbiguousTopology> ambiguous_topologies();

// What a name says.
struct NamedTopology {
  std::string name;  // as the tables spell it: "2xv5e-256"
  int64_t devices = 1;
  std::optional<int64_t> slices;  // of TPUs; how GPUs are joined is not said
  std::optional<int64_t> hosts;   // unknown for plain accelerators
  std::string hardware;           // a shipped profile; may be empty
  // "512 devices in 2 slices (v5e counts chips)"
  std::string meaning;
  // What a program can allocate on one, where a profile states it.
  std::optional<int64_t> device_bytes;
  // The numbers that this follows from, with what they are of.
  std::vector<std::pair<std::string, TopologyNumber>> numbers;
};

// Empty, with the reason reported (SP010 at `where`).
std::optional<NamedTopology> read_topology(std::string_view text, Span where,
                                           Diagnostics& diags);

// "v5p-128: 64 devices (v5p counts cores, 2 a chip), 95.7 GiB each"
std::string topology_text(const NamedTopology& topology);

// A name of each family, all machines, eight of each plain accelerator.
std::vector<std::string> topology_examples();

// "8, 16 or multiples of 64 up to 2,048"
std::string sizes_text(const TpuFamily& family);

}  // namespace shardplan
