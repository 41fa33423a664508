// SPDX-License-Identifier: Apache-2.0
// The whole inputs and parameters that several runs of a graph read: each is
// made once for all of them, and let go of when none needs it soon.
//
// All runs compute with the same numbers: those in working precision, float32
// rounded to a storage type; runs in double precision with these very numbers.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "sim/execute.h"
#include "sim/lifetimes.h"
#include "sim/price.h"
#include "sim/values.h"

namespace shardplan {

struct ValueCache {
  const Graph* graph = nullptr;
  const Lifetimes* lives = nullptr;
  ReadValue read;
  bool exact = false;  // residues, which are read as doubles
  Storage storage = Storage::F32;
  int threads = 1;
  // By value; no storage where nothing is held.
  std::vector<Tensor> singles = {};
  std::vector<Tensor> doubles = {};
  // The values that are held: a graph has a hundred thousand, of which few are.
  std::vector<size_t> present = {};
};

// What a run stores of an input or parameter: residues, doubles and integers as
// they are, else a rounded copy.
Tensor as_stored(const Value& value, const Tensor& tensor,
                 const KeptTypes& precision, int threads);

Tensor cached_value(ValueCache& cache, int value, Element element);

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
  std::vector<bool> integers;  // integer_values
  ShardedRun sharded;
  // Results of the unsharded run that are held, of the nodes before `seen`.
  std::vector<size_t> present = {};
  size_t seen = 0;
};

// The unsharded run's part of a phase: its node, if there is one. The sharded
// run advances by itself (ShardedRun::advance).
void advance_unsharded(PairedRuns& runs, int phase);

// To be called when both have done the phase, but for the last one: outputs
// stay. Inputs and parameters are released by whom they belong to.
void release_results(PairedRuns& runs, int phase);

}  // namespace shardplan
