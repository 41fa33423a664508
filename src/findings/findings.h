// SPDX-License-Identifier: Apache-2.0
// Findings: what is wrong, or not what was meant, in a plan, in what it costs
// and in what runs it.
//
// Every check is a row of one table (checks() below), and is given all it may
// look at by one of six inputs: a plan, its budget, an engine that serves
// the model, its program, a run of that, or what another program recorded. Each
// finding names the parameters, the numbers that mattered, and what it costs in
// bytes per device. A plan's are computed from the plan alone, so a saved plan
// has the same findings as the rules it came from; the rules, where they are at
// hand, give the places.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "graph/ids.h"
#include "model/units.h"
#include "resolve/device_memory.h"

namespace shardplan {

// Whoever lints a plan alone needs none of them.
struct Budget;
struct BudgetOptions;
struct ExpectedError;
struct Graph;
struct LayerGroups;
struct Model;
struct Program;
struct Serving;
struct TriedChange;
struct TriedServing;
struct Simulation;
enum class Storage : uint8_t;
enum class ValueSource : uint8_t;

// A plan.

struct LintOptions {
  // SP304: how much more the fullest device may hold than was asked for, as a
  // fraction; and the largest fraction of bytes that may be unsharded.
  double tolerance = 0.02;
  std::optional<double> max_replicated;
  // The user asked for unmatched parameters to be replicated, or to be placed
  // by their size: SP101 is a note.
  bool accept_unmatched = false;
  // A logical axis that no rule places is an error (SP111).
  bool raise_unplaced = false;
  // What shards parameters though no spec says so: a pipeline's stages ("" for
  // none), and the axes of ZeRO-3. Where it is known which stages hold a
  // parameter, amounts per device are those of the stage that has the most.
  AxisName pipeline_axis = {};
  std::shared_ptr<const ParameterStages> stages = {};
  AxisNames zero_axes = {};
  // Axes that are named for what is not a parameter: a batch, a cache, the
  // values of a graph.
  AxisNames named_axes = {};
  // Those of them that shard the batch.
  AxisNames batch_axes = {};
  // The shipped set that is written for the model's type, "@qwen3_moe", where
  // it is not among the rules; else empty.
  std::string other_set = {};
  // Notes about shipped rules that need no attention (SP209) are reported.
  bool verbose = false;
};

// Where the rules are written for other names than the model or the mesh has.
// What would follow from it alone is not reported besides.
struct NamingMismatch {
  // The rules that should shard match no name (SP115).
  bool of_names = false;
  // The logical axes that rules place are none of the model's (SP115).
  bool of_labels = false;
  // A rule that would match the name that another scheme gives to a
  // parameter; 0 for none.
  int other_rule = 0;  // 1-based
  size_t other_parameter = 0;
  std::string other_name;
  // Axes of the mesh that shard nothing and that nothing mentions (SP208), and
  // what the rules call each; "" where they have no like.
  struct UnmentionedAxis {
    AxisName axis;
    AxisName in_rules;
  };
  std::vector<UnmentionedAxis> axes;
};

// A model of which parameters that are alike in all that a change can touch are
// one, with how many they are (evaluate/parameter_groups.h). What is reported
// of it is counted and compared, never shown.
struct Summary {
  StagedCounts counts;  // per parameter of the manifest
  int64_t total_bytes = 0;
  const UnitFacts& known;  // of the whole model
  // is_catch_all() of resolve/match.h, which compiles the pattern, remembered.
  std::function<bool(const std::string&)> is_catch_all;
};

struct LintInput {
  const Manifest& manifest;
  const Plan& plan;
  const Folding& folding;  // by placement
  const RuleSet* rules;    // null for a saved plan
  const DeviceMemory& memory;
  const LintOptions& options;
  Members of_placement;
  Members of_class;
  NamingMismatch naming;
  const Summary* summary = nullptr;  // null: every parameter is there
  const Model* model = nullptr;      // of the manifest, where there is one
};

// Those of the summary or the model; without either, the manifest is read.
UnitFacts unit_facts_of(const LintInput& input);

LintInput make_lint_input(const Manifest& manifest, const Plan& plan,
                          const Folding& folding, const RuleSet* rules,
                          const DeviceMemory& memory,
                          const LintOptions& options,
                          const Summary* summary = nullptr);

// "`--zero 2` would need 3.00 GiB per device: it fits, with 1.00 GiB to spare"
std::string tried_text(const TriedChange& tried);

// What a plan needs of memory; the budget is make_budget() of the rest.
struct MemoryInput {
  const Manifest& manifest;
  const Plan& plan;
  const LayerGroups& groups;
  const BudgetOptions& options;
  const Budget& budget;
  // What may be changed where it does not fit, the best first.
  const std::vector<TriedChange>* tried = nullptr;
};

// What an engine that serves the model makes of the devices.
struct ServeInput {
  const Serving& serving;
  // What may be changed where it does not start, or holds too little; the
  // smallest change first.
  const std::vector<TriedServing>* tried = nullptr;
};

// The program that a plan makes of a graph, before it is run.
struct ProgramInput {
  const Program& program;
  const Manifest& manifest;
  const Plan& plan;
  const RuleSet* rules;  // null for a saved plan
  // Of the runs in working precision.
  Storage storage;
  Storage reduce;
  // The graph is meant to be the whole model: a parameter that it does not read
  // is a finding whether or not its like is read.
  bool whole_model = false;
  // Only the first so many layers are run; others are left out on purpose.
  std::optional<int64_t> only_layers = {};
  // The model says that its table of embeddings and its head are one weight.
  bool tied = false;
};

// What its devices computed.
struct RunInput {
  const ProgramInput& of;
  const Simulation& outcome;
  ValueSource source;
  bool tokens_given = false;  // else they are drawn
  // Per value of the graph, who said how it lies.
  std::span<const std::string> placed_by = {};
  // Inputs that are not drawn, and where their numbers are from.
  std::map<ValueId, std::string> given_by = {};
  // For another mesh or algorithm (`--vary`): which one, and the run that was
  // asked for. What that one says already is not said again.
  std::string variant = {};  // "tp=2, algorithm ring"
  const Simulation* asked_for = nullptr;
};

// The outputs of a run beside those that another program recorded.
struct RecordedInput {
  const Graph& graph;
  const std::vector<ExpectedError>& errors;
  std::string_view path;  // of the recording
};

// The table.

// What a check looks at, and so the input that it needs.
enum class Needs : uint8_t {
  Names,      // a plan: rules against the model's names
  Labels,     // a plan: logical axes, and the keys of tables
  Specs,      // a plan: specs against shapes and the mesh
  WholePlan,  // a plan of a model: its units, its mesh, its bytes
  Budget,
  Serving,
  Program,
  Run,
  Recording,
};
// All sides of a plan, and those that differ from mesh to mesh: names are the
// same on all.
inline constexpr std::array kPlanSides = {Needs::Names, Needs::Labels,
                                          Needs::Specs, Needs::WholePlan};
inline constexpr std::array kMeshSides = {Needs::Labels, Needs::Specs,
                                          Needs::WholePlan};

template <typename Input>
using CheckOf = void (*)(const Input&, Diagnostics&);
using AnyCheck = std::variant<CheckOf<LintInput>, CheckOf<MemoryInput>,
                              CheckOf<ServeInput>, CheckOf<ProgramInput>,
                              CheckOf<RunInput>, CheckOf<RecordedInput>>;

struct Check {
  std::vector<Code> codes;  // that it raises, and no other row does
  Needs needs = Needs::Names;
  AnyCheck report;
};

// In the order in which findings are reported: what makes others needless
// first, then mostly in order of code.
const std::vector<Check>& checks();

// Reports what all checks find that need this input, in the table's order.
void lint(const MemoryInput& input, Diagnostics& diags);
void lint(const ServeInput& input, Diagnostics& diags);
void lint(const ProgramInput& input, Diagnostics& diags);
void lint(const RunInput& input, Diagnostics& diags);
void lint(const RecordedInput& input, Diagnostics& diags);
// Only those that look at these sides of a plan.
void lint(const LintInput& input, std::span<const Needs> sides,
          Diagnostics& diags);

// How findings name parameters, rules, values, places and costs.

struct Value;

// Of plans.

// How many parameters these are.
int64_t count_of(const LintInput& input, std::span<const uint32_t> parameters);
// An amount that each of some parameters adds to every device that holds it,
// summed over the devices of the pipeline stage where the sum is largest. Of
// experts that are dealt out, the rank with the most counts.
class PerDevice {
 public:
  explicit PerDevice(const LintInput& input);
  // REQUIRES: the parameters have one placement, or none of theirs is dealt
  // out.
  void add(std::span<const uint32_t> parameters, Int128 each);
  // The same for another dealing than the plan's.
  void add(std::span<const uint32_t> parameters, Int128 each,
           const std::optional<Dealt>& dealt);
  Int128 most() const;

 private:
  const LintInput& input_;
  Int128 on_all_ = 0;
  std::vector<Int128> of_stage_;
};
// Of one amount. Int64, since the amounts of all parameters fit.
int64_t per_device(const LintInput& input, std::span<const uint32_t> parameters,
                   int64_t each);
// Says which parameters a finding is about; it counts as many findings.
void name_parameters(Diagnostics::Builder& report,
                     std::vector<std::string> names, int64_t count);

std::vector<std::string> names_of(const Manifest& manifest,
                                  std::span<const uint32_t> parameters);
// "`a`", "`a` and 31 more".
std::string names_text(const std::vector<std::string>& names);
// Bytes that a placement would take on one device if it were as requested:
// under `pad`, once unknown and repeated axes are gone.
int64_t requested_bytes(const Plan& plan, const Placement& placement);
// "15.6 MiB more per device", for parameters of a placement.
std::string cost_text(const LintInput& input, const Placement& placement,
                      std::span<const uint32_t> parameters);
// The place of a rule's spec entry, or of the whole spec.
Span spec_span(const LintInput& input, int rule, int dim);
Span rule_span(const LintInput& input, int rule);
// The same, or the logical rule that placed the dimension.
Span asked_span(const LintInput& input, const Placement& placement, int dim);
// "rule 3 (rules.yaml:5)"; for 0, what places parameters that no rule does.
std::string rule_text(const Plan& plan, int rule);

// How a rule that is to stand before this one (1-based) is written; null where
// our own way does.
const RuleForm* form_at(const RuleSet& rules, int rule);
// Sizes from 1 up to `limit`, but at most 65536, that divide both numbers.
std::vector<int64_t> common_divisors(int64_t a, int64_t b, int64_t limit);

// Of graphs, programs and runs.

// What the graph file calls it: parts of composites go by their result.
std::string shown_name(const Graph& graph, ValueId value);
// "`h` (linear)"
std::string served_by(const Graph& graph, NodeId node);
// Where the graph file has it, or the operation that makes it.
Span place_of_value(const Graph& graph, ValueId value);

}  // namespace shardplan
