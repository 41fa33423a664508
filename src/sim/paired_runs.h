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

struct HeldValues {
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

Tensor held_value(HeldValues& held, int value, Element element);

// Lets go of parameters in doubles where only runs in working precision are
// left in a stretch, so that a weight is not held in all the forms that it
// takes.
void release_doubles(HeldValues& held, int stretch);

// To be called after a stretch. Parameters that are needed much later are let
// go of as well, and read anew.
void release_values(HeldValues& held, int stretch);

// Lanes: the unsharded and the sharded run of a graph in one arithmetic, which
// advance together, so that values can be compared while both have them and
// released when neither needs them.

struct Lanes {
  // REQUIRES: all three outlive the lanes.
  Lanes(const Program& program, const Lifetimes& lives, HeldValues& held,
        const ExecuteOptions& options);

  const Program& program;
  const Lifetimes& lives;
  HeldValues& held;
  ExecuteOptions options;
  Evaluation unsharded;
  std::vector<bool> integers;  // integer_values
  ShardedRun sharded;
  // Results of the unsharded run that are held, of the nodes before `seen`.
  std::vector<size_t> present = {};
  size_t seen = 0;
};

// The unsharded run's part of a stretch: its node, if there is one. The sharded
// run advances by itself (ShardedRun::advance).
void advance_unsharded(Lanes& lanes, int stretch);

// To be called when both have done the stretch, but for the last one: outputs
// stay. Inputs and parameters are released by whom they belong to.
void release_results(Lanes& lanes, int stretch);

}  // namespace shardplan
