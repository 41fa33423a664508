// SPDX-License-Identifier: Apache-2.0
// HardwareProfile: the capabilities of one kind of accelerator, each number
// with a source that anyone can check.
//
// All numbers are per device, in the framework's sense of the word: JAX shows
// one device per TPU v4 or v5p chip (its two cores work as one) and two per
// TPU7x chip. Units: bytes, bytes per second, FLOP per second, seconds.
// Arithmetic rates are dense; the doubled rates that vendors quote for sparse
// matrices are not stored. Unknown numbers are absent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardplan {

// The document that a number comes from.
struct Citation {
  std::string id;     // "datasheet", unique within a profile
  std::string title;  // title of the document
  std::string url;    // empty if the document has none
  std::string read;   // the day on which it was last read: "2026-11-21"
};

template <typename T>
struct Sourced {
  T value{};
  size_t source = 0;       // index into HardwareProfile::sources
  bool estimated = false;  // not stated by the source; derived as in `note`
  std::string note;        // how the value was derived; may be empty
};

// Input formats of the matrix units; accumulation is wider.
enum class Precision : uint8_t { F32, TF32, F16, BF16, F8, I8, F4 };
inline constexpr std::array<std::string_view, 7> kPrecisionNames = {
    "f32", "tf32", "f16", "bf16", "f8", "i8", "f4"};

enum class Topology : uint8_t { Ring, Torus, FullMesh, Switch };
inline constexpr std::array<std::string_view, 4> kTopologyNames = {
    "ring", "torus", "full-mesh", "switch"};

// The axes of a torus that wrap around. The others are lines, on which traffic
// cannot go both ways round.
enum class Wrap : uint8_t {
  Each,      // every axis whose size is a multiple of wrap_multiple
  Together,  // all axes if every size is such a multiple, else none
};
inline constexpr std::array<std::string_view, 2> kWrapNames = {"each",
                                                               "together"};

// One kind of link between devices, and its reach.
struct LinkTier {
  std::string name;  // "ici", "nvlink"
  Topology topology = Topology::Switch;
  // The rate out of one device, in one direction, over all its links of this
  // tier. A torus device has two links per axis, which share the rate evenly.
  Sourced<double> bytes_per_second;
  std::optional<Sourced<double>> latency_seconds;  // per hop
  std::optional<Sourced<int64_t>> devices;         // maximum that it connects
  // For a torus: the largest size of each axis, in chips.
  std::optional<Sourced<std::vector<int64_t>>> extents;
  Wrap wrap = Wrap::Each;
  std::optional<Sourced<int64_t>> wrap_multiple;  // absent: no axis wraps
};

// A quantity measured on a grid of points. Between points, the logarithm of the
// quantity is interpolated over the logarithms of the coordinates
// (cost/kernels.h). Invariant: `values` has one value per point, row-major.
struct MeasuredGrid {
  std::vector<std::vector<double>> axes;  // ascending, positive
  std::vector<double> values;             // positive; 0: not measured
  size_t source = 0;                      // index into HardwareProfile::sources
  std::string note;                       // what was run; may be empty
};

// Matrix products: FLOP/s by the rows of the left operand, the columns of the
// right one, and the size of the contracted dimension.
struct MeasuredProducts {
  Precision precision = Precision::BF16;
  MeasuredGrid rate;
  // Measured by --calibrate: the rate of the user's own program on the user's
  // card. It takes precedence over the profile's table, which then only covers
  // shapes outside this grid.
  bool calibrated = false;
};

// One causal attention kernel with equally many queries and keys: FLOP/s by
// sequence length and head size, counting only the products that the mask
// leaves. Backward computes five products where forward computes two.
struct MeasuredAttention {
  std::string kernel;  // "flash", "cudnn"
  bool backward = false;
  MeasuredGrid rate;
};

// A collective within one domain of the fastest link: seconds by the number of
// ranks and the bytes of the payload (comm/collective.h, least_copies).
inline constexpr std::array<std::string_view, 4> kMeasuredCollectives = {
    "all-gather", "reduce-scatter", "all-reduce", "all-to-all"};
struct MeasuredCollective {
  std::string kind;  // one of kMeasuredCollectives
  MeasuredGrid seconds;
};

// Measurements of a card, for step times (cost/). Invariant: no arithmetic rate
// exceeds flops_per_second of its precision (attention: bf16), and the largest
// point of `memory` does not exceed hbm_bytes_per_second.
struct MeasuredTables {
  std::vector<MeasuredProducts> products;
  std::vector<MeasuredAttention> attention;
  // Bytes per second, by the bytes that a kernel reads and writes in total.
  std::optional<MeasuredGrid> memory;
  std::vector<MeasuredCollective> collectives;
  // The rate of torch's own products as a fraction of the best library's, for
  // the same shape: 0.9.
  std::optional<Sourced<double>> sustained;
  // The least time from one kernel's start to the next one's, when work is
  // queued.
  std::optional<Sourced<double>> kernel_seconds;
  // The same when a Python program launches each kernel.
  std::optional<Sourced<double>> eager_launch_seconds;
  // The rate between host memory and the device, in one direction.
  std::optional<Sourced<double>> host_bytes_per_second;
  // The rate out of one device over the network, as achieved by collectives of
  // many nodes.
  std::optional<Sourced<double>> network_bytes_per_second;
};

// Cards that run the same kernels. An engine chooses kernels by generation.
enum class CardGeneration : uint8_t {
  Unknown,  // not stated by the profile
  Ampere,   // compute capability 8.0, 8.6
  Ada,
  Hopper,
  Blackwell,     // 10.0, 10.3
  BlackwellRtx,  // 12.0
  Cdna2,         // gfx90a
  Cdna3,         // gfx942
  Cdna4,         // gfx950
};
// The generations' names in profiles, in the order of the enum without Unknown.
inline constexpr std::array<std::string_view, 8> kGenerationNames = {
    "ampere",        "ada",   "hopper", "blackwell",
    "blackwell-rtx", "cdna2", "cdna3",  "cdna4"};

struct HardwareProfile {
  std::string name;   // "h100-sxm", the argument of --hardware
  std::string title;  // "NVIDIA H100 SXM5 80GB"
  std::string vendor;
  CardGeneration generation = CardGeneration::Unknown;
  std::vector<Citation> sources;
  Sourced<int64_t> devices_per_chip;
  std::optional<Sourced<int64_t>> devices_per_host;
  // Absent if it depends on the machine (cpu).
  std::optional<Sourced<int64_t>> hbm_bytes;  // nominal, any memory type
  // The bytes that a program can allocate, measured on real devices; <=
  // hbm_bytes.
  std::optional<Sourced<int64_t>> hbm_usable_bytes;
  std::optional<Sourced<double>> hbm_bytes_per_second;
  // The capacity of the largest on-chip memory that all cores share: traffic of
  // data that fits there may never reach the HBM.
  std::optional<Sourced<int64_t>> cache_bytes;
  std::vector<std::pair<Precision, Sourced<double>>> flops_per_second;
  std::vector<LinkTier> links;  // fastest, and shortest reach, first
  MeasuredTables measured;      // empty if not measured or not requested
};

}  // namespace shardplan
