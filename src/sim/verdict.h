// SPDX-License-Identifier: Apache-2.0
// Whether two runs computed the same, and how much precision sharding costs.
//
// Structural: both runs in double precision, so that what remains of their
// difference is rounding unless the plan is wrong. Precision is reported and
// never the verdict.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "graph/elementwise.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

inline constexpr double kMismatch = 0x1p-30;
inline constexpr double kLargeAmplification = 4;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// max(|y_r|, median |y|) of every row r, in the 2-norm over what is finite;
// rows run along the last dimension.
std::vector<double> row_scales(const Tensor& y64);

// max over rows r of |s_r - y_r| / max(|y_r|, median |y|). 0 when both are all
// zero, infinite when y alone is. NaNs and infinities are equal where both runs
// have the same, so that the numbers beside them are compared: that they are
// there is another finding (sim/verdict.h), without which 0 means nothing.
double structural_error(const Tensor& y64, const Tensor& s64);
// The largest over several results.
double structural_error(std::span<const Tensor> y64,
                        std::span<const Tensor> s64);

// sqrt(sum |s - y64|^2 / sum |u - y64|^2) over all rows of all results, u and s
// the unsharded and the sharded run in the working precision; 0/0 is 1. NaN
// where one of the numbers is not finite.
double error_amplification(std::span<const Tensor> y64,
                           std::span<const Tensor> u,
                           std::span<const Tensor> s);

// sqrt(sum |x - y64|^2 / sum |y64|^2) over all rows, 0/0 being 0. NaN where one
// of the numbers is not finite.
double relative_error(const Tensor& y64, const Tensor& x);

// gamma_n = n u / (1 - n u); empty where n u >= 1.
std::optional<double> gamma(int64_t n, double unit_roundoff);

// For a product of contraction length `length` over `shards` shards, added up
// in `reduce` and kept in `storage`: max |s - y64| / (gamma_length(u) |A||B| +
// gamma_shards(u_reduce) sum|P| + u_storage |y64|), u that of float32, 0/0
// being 0; empty where a gamma is, or a number is not finite. What each of
// these roundings may lose to underflow is added to the bound. `products` is
// |A||B|, `partials` sum|P|.
std::optional<double> bound_ratio(const Tensor& y64, const Tensor& s,
                                  const Tensor& products,
                                  const Tensor& partials, int64_t length,
                                  int64_t shards, Storage reduce = Storage::F32,
                                  Storage storage = Storage::F32);

// Infinities and NaNs of a run: two of them compare as equal, or as nothing, so
// that they have to be found before anything is compared.
//
// The -inf of a causal mask is meant, and so is what is computed of it as long
// as it stays -inf; everything else that is not finite is found.

struct NonFinite {
  ValueId value;        // of the graph
  int64_t device = -1;  // of a sharded run; -1: the unsharded one
  int64_t count = 0;    // of `elements` numbers of the value, or of the part
  int64_t elements = 0;
  double worst = 0;  // NaN, inf or -inf, the first of these that there is
};

// What kinds of numbers a tensor holds.
struct NumberKinds {
  int64_t elements = 0;
  int64_t nan = 0;
  int64_t infinite = 0;  // +inf
  int64_t minus_infinite = 0;
  bool all_zero = false;  // and there are some
};
NumberKinds kinds_of(const Tensor& tensor);

// The numbers of a value that are not finite and not meant to be.
std::optional<NonFinite> non_finite_of(const NumberKinds& kinds, ValueId value,
                                       int64_t device, bool masked);

// Whether the -inf in a node's result are a mask's; `masked`: the same of
// values before.
bool passes_mask(const GraphNode& node, const PerValue<bool>& masked);

// Faults that the values of a run could not show: where numbers are such that a
// sum may be dropped or taken twice, or shards exchanged, and everything stays
// as it is, equal results say nothing about the plan.
//
// A term is seen where leaving it out changes some row by more than kMismatch.
// All of it is computed from the unsharded run and from what devices hold in
// double precision, while the runs advance.

struct Unseen {
  enum class Kind : uint8_t {
    ZeroInput,   // an input or a parameter is all zero: its uses give 0, or add
                 // nothing
    ZeroResult,  // an operation on numbers that are not gives nothing but
                 // zeros, or an output or a probe is zero
    LostTerm,    // `operand` is added, and nothing changes
    LostOperand,  // `operand` is twice as large, and nothing changes: it
                  // saturates
    PastBound,    // a product is off by more than its rounding bound, `ratio`
                  // times, and nothing else shows it
    LostParts,    // of a sum over `axes`, no two devices' parts are seen
    AlikeShards,  // devices along `axes` hold the same, and could have each
                  // other's
    OneToken,     // attention among one token gives its value, whatever the
                  // scores are
    NotAsHooks,   // the plan is one of hooks, whose collectives were not run
    NoNumbers,    // there is nothing to compare
  };
  Kind kind = Kind::NoNumbers;
  ValueId value;         // of the graph
  ValueId operand = {};  // LostTerm, LostOperand
  AxisNames axes = {};
  double ratio = 0;  // PastBound
};

// Of node `n` of the unsharded run. `whole`: its operands, then its result;
// `kinds` alike, all finite.
std::optional<Unseen> unseen_in_node(const Graph& graph, NodeId n,
                                     const std::vector<Tensor>& whole,
                                     const std::vector<NumberKinds>& kinds);

// Whether a node takes the tokens of experts that got none. `used`: by value
// that is sent to experts, which of them got one.
bool takes_unsent(const GraphNode& node,
                  const std::map<ValueId, std::vector<bool>>& used);

// Of what an instruction made on the devices: of what is reduced over devices,
// or ought to be (`whole`: the value in the unsharded run); of an input or a
// parameter that is cut.
std::optional<Unseen> unseen_parts(const Program& program,
                                   const Instruction& at,
                                   const DeviceTensors& made,
                                   const Tensor& whole);
std::optional<Unseen> unseen_shards(const Program& program,
                                    const Instruction& at,
                                    const DeviceTensors& made);

}  // namespace shardplan
