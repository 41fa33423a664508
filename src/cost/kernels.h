// SPDX-License-Identifier: Apache-2.0
// Kernels: how long one product, one attention or one pass over memory takes on
// a device.
//
// Each answer is three numbers. `lower`: no run is faster, since it assumes the
// highest rate ever reached by the unit that limits it. `estimate`: what was
// measured on this card, interpolated between points. `upper`: the slow end of
// what was measured. If nothing was measured, the estimate is a share of the
// peak that other cards reach, and the range is wider. A kernel's start on a
// full queue is part of its estimate; what a host adds by launching too slowly
// is not. Units: seconds, bytes, FLOP.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/axis_name.h"
#include "core/hardware.h"

namespace shardplan {

// The evidence for a number, the weakest last.
enum class Basis : uint8_t { Measured, Interpolated, Extrapolated, Assumed };
std::string_view basis_name(Basis basis);  // "measured"

// Invariant: 0 <= lower <= estimate <= upper.
struct Seconds {
  double lower = 0;
  double estimate = 0;
  double upper = 0;

  Seconds& operator+=(const Seconds& other);
  bool operator==(const Seconds&) const = default;
};
Seconds operator+(Seconds a, const Seconds& b);
Seconds operator*(Seconds a, double times);  // REQUIRES: times >= 0

struct PricedTime {
  Seconds seconds;
  Basis basis = Basis::Measured;
  // An index into the profile's sources; none for a share of the peak.
  std::optional<size_t> source = {};
  // For a sum, the seconds of its estimate by basis; otherwise all are 0.
  std::array<double, 4> by_basis = {};
};
// Adds `part`, `times` times. The basis of a sum is the weakest that more than
// a tenth of it has.
void add(PricedTime& sum, const PricedTime& part, double times = 1);

// `groups` products of the same shape in one kernel: [m, k] by [k, n].
struct ProductShape {
  double groups = 1;
  double m = 1;
  double n = 1;
  double k = 1;

  // The left matrix is read by columns, as in the product that gives a weight's
  // gradient.
  bool turned = false;
  // Bits in which the right matrix stores a number, scales included; 0: those
  // of the precision.
  double right_bits = 0;

  double flops() const { return 2 * groups * m * n * k; }
};

struct AttentionShape {
  double batch = 1;  // sequences
  double heads = 1;  // query heads
  double queries = 1;
  double keys = 1;
  double head_dim = 1;  // for queries and keys
  double value_dim = 1;
  bool causal = false;
  double kv_heads = 0;  // 0: as many as `heads`
  double window = 0;    // the most keys that a query sees; 0: all
};

// Returns the FLOP/s that no run exceeds, as the profile states them (none of
// its tables has more); nothing if it states none. F16 and BF16 stand for each
// other if one is missing.
std::optional<double> peak_rate(const HardwareProfile& card,
                                Precision precision);
// Returns the same in bytes per second of the device's memory.
std::optional<double> peak_memory_rate(const HardwareProfile& card);
// Returns the least seconds in which a run reads this many different bytes once
// each: all except what a cache may still hold must come from memory. 0 if no
// rate is known.
double least_read_seconds(const HardwareProfile& card, double bytes);

// Returns the least time from one kernel's start to the next one's, while work
// is queued: measured, or what other cards need.
PricedTime kernel_start(const HardwareProfile& card);
// Returns the same if a Python program starts each kernel.
PricedTime eager_launch(const HardwareProfile& card);

// Devices that share the work of one: `any` of them divide a kernel along
// whatever dimension suits it, `tokens` of them divide its tokens.
struct SharedWork {
  int64_t any = 1;
  int64_t tokens = 1;
  // Devices wait only for collectives along these axes; empty: for all.
  AxisNames waits = {};

  std::strong_ordering operator<=>(const SharedWork&) const = default;
  double parts() const {
    return static_cast<double>(any) * static_cast<double>(tokens);
  }
};

// Returns the time of a product, or nothing if the profile states no rate in
// that precision. If devices share it, returns the time of each of them, with
// the product divided in the way that is fastest by the estimate; the same for
// attention below. `lower` counts arithmetic alone, since what a product reads
// may be in a cache (least_read_seconds() is for all weights of a step
// together).
std::optional<PricedTime> product_time(const HardwareProfile& card,
                                       Precision precision,
                                       const ProductShape& shape,
                                       const SharedWork& shared = {});
// Returns the time of attention with the named kernel ("flash"), or with the
// best that was measured. Backward computes five products where forward
// computes two; `lower` counts four, since a kernel that stores the scores
// computes no more.
std::optional<PricedTime> attention_time(const HardwareProfile& card,
                                         Precision precision,
                                         const AttentionShape& shape,
                                         bool backward, std::string_view kernel,
                                         const SharedWork& shared = {});
// Returns the time of a kernel that reads and writes this many bytes in total,
// and computes little.
std::optional<PricedTime> memory_time(const HardwareProfile& card,
                                      double bytes);
// Returns the time of the optimizer's step on the cores of one host, which
// reads and writes this many bytes, by DeepSpeed's CPU-Adam or by PyTorch's
// loop. It does not depend on the profile: none says how fast a host is.
PricedTime host_update_time(double bytes, bool is_deepspeed);

// Returns the time of a copy between device and host.
std::optional<PricedTime> host_copy_time(const HardwareProfile& card,
                                         double bytes);

// Returns the value at a point, or beyond the grid that of its nearest point.
// `basis` becomes weaker if the point is not on the grid. Returns nothing if
// nobody measured what is around it.
std::optional<double> at_point(const MeasuredGrid& grid,
                               std::span<const double> point, Basis& basis);

}  // namespace shardplan
