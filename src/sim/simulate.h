// SPDX-License-Identifier: Apache-2.0
// The proof: a program runs on simulated devices, the graph runs unsharded, and
// the results are compared.
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
  // Of the runs in working precision: how every stored value is rounded, and
  // how the partial sums of collectives are. Runs in doubles and in the field
  // round nothing.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  int64_t seed = 0;
  PartitionOptions partition;
  int threads = 1;
  // Told of every step of the work, in words.
  std::function<void(const char*)> progress;
  // Told instead, where there is one, of steps of which it is known how much
  // is done before, from 0 to 1: "running", "running (node 2 of 9)", 0.1.
  std::function<void(const char* work, const char* text, double done)> step =
      {};
  // Asked before every node; true ends the simulation early.
  std::function<bool()> stop = {};
};

// A choice by index, and that of the unsharded run.
struct OtherChoice {
  int64_t own = 0;
  int64_t recorded = 0;
};

// Why a value is wrong, where a reduction over devices explains it
// (sim/reduction_fault.h).
enum class ReducedBy : uint8_t { Sum, Mean, Max };
struct ReductionFault {
  enum class Problem : uint8_t {
    Missing,     // over `axes`, where devices have parts
    Extra,       // over `axes`, where every device has the whole
    WrongAxes,   // over `done_axes`; the parts are along `axes`
    WrongKind,   // `done_kind`, where it is `kind` over `axes`
    AddedByAll,  // `operand` is whole, and added to every part of the sum
  };
  Problem problem = Problem::Missing;
  ReducedBy kind = ReducedBy::Sum;  // that is right; of what is extra, its own
  AxisNames axes;
  int64_t times = 1;  // devices along the axes
  ReducedBy done_kind = ReducedBy::Sum;
  AxisNames done_axes = {};
  ValueId operand = {};
};

// Where sharded and unsharded runs part first, in the order of the program.
struct Divergence {
  ValueId value;  // of the graph
  int64_t device = 0;
  double error = 0;  // structural, of that device's part; 1 in the field; of a
                     // choice, how far apart the scores are (sim/locate.h)
  // In the field: one operation by itself on fresh inputs, not the whole graph.
  bool isolated = false;
  std::optional<OtherChoice> choice = {};
  RegisterId number = {};  // the register that differs
  std::optional<ReductionFault> fault = {};
};

// How far a value is from what double precision gives, over all of its rows:
// sqrt(sum |x - y64|^2 / sum |y64|^2), 0/0 being 0.
struct ProbeError {
  ValueId value;         // of the graph; a probe of it
  double unsharded = 0;  // of the unsharded run in working precision
  double sharded = 0;    // of the sharded one
};

struct MovedBytes {
  CollectivePrice priced;
  int64_t moved = 0;             // over all devices
  int64_t bytes_per_device = 0;  // of the busiest
};

// What is moved and what is priced are told apart by nobody who reads one of
// them: where they differ, one is a bug of ours (SP900).
void check_price(const MovedBytes& row);

// Experts that no token was sent to: what is computed for them was not seen.
struct UnusedExperts {
  ValueId value;  // of the graph: the tokens that are sent to experts
  int64_t unused = 0;
  int64_t experts = 0;
};

struct Simulation {
  bool stopped = false;  // early: nothing else is filled in
  std::optional<Divergence> mismatch;
  // The walk over a plan of hooks. The verdict follows it, unless something in
  // it is unknown. None: a compiler's program.
  std::optional<HookedWalk> hooked;
  // What keeps the run from telling, in the order of the program: the first
  // value of the unsharded run in double precision that is not finite, and what
  // the values could not have shown. None of them in the field.
  std::optional<NonFinite> non_finite;
  std::vector<Unseen> unseen;
  // In working precision, where it is finite in doubles: the first value of the
  // unsharded run, and of the sharded one.
  std::optional<NonFinite> overflow;
  std::optional<NonFinite> sharded_overflow;
  double structural_error = 0;
  double error_amplification = 1;
  std::optional<double> bound_ratio;  // the largest over products
  int64_t decision_flips = 0;         // choices that the sharded run alone
                                      // would have made otherwise
  std::vector<ProbeError> probes;     // in the order of the graph's probes
  int64_t routed = 0;                 // choices of experts that tokens made,
  int64_t dropped = 0;                // of which so many found no room
  std::vector<UnusedExperts> unused_experts;
  // The whole outputs in working precision, and in doubles; none in the field.
  std::vector<Tensor> unsharded;
  std::vector<Tensor> sharded;
  std::vector<Tensor> exact_unsharded;
  std::vector<Tensor> exact_sharded;
  int64_t flops = 0;  // of the busiest device
  int64_t unsharded_flops = 0;
  std::vector<MovedBytes> collectives;
  int64_t bytes_moved = 0;
  int64_t bytes_priced = 0;
};

enum class Verdict : uint8_t { Ok, Mismatch, Inconclusive };
Verdict verdict_of(const Simulation& outcome);

// All runs advance together, node by node: whole inputs and parameters are
// asked for when a node needs them, as doubles in the field and as float32
// else, and nothing is held longer than some run needs it (sim/execute.h). A
// parameter that is needed again much later is asked for again. REQUIRES: the
// program is of a graph on a mesh; it may be a wrong one.
Simulation simulate(const Program& program, const ReadValue& values,
                    const SimulateOptions& options);

// The whole inputs and parameters that several runs of a graph read: each is
// made once for all of them, and let go of when none needs it soon.
//
// All runs compute with the same numbers: those in working precision, float32
// rounded to a storage type; runs in double precision with these very numbers.

struct ValueCache {
  const Graph* graph = nullptr;
  const Lifetimes* lives = nullptr;
  ReadValue read;
  bool exact = false;  // residues, which are read as doubles
  Storage storage = Storage::F32;
  int threads = 1;
  // No storage where nothing is held.
  PerValue<Tensor> singles = {};
  PerValue<Tensor> doubles = {};
  // The values that are held: a graph has a hundred thousand, of which few are.
  std::vector<ValueId> present = {};
};

// What a run stores of an input or parameter: residues, doubles and integers as
// they are, else a rounded copy.
Tensor as_stored(const Value& value, const Tensor& tensor,
                 const KeptTypes& precision, int threads);

Tensor cached_value(ValueCache& cache, ValueId value, Element element);

// Lets go of parameters in doubles where only runs in working precision are
// left in a phase, so that a weight is not held in all the forms that it
// takes.
void release_doubles(ValueCache& cache, int phase);

// To be called after a phase. Parameters that are needed much later are let
// go of as well, and read anew.
void release_values(ValueCache& cache, int phase);

// Paired runs: the unsharded and the sharded run of a graph in one arithmetic,
// which advance together, so that values can be compared while both have them
// and released when neither needs them.

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
  // Results of the unsharded run that are held, of the nodes before `seen`.
  std::vector<ValueId> present = {};
  NodeId seen = NodeId(0);
};

// The unsharded run's part of a phase: its node, if there is one. The sharded
// run advances by itself (ShardedRun::advance).
void advance_unsharded(PairedRuns& runs, int phase);

// To be called when both have done the phase, but for the last one: outputs
// stay. Inputs and parameters are released by whom they belong to.
void release_results(PairedRuns& runs, int phase);

}  // namespace shardplan
