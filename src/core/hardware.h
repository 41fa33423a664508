// SPDX-License-Identifier: Apache-2.0
// HardwareProfile: what one kind of accelerator has, each number with the
// place where somebody can check it.
//
// All numbers are per device, and a device is what the framework calls one:
// JAX shows one device per TPU v4 or v5p chip (its two cores work as one) and
// two per TPU7x chip. Units: bytes, bytes per second, FLOP per second,
// seconds. Arithmetic rates are dense; the doubled rates for sparse matrices
// that vendors print are not stored. What is not known is absent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardplan {

// Where a number was read.
struct Citation {
  std::string id;     // "datasheet", unique within a profile
  std::string title;  // of the document
  std::string url;    // empty for a document that has none
  std::string read;   // the day on which somebody read it: "2026-11-21"
};

template <typename T>
struct Sourced {
  T value{};
  size_t source = 0;       // index into HardwareProfile::sources
  bool estimated = false;  // the source does not state it; `note` says how
  std::string note;        // how it follows from the source; may be empty
};

// What matrix units compute with; accumulation is wider.
enum class Precision : uint8_t { F32, TF32, F16, BF16, F8, I8, F4 };
inline constexpr std::array<std::string_view, 7> kPrecisionNames = {
    "f32", "tf32", "f16", "bf16", "f8", "i8", "f4"};

enum class Topology : uint8_t { Ring, Torus, FullMesh, Switch };
inline constexpr std::array<std::string_view, 4> kTopologyNames = {
    "ring", "torus", "full-mesh", "switch"};

// Which axes of a torus close to a ring; the others are lines, where traffic
// cannot go both ways round.
enum class Wrap : uint8_t {
  Each,      // an axis whose size is a multiple of wrap_multiple
  Together,  // all axes when every size is such a multiple, else none
};
inline constexpr std::array<std::string_view, 2> kWrapNames = {"each",
                                                               "together"};

// One kind of link between devices, and how far it reaches.
struct LinkTier {
  std::string name;  // "ici", "nvlink"
  Topology topology = Topology::Switch;
  // Out of one device, in one direction, over all its links of this tier. A
  // torus device has two links per axis, which share this evenly.
  Sourced<double> bytes_per_second;
  std::optional<Sourced<double>> latency_seconds;  // per hop
  std::optional<Sourced<int64_t>> devices;         // most that it connects
  // Torus: the largest size of each axis, in chips.
  std::optional<Sourced<std::vector<int64_t>>> extents;
  Wrap wrap = Wrap::Each;
  std::optional<Sourced<int64_t>> wrap_multiple;  // absent: no axis closes
};

// A quantity that was measured on a grid of points. Between points it is
// interpolated in the logarithms of the coordinates and of the quantity
// (cost/kernels.h). Invariant: `values` has one value per point, row-major.
struct MeasuredGrid {
  std::vector<std::vector<double>> axes;  // ascending, positive
  std::vector<double> values;             // positive; 0: nobody measured it
  size_t source = 0;                      // into HardwareProfile::sources
  std::string note;                       // what was run; may be empty
};

// Products of matrices: FLOP/s by rows of the left one, columns of the right
// one, and what is summed over.
struct MeasuredProducts {
  Precision precision = Precision::BF16;
  MeasuredGrid rate;
  // By --calibrate: what the user's own program reaches on the user's card. It
  // stands before the profile's table, which is for shapes beyond its grid.
  bool calibrated = false;
};

// One kernel of attention over equally long queries and keys, causal: FLOP/s of
// the products that are not hidden, by length and size of a head. Backward
// makes five products where forward makes two.
struct MeasuredAttention {
  std::string kernel;  // "flash", "cudnn"
  bool backward = false;
  MeasuredGrid rate;
};

// A collective within one domain of the fastest link: seconds by ranks and by
// bytes of the payload (comm/collective.h, least_copies).
inline constexpr std::array<std::string_view, 4> kMeasuredCollectives = {
    "all-gather", "reduce-scatter", "all-reduce", "all-to-all"};
struct MeasuredCollective {
  std::string kind;  // one of them, as comm/collective.h names it
  MeasuredGrid seconds;
};

// What was measured on a card, for the time of a step (cost/). Invariant: no
// rate of arithmetic is above flops_per_second of its precision (attention:
// bf16), and the largest point of `memory` not above hbm_bytes_per_second.
struct MeasuredTables {
  std::vector<MeasuredProducts> products;
  std::vector<MeasuredAttention> attention;
  // Bytes per second by bytes that a kernel reads and writes, together.
  std::optional<MeasuredGrid> memory;
  std::vector<MeasuredCollective> collectives;
  // The rate of torch's own products as a share of the best library's, for the
  // same shape: 0.9.
  std::optional<Sourced<double>> sustained;
  // From one kernel's start to the next one's, at least, where work is queued.
  std::optional<Sourced<double>> kernel_seconds;
  // The same where a program in Python starts each of them.
  std::optional<Sourced<double>> eager_launch_seconds;
  // Between host memory and the device, in one direction.
  std::optional<Sourced<double>> host_bytes_per_second;
  // Out of one device over the network, as collectives of many nodes reach it.
  std::optional<Sourced<double>> network_bytes_per_second;
};

// Cards that run the same kernels: an engine chooses them by it.
enum class CardGeneration : uint8_t {
  Unknown,  // nobody says it
  Ampere,   // compute capability 8.0, 8.6
  Ada,
  Hopper,
  Blackwell,     // 10.0, 10.3
  BlackwellRtx,  // 12.0
  Cdna2,         // gfx90a
  Cdna3,         // gfx942
  Cdna4,         // gfx950
};
// The names that profiles use, in the same order but for Unknown.
inline constexpr std::array<std::string_view, 8> kGenerationNames = {
    "ampere",        "ada",   "hopper", "blackwell",
    "blackwell-rtx", "cdna2", "cdna3",  "cdna4"};

struct HardwareProfile {
  std::string name;   // "h100-sxm", as --hardware takes it
  std::string title;  // "NVIDIA H100 SXM5 80GB"
  std::string vendor;
  CardGeneration generation = CardGeneration::Unknown;
  std::vector<Citation> sources;
  Sourced<int64_t> devices_per_chip;
  std::optional<Sourced<int64_t>> devices_per_host;
  // Absent where it depends on the machine (cpu).
  std::optional<Sourced<int64_t>> hbm_bytes;  // as sold, whatever its kind
  // What a program can allocate, as seen on real devices; <= hbm_bytes.
  std::optional<Sourced<int64_t>> hbm_usable_bytes;
  std::optional<Sourced<double>> hbm_bytes_per_second;
  // What the largest on-chip memory that all cores share holds: traffic of
  // data that fits may never reach the HBM.
  std::optional<Sourced<int64_t>> cache_bytes;
  std::vector<std::pair<Precision, Sourced<double>>> flops_per_second;
  std::vector<LinkTier> links;  // fastest first, then ever farther
  MeasuredTables measured;      // empty where nothing was, or nobody asked
};

}  // namespace shardplan
