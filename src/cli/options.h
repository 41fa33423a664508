// SPDX-License-Identifier: Apache-2.0
// What the command line and shardplan.yaml ask for, before anything is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "core/mesh.h"
#include "core/partition_axis.h"
#include "core/plan.h"
#include "graph/elementwise.h"
#include "io/graph/graph_reader.h"
#include "io/load.h"
#include "memory/budget.h"
#include "memory/state.h"
#include "resolve/name_resolution.h"
#include "sim/values.h"
#include "spmd/program.h"

namespace shardplan::cli {

enum class Colour : uint8_t { Auto, Always, Never };

// What becomes of parameters that no rule matches: an error, or a note where
// they are to be replicated or placed by their size.
enum class Unmatched : uint8_t { Error, Replicate, Auto };

// What a device must hold and what it has; the flags of the group "Memory".
struct MemoryOptions {
  std::optional<std::string> hardware;  // a shipped profile's name, or a path
  std::optional<int64_t> limit;         // --memory, bytes
  int64_t reserve = 0;                  // --reserve, bytes, or
  double reserve_fraction = 0;          // of what is usable
  double fragmentation = 0;
  std::optional<Stages> stages;
  StateOptions state;
  std::vector<std::string> state_rules;  // as `rules`
  int64_t live_layers = 1;
  std::optional<int64_t> batch;
  std::optional<int64_t> seq;
  std::optional<DType> kv_dtype;
  int64_t kv_block = 1;
  // Each empty when not given.
  AxisNames kv_axes;
  AxisNames batch_axes;
  AxisNames sequence_axes;
};

// Lists that `sweep` takes where other commands take one value.
struct SweepOptions {
  AxisNames over;                     // --over
  std::vector<int64_t> devices;       // --devices
  std::vector<int64_t> batch;         // --batch
  std::vector<int64_t> seq;           // --seq
  std::vector<std::string> hardware;  // --hardware
};

// What `simulate` runs, and how.
struct SimulationFlags {
  std::optional<std::string> graph;  // --graph: a path, or @name
  DimSizes dims;                     // --dims
  Overlap overlap = Overlap::Off;    // --overlap
  // --values; not given: those of the checkpoint, else random ones.
  std::optional<ValueSource> values;
  int64_t seed = 0;  // --seed

  // Of a whole model, where no graph is given.
  std::optional<int64_t> layers;         // --layers
  std::optional<int64_t> batch;          // --tokens BxS
  std::optional<int64_t> length;         // the same
  std::optional<std::string> input_ids;  // --input-ids
  std::optional<int64_t> capacity;       // --capacity
  bool shrink = false;                   // --shrink
  // The mesh whose divisibility --shrink keeps; not given: that of the run.
  std::optional<Mesh> shrink_mesh;

  std::optional<Storage> storage;     // --dtype
  std::optional<Storage> reduce;      // --reduce-dtype; else as --dtype
  std::optional<std::string> expect;  // --expect
  std::optional<std::string> plot;    // --plot
  std::vector<std::string> vary;      // --vary: axes, or "algorithm"
};

struct Options {
  std::string command;
  // MODEL; two plans for `diff`; a code for `explain`; a topic for `list`.
  std::vector<std::string> arguments;

  // Inputs
  std::vector<std::string> rules;      // --rules, in order
  std::optional<std::string> dialect;  // --dialect
  std::optional<std::string> table;    // --table
  SourcePtr pattern;                   // --pattern, as text named "--pattern"
  // As the originals did it: how --pattern is split; what --matmul gives.
  bool parity = false;                                      // --parity
  RulesFallback fallback = RulesFallback::AxisIsUnsharded;  // --fallback
  FlaxVersion flax = FlaxVersion::Current;                  // --flax-compat
  SourcePtr mesh;                   // --mesh, as text named "--mesh"
  std::optional<int64_t> devices;   // --devices
  std::optional<int64_t> slices;    // --slices
  std::vector<std::string> axes;    // --axes
  std::optional<std::string> plan;  // --plan; then no rules
  int64_t min_size = 0;             // --min-size
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  Unmatched unmatched = {};              // --unmatched
  bool strict = true;                    // --no-strict
  Declarations declarations;             // --declare
  double tolerance = 0.02;               // --tolerance
  std::optional<double> max_replicated;  // --max-replicated
  std::optional<std::string> config;     // --config; else found upwards
  bool isolated = false;                 // --isolated
  int jobs = 0;                          // --jobs; 0: one per processor
  std::optional<int64_t> max_memory;     // --max-memory, bytes
  Mode mode = Mode::Train;               // --mode
  MemoryOptions memory;
  SweepOptions sweep;
  SimulationFlags simulation;

  // Output
  std::string format = "text";
  std::optional<std::string> output;  // -o
  bool format_was_given = false;      // decides what `-o x.plan.json` writes
  Colour colour = Colour::Auto;
  bool expand = false;
  bool exact = false;
  bool quiet = false;
  bool verbose = false;
  bool progress = true;

  // Diagnostics: codes, names of codes, or "warnings" (--deny only); checked
  // and already in force when a command runs.
  std::vector<std::string> deny;
  std::vector<std::string> allow;
  bool exit_zero = false;

  // Of single commands
  bool fix = false;                    // check --fix
  bool diff = false;                   // check --fix --diff
  std::optional<std::string> why;      // resolve --why NAME
  bool exit_code = false;              // diff --exit-code
  std::vector<std::string> semantics;  // diff --semantics A,B: two, or none
  std::optional<std::string> to;       // export --to
  std::optional<std::string> shard;    // inspect --shard NAME
  SourcePtr matmul;                    // explain --matmul, as text named so
  // --algorithm of simulate and explain; with the latter, numbers of ranks.
  std::optional<std::string> algorithm;
  std::optional<std::string> kind;  // --kind
  std::optional<int64_t> ranks;     // --ranks
  std::optional<int64_t> inner;     // --inner
};

// How rule files are read, but for what they say themselves.
inline RuleReading rule_reading(const Options& options) {
  return {options.table, options.axes};
}

}  // namespace shardplan::cli
