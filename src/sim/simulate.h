// SPDX-License-Identifier: Apache-2.0
// Simulation: proves a plan by running its program on simulated devices,
// running the graph unsharded, and comparing the results.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/elementwise.h"
#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/transfers.h"
#include "sim/values.h"
#include "sim/verdict.h"
#include "spmd/hooked.h"
#include "spmd/partition.h"
#include "spmd/program.h"

namespace shardplan {

struct SimulateOptions {
  ValueSource values = ValueSource::Random;
  // Apply to the runs in working precision: `storage` is the type to which
  // every stored value is rounded, `reduce` the type to which partial sums of
  // collectives are rounded. Runs in double precision and in the field round
  // nothing.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  int64_t seed = 0;
  PartitionOptions partition;
  int threads = 1;
  // Receives a description of each step of the work.
  std::function<void(const char*)> progress;
  // If set, replaces `progress` for steps whose completed share is known:
  // `done` is the share completed before the step, from 0 to 1: "running",
  // "running (node 2 of 9)", 0.1.
  std::function<void(const char* work, const char* text, double done)> step =
      {};
  // Called before every node; returning true ends the simulation early.
  std::function<bool()> stop = {};
};

// The index that a device chose and the one that the unsharded run chose.
struct OtherChoice {
  int64_t own = 0;
  int64_t recorded = 0;
};

// Why a value is wrong, if a reduction over devices explains it
// (sim/reduction_fault.h).
enum class ReducedBy : uint8_t { Sum, Mean, Max };
struct ReductionFault {
  enum class Problem : uint8_t {
    Missing,     // none over `axes`, where devices hold parts
    Extra,       // over `axes`, where every device holds the whole
    WrongAxes,   // over `done_axes`, but the parts are along `axes`
    WrongKind,   // by `done_kind`; it should be `kind` over `axes`
    AddedByAll,  // `operand` is whole, but added to every part of the sum
  };
  Problem problem = Problem::Missing;
  ReducedBy kind = ReducedBy::Sum;  // the right one; for Extra, the one done
  AxisNames axes;
  int64_t times = 1;  // devices along the axes
  ReducedBy done_kind = ReducedBy::Sum;
  AxisNames done_axes = {};
  ValueId operand = {};
};

// The first place where the sharded and the unsharded run differ, in program
// order.
struct Divergence {
  ValueId value;  // in the graph
  int64_t device = 0;
  double error = 0;  // structural error of that device's part; 1 in the field;
                     // for a choice, the gap of the scores (sim/locate.h)
  // Found in the field by running one operation alone on fresh inputs, not by
  // running the whole graph.
  bool isolated = false;
  std::optional<OtherChoice> choice = {};
  RegisterId number = {};  // the register that differs
  std::optional<ReductionFault> fault = {};
};

// Errors of a value relative to double precision, over all of its rows:
// sqrt(sum |x - y64|^2 / sum |y64|^2), where 0/0 is 0.
struct ProbeError {
  ValueId value;         // one of the graph's probes
  double unsharded = 0;  // unsharded run in working precision
  double sharded = 0;    // sharded run in working precision
};

struct MovedBytes {
  CollectivePrice priced;
  int64_t moved = 0;             // over all devices
  int64_t bytes_per_device = 0;  // sent by the busiest device
};

// Throws InternalError (SP900) unless the bytes moved equal the bytes priced. A
// difference is a bug in shardplan that neither number shows alone.
void check_price(const MovedBytes& row);

// Experts that received no token, so that the run did not see what they
// compute.
struct UnusedExperts {
  ValueId value;  // in the graph: the tokens sent to experts
  int64_t unused = 0;
  int64_t experts = 0;
};

struct Simulation {
  bool stopped = false;  // ended early; no other field is filled in
  std::optional<Divergence> mismatch;
  // The walk over a plan that hooks run; a fault in it makes the verdict
  // Mismatch. None for a compiler's program.
  std::optional<HookedWalk> hooked;
  // Why the run may be inconclusive, in program order: the first value of the
  // unsharded run in double precision that is not finite, and faults that the
  // values could not have exposed. Both are empty in the field.
  std::optional<NonFinite> non_finite;
  std::vector<Unseen> unseen;
  // The first value that is not finite in working precision although it is
  // finite in double precision, in the unsharded and in the sharded run.
  std::optional<NonFinite> overflow;
  std::optional<NonFinite> sharded_overflow;
  double structural_error = 0;
  double error_amplification = 1;
  std::optional<double> bound_ratio;  // largest over all products
  int64_t decision_flips = 0;         // choices that the sharded run alone
                                      // would have made differently
  std::vector<ProbeError> probes;     // in the order of the graph's probes
  int64_t routed = 0;                 // choices of experts that tokens made
  int64_t dropped = 0;                // how many of these found no room
  std::vector<UnusedExperts> unused_experts;
  // The whole outputs in working precision and in double precision; empty in
  // the field.
  std::vector<Tensor> unsharded;
  std::vector<Tensor> sharded;
  std::vector<Tensor> exact_unsharded;
  std::vector<Tensor> exact_sharded;
  int64_t flops = 0;  // on the busiest device
  int64_t unsharded_flops = 0;
  std::vector<MovedBytes> collectives;
  int64_t bytes_moved = 0;
  int64_t bytes_priced = 0;
};

enum class Verdict : uint8_t { Ok, Mismatch, Inconclusive };
Verdict verdict_of(const Simulation& outcome);

// Simulates a program. All runs advance together, node by node. Whole inputs
// and parameters are read when a node needs them, as doubles in the field and
// as float32 otherwise. Nothing is held longer than some run needs it
// (sim/execute.h); a parameter that is needed again much later is read again.
// REQUIRES: the program is of a graph on a mesh; it may be a wrong one.
Simulation simulate(const Program& program, const ReadValue& values,
                    const SimulateOptions& options);

// ValueCache: the whole inputs and parameters that several runs of a graph
// read. Each is made once for all runs and released when none needs it soon.
//
// All runs compute with the same numbers. Runs in working precision use float32
// rounded to a storage type, and runs in double precision use exactly these
// rounded numbers.

struct ValueCache {
  const Graph* graph = nullptr;
  const Lifetimes* lives = nullptr;
  ReadValue read;
  bool exact = false;  // in the field: residues, read as doubles
  Storage storage = Storage::F32;
  int threads = 1;
  // A value that is not held has no storage.
  PerValue<Tensor> singles = {};
  PerValue<Tensor> doubles = {};
  // The values that are held: few of the graph's hundred thousand or so.
  std::vector<ValueId> present = {};
};

// Returns what a run stores of an input or parameter: residues, doubles and
// integers unchanged, anything else as a rounded copy.
Tensor as_stored(const Value& value, const Tensor& tensor,
                 const StorageTypes& precision, int threads);

Tensor cached_value(ValueCache& cache, ValueId value, Element element);

// Releases the doubles of parameters once only runs in working precision are
// left in a phase, so that a weight is not held in all its forms at once.
void release_doubles(ValueCache& cache, int phase);

// Releases values after a phase. Parameters that are needed again only much
// later are released as well, and read again then.
void release_values(ValueCache& cache, int phase);

// PairedRuns: the unsharded and the sharded run of a graph in one arithmetic.
// They advance together, so that values can be compared while both runs hold
// them and released when neither needs them.

struct PairedRuns {
  // REQUIRES: all three outlive the runs.
  PairedRuns(const Program& program, const Lifetimes& lives, ValueCache& cache,
             const ExecuteOptions& options);

  const Program& program;
  const Lifetimes& lives;
  ValueCache& cache;
  ExecuteOptions options;
  Evaluation unsharded;
  ShardedRun sharded;
  // Results of the unsharded run that are held, from the nodes before `seen`.
  std::vector<ValueId> present = {};
  NodeId seen = NodeId(0);
};

// Runs the unsharded part of a phase: its node, if it has one. The sharded run
// advances separately (ShardedRun::advance).
void advance_unsharded(PairedRuns& runs, int phase);

// Releases results that no later phase needs, once both runs have done the
// phase. Must not be called after the last phase, since outputs stay. The cache
// releases inputs and parameters (release_values).
void release_results(PairedRuns& runs, int phase);

}  // namespace shardplan
