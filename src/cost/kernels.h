// SPDX-License-Identifier: Apache-2.0
// Kernels: how long one product, one attention or one pass over memory takes on
// a device.
//
// Each answer is three numbers. `lower`: no run is faster; the most that was
// ever reached of the unit that limits it. `estimate`: what is measured on this
// card, between its points interpolated. `upper`: the slow end of what was
// measured. Where nothing was measured, the estimate is a share of the peak
// that other cards reach, and the ends are wider. A kernel's start on a queue
// that is full is part of its estimate; what a host adds where it launches too
// slowly is not. Units: seconds, bytes, FLOP.
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
  // A sum has the seconds of its estimate by basis; else all are 0.
  std::array<double, 4> by_basis = {};
};
// One after the other. The basis of a sum is the weakest that more than a tenth
// of it has.
void add(PricedTime& sum, const PricedTime& part, double times = 1);

// `groups` products of the same shape in one kernel: [m, k] by [k, n].
struct ProductShape {
  double groups = 1;
  double m = 1;
  double n = 1;
  double k = 1;

  // The left matrix is read by columns, as in the product that gives the
  // gradient of a weight.
  bool turned = false;
  // Bits in which the right matrix stores a number, scales included; 0: those
  // of the precision.
  double right_bits = 0;

  double flops() const { return 2 * groups * m * n * k; }
};

struct AttentionShape {
  double batch = 1;  // sequences
  double heads = 1;  // of queries
  double queries = 1;
  double keys = 1;
  double head_dim = 1;  // of queries and keys
  double value_dim = 1;
  bool causal = false;
  double kv_heads = 0;  // 0: as many as `heads`
  double window = 0;    // keys that a query reaches back at most; 0: all
};

// FLOP/s that no run exceeds, as the profile states them (no table of it has
// more); empty where it states none. F16 and BF16 stand for each other where
// one is missing.
std::optional<double> peak_rate(const HardwareProfile& card,
                                Precision precision);
// The same in bytes per second of the device's memory.
std::optional<double> peak_memory_rate(const HardwareProfile& card);
// No run reads so many different bytes faster, once each: all but what a cache
// may still hold from before must come from memory. 0 where no rate is known.
double least_read_seconds(const HardwareProfile& card, double bytes);

// From one kernel's start to the next one's, at least, where work is queued:
// measured, or what other cards need.
PricedTime kernel_start(const HardwareProfile& card);
// The same where a program in Python starts each of them.
PricedTime eager_launch(const HardwareProfile& card);

// Empty where the profile states no rate in that precision. `lower` counts
// arithmetic alone: what a product reads may lie in a cache
// (least_read_seconds is for the weights of a step together).
std::optional<PricedTime> product_time(const HardwareProfile& card,
                                       Precision precision,
                                       const ProductShape& shape);
// By the named kernel ("flash"), or by the best that was measured. Backward
// makes five products for two; `lower` counts four, since a kernel that keeps
// the scores makes no more.
std::optional<PricedTime> attention_time(const HardwareProfile& card,
                                         Precision precision,
                                         const AttentionShape& shape,
                                         bool backward,
                                         std::string_view kernel);
// Devices that share the work of one: `any` of them cut a kernel along whatever
// dimension suits it, `tokens` of them cut its tokens.
struct SharedWork {
  int64_t any = 1;
  int64_t tokens = 1;
  // Only collectives along these axes are waited for; empty: all are.
  AxisNames waits = {};

  std::strong_ordering operator<=>(const SharedWork&) const = default;
  double parts() const {
    return static_cast<double>(any) * static_cast<double>(tokens);
  }
};
// What each of them takes, cut as makes it fastest by the estimate.
std::optional<PricedTime> product_time(const HardwareProfile& card,
                                       Precision precision,
                                       const ProductShape& shape,
                                       const SharedWork& shared);
std::optional<PricedTime> attention_time(const HardwareProfile& card,
                                         Precision precision,
                                         const AttentionShape& shape,
                                         bool backward, std::string_view kernel,
                                         const SharedWork& shared);
// A kernel that reads and writes so many bytes in all, and computes little.
std::optional<PricedTime> memory_time(const HardwareProfile& card,
                                      double bytes);
// The optimizer's step on the cores of one host, which reads and writes so many
// bytes, by DeepSpeed's CPU-Adam or by PyTorch's loop: no profile says how fast
// a host is.
PricedTime host_update_time(double bytes, bool is_deepspeed);

// Copies between device and host.
std::optional<PricedTime> host_copy_time(const HardwareProfile& card,
                                         double bytes);

// The value at a point; beyond the grid, of its nearest point. `basis` becomes
// weaker where it is not a point of the grid. Empty where nobody measured what
// is around it.
std::optional<double> at_point(const MeasuredGrid& grid,
                               std::span<const double> point, Basis& basis);

}  // namespace shardplan
