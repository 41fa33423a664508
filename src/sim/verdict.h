// SPDX-License-Identifier: Apache-2.0
// Verdict: whether two runs computed the same, and how much precision sharding
// costs.
//
// The structural error compares both runs in double precision, so that any
// difference beyond rounding means that the plan is wrong. The loss of
// precision is reported but never decides the verdict.
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

// Returns max(|y_r|, median |y|) for every row r, in the 2-norm over the finite
// numbers of the row. Rows run along the last dimension.
std::vector<double> row_scales(const Tensor& y64);

// Returns the maximum over rows r of |s_r - y_r| / max(|y_r|, median |y|): 0 if
// both are all zero, infinity if only y is. NaNs and infinities that both runs
// have count as equal, so that the numbers beside them are compared. Their
// presence is a separate finding (NonFinite); without that check, 0 means
// nothing.
double structural_error(const Tensor& y64, const Tensor& s64);
// Returns the largest structural error of several results.
double structural_error(std::span<const Tensor> y64,
                        std::span<const Tensor> s64);

// Returns sqrt(sum |s - y64|^2 / sum |u - y64|^2) over all rows of all results,
// where u and s are the unsharded and the sharded run in working precision and
// 0/0 is 1. NaN if any number is not finite.
double error_amplification(std::span<const Tensor> y64,
                           std::span<const Tensor> u,
                           std::span<const Tensor> s);

// Returns sqrt(sum |x - y64|^2 / sum |y64|^2) over all rows, where 0/0 is 0.
// NaN if any number is not finite.
double relative_error(const Tensor& y64, const Tensor& x);

// Returns gamma_n = n u / (1 - n u), or nothing if n u >= 1.
std::optional<double> gamma(int64_t n, double unit_roundoff);

// Returns the error of a sharded product as a multiple of its rounding bound.
// The contraction has `length` terms over `shards` shards, is added up in
// `reduce` and stored in `storage`: max |s - y64| / (gamma_length(u) |A||B| +
// gamma_shards(u_reduce) sum|P| + u_storage |y64|), where u is that of float32
// and 0/0 is 0. `products` is |A||B|, `partials` is sum|P|. The bound also
// includes what each of these roundings may lose to underflow. Returns nothing
// if a gamma does not exist or a number is not finite.
std::optional<double> bound_ratio(const Tensor& y64, const Tensor& s,
                                  const Tensor& products,
                                  const Tensor& partials, int64_t length,
                                  int64_t shards, Storage reduce = Storage::F32,
                                  Storage storage = Storage::F32);

// Infinities and NaNs of a run. They must be found before anything is compared,
// because two of them compare as equal or not at all.
//
// The -inf of a causal mask is intended, and so is every -inf computed from it.
// Any other number that is not finite is a finding.

struct NonFinite {
  ValueId value;        // in the graph
  int64_t device = -1;  // in a sharded run; -1: the unsharded run
  int64_t count = 0;    // how many of `elements` numbers are not finite
  int64_t elements = 0;
  double worst = 0;  // the first of NaN, inf and -inf that occurs
};

// The kinds of numbers that a tensor holds.
struct NumberKinds {
  int64_t elements = 0;
  int64_t nan = 0;
  int64_t infinite = 0;  // +inf
  int64_t minus_infinite = 0;
  bool all_zero = false;  // false if there are no numbers
};
NumberKinds kinds_of(const Tensor& tensor);

// Returns the numbers of a value that are not finite, if any. With `masked`,
// -inf is intended.
std::optional<NonFinite> non_finite_of(const NumberKinds& kinds, ValueId value,
                                       int64_t device, bool masked);

// Returns whether the -inf in a node's result come from a mask. `masked` holds
// the answers for earlier values.
bool passes_mask(const GraphNode& node, const PerValue<bool>& masked);

// Faults that the values of a run could not expose. If dropping or doubling a
// sum, or exchanging shards, changes nothing, then equal results prove nothing
// about the plan.
//
// A term is visible if leaving it out changes some row by more than kMismatch.
// All of this is computed while the runs advance, from the unsharded run and
// from what devices hold in double precision.

struct Unseen {
  enum class Kind : uint8_t {
    ZeroInput,   // an input or a parameter is all zero: its uses give 0, or add
                 // nothing
    ZeroResult,  // an operation on numbers other than 0 gives only zeros, or an
                 // output or a probe is zero
    LostTerm,    // adding `operand` changes nothing
    LostOperand,  // doubling `operand` changes nothing: the operation saturates
    PastBound,    // a product is off by `ratio` times its rounding bound, and
                  // nothing else shows it
    LostParts,    // one part of a reduction over `axes` could pass for the
                  // whole
    EqualShards,  // devices along `axes` hold equal shards and could hold each
                  // other's
    OneToken,     // attention over one token gives its value, whatever the
                  // scores are
    NotAsHooks,   // hooks run the plan, but their collectives were not run
    NoNumbers,    // there is nothing to compare
  };
  Kind kind = Kind::NoNumbers;
  ValueId value;         // in the graph
  ValueId operand = {};  // LostTerm, LostOperand
  AxisNames axes = {};
  double ratio = 0;  // PastBound
};

// Returns what the values of node `n` of the unsharded run could not expose.
// `whole` holds its operands, then its result; `kinds` describes the same
// tensors, all of them finite.
std::optional<Unseen> unseen_in_node(const Graph& graph, NodeId n,
                                     const std::vector<Tensor>& whole,
                                     const std::vector<NumberKinds>& kinds);

// Returns whether a node reads only tokens of experts that received none.
// `used` lists, for every value that is sent to experts, which experts received
// a token.
bool reads_unused_experts(const GraphNode& node,
                          const std::map<ValueId, std::vector<bool>>& used);

// Return what the result of an instruction on the devices could not expose.
// unseen_parts() examines what is reduced over devices, or should be (`whole`
// is the value in the unsharded run). unseen_shards() examines sharded inputs
// and parameters.
std::optional<Unseen> unseen_parts(const Program& program,
                                   const Instruction& at,
                                   const DeviceTensors& made,
                                   const Tensor& whole);
std::optional<Unseen> unseen_shards(const Program& program,
                                    const Instruction& at,
                                    const DeviceTensors& made);

}  // namespace shardplan
