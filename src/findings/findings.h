// SPDX-License-Identifier: Apache-2.0
// Findings: problems, or deviations from what was meant, in a plan, its costs
// and the programs that run it.
//
// Every check is a row of one table (checks() below) and gets one of six
// inputs, which contains everything it may examine: a plan, its budget, an
// engine that serves the model, the plan's program, a run of that program, or
// outputs that another program recorded. Each finding names the parameters, the
// numbers that matter, and its cost in bytes per device. Findings about a plan
// are computed from the plan alone, so a saved plan has the same findings as
// the rules it came from; the rules, if available, only provide the places.
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

// Callers that lint only a plan need none of these types.
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
  // SP304: the fraction by which the fullest device may exceed the requested
  // bytes; and the largest fraction of bytes that may be unsharded.
  double tolerance = 0.02;
  std::optional<double> max_replicated;
  // The user asked for unmatched parameters to be replicated or placed by size,
  // so SP101 is a note.
  bool accept_unmatched = false;
  // Makes a logical axis that no rule places an error (SP111).
  bool raise_unplaced = false;
  // Axes that shard parameters although no spec names them: the axis of a
  // pipeline's stages ("": none) and the axes of ZeRO-3. If `stages` gives the
  // stages of each parameter, amounts per device are those of the stage that
  // holds the most.
  AxisName pipeline_axis = {};
  std::shared_ptr<const ParameterStages> stages = {};
  AxisNames zero_axes = {};
  // Axes that are named for something other than parameters: a batch, a cache,
  // or the values of a graph.
  AxisNames named_axes = {};
  // The axes among `named_axes` that shard the batch.
  AxisNames batch_axes = {};
  // The shipped set for the model's type, "@qwen3_moe", if it is not among the
  // rules; else empty.
  std::string other_set = {};
  // Reports notes about shipped rules that need no attention (SP209).
  bool verbose = false;
};

// The ways in which rules are written for other names than those of the model
// or the mesh. Consequences of these alone are not reported separately.
struct NamingMismatch {
  // The rules that should shard match no name (SP115).
  bool of_names = false;
  // The model has none of the logical axes that the rules place (SP115).
  bool of_labels = false;
  // A rule that would match the name of a parameter in another naming scheme;
  // 0: none.
  int other_rule = 0;  // 1-based
  size_t other_parameter = 0;
  std::string other_name;
  // An axis of the mesh that shards nothing and that nothing mentions (SP208),
  // and the name that the rules seem to use for it; "" if there is none.
  struct UnmentionedAxis {
    AxisName axis;
    AxisName in_rules;
  };
  std::vector<UnmentionedAxis> axes;
};

// A summary of a model, in which one parameter represents all that a change
// treats alike, with their number (evaluate/parameter_groups.h). Findings about
// it are counted and compared but never shown.
struct Summary {
  StagedCounts counts;  // per parameter of the manifest
  int64_t total_bytes = 0;
  const UnitFacts& known;  // of the whole model
  // Caches the results of is_catch_all() (resolve/match.h), which compiles a
  // pattern.
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
  const Summary* summary = nullptr;  // null: the manifest is complete
  const Model* model = nullptr;      // the manifest's, if there is one
};

// Returns the facts of the summary or the model, else those of the manifest.
UnitFacts unit_facts_of(const LintInput& input);

LintInput make_lint_input(const Manifest& manifest, const Plan& plan,
                          const Folding& folding, const RuleSet* rules,
                          const DeviceMemory& memory,
                          const LintOptions& options,
                          const Summary* summary = nullptr);

// Returns "`--zero 2` would need 3.00 GiB per device: it fits, with 1.00 GiB to
// spare".
std::string tried_text(const TriedChange& tried);

// The memory that a plan needs; `budget` is make_budget() of the other fields.
struct MemoryInput {
  const Manifest& manifest;
  const Plan& plan;
  const LayerGroups& groups;
  const BudgetOptions& options;
  const Budget& budget;
  // Changes to propose if it does not fit, the best first.
  const std::vector<TriedChange>* tried = nullptr;
};

// An engine that serves the model on the devices.
struct ServeInput {
  const Serving& serving;
  // Changes to propose if it does not start or its cache is too small; the
  // smallest change first.
  const std::vector<TriedServing>* tried = nullptr;
};

// The program that a plan makes of a graph, before it is run.
struct ProgramInput {
  const Program& program;
  const Manifest& manifest;
  const Plan& plan;
  const RuleSet* rules;  // null for a saved plan
  // The dtypes of the runs in working precision.
  Storage storage;
  Storage reduce;
  // The graph is meant to be the whole model: a parameter that it does not read
  // is a finding, whether or not similar ones are read.
  bool whole_model = false;
  // Only the first layers, of this number, are run; the others are omitted on
  // purpose.
  std::optional<int64_t> only_layers = {};
  // The model declares that its token embedding and its head are one weight.
  bool tied = false;
};

// A run of the program on simulated devices.
struct RunInput {
  const ProgramInput& of;
  const Simulation& outcome;
  ValueSource source;
  bool tokens_given = false;  // else they are drawn
  // Per value of the graph, the source of its layout.
  std::span<const std::string> placed_by = {};
  // Inputs that are not drawn, and the source of their numbers.
  std::map<ValueId, std::string> given_by = {};
  // For another mesh or algorithm (`--vary`): its description, and the
  // requested run, whose findings are not repeated.
  std::string variant = {};  // "tp=2, algorithm ring"
  const Simulation* asked_for = nullptr;
};

// The outputs of a run, compared with those that another program recorded.
struct RecordedInput {
  const Graph& graph;
  const std::vector<ExpectedError>& errors;
  std::string_view path;  // of the recording
};

// The table of checks.

// The subject of a check, which determines its input.
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
// All subjects of a plan, and those whose findings differ between meshes; names
// are the same on all meshes.
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
  std::vector<Code> codes;  // the codes that it reports, and no other row does
  Needs needs = Needs::Names;
  AnyCheck report;
};

// Returns the table, in the order in which findings are reported: first those
// that make others redundant, then mostly by code.
const std::vector<Check>& checks();

// Reports the findings of all checks that need this input, in the table's
// order. `Input` is one of the above but LintInput.
template <typename Input>
void lint(const Input& input, Diagnostics& diags);
// Runs only the checks of these subjects of a plan.
void lint(const LintInput& input, std::span<const Needs> sides,
          Diagnostics& diags);

// Names of parameters, rules, values, places and costs in findings.

struct Value;

// For plans.

// Returns the number of parameters that these represent.
int64_t count_of(const LintInput& input, std::span<const uint32_t> parameters);
// Sums an amount that each of some parameters adds to every device that holds
// it, over the devices of the pipeline stage where the sum is largest. For
// experts that are placed whole, the rank with the most counts.
class PerDevice {
 public:
  explicit PerDevice(const LintInput& input);
  // REQUIRES: the parameters have one placement, or none of their placements
  // places experts whole.
  void add(std::span<const uint32_t> parameters, Int128 each);
  // The same, with another assignment of experts to ranks than the plan's.
  void add(std::span<const uint32_t> parameters, Int128 each,
           const std::optional<ExpertPlacement>& dealt);
  Int128 most() const;

 private:
  const LintInput& input_;
  Int128 on_all_ = 0;
  std::vector<Int128> of_stage_;
};
// Returns the sum of one amount. It fits int64, as the amounts of all
// parameters do.
int64_t per_device(const LintInput& input, std::span<const uint32_t> parameters,
                   int64_t each);
std::vector<std::string> names_of(const Manifest& manifest,
                                  std::span<const uint32_t> parameters);
void append_names(const Manifest& manifest,
                  std::span<const uint32_t> parameters,
                  std::vector<std::string>& names);
// Returns "`a`" or "`a` and 31 more".
std::string names_text(const std::vector<std::string>& names);
// Returns the bytes of a placement on one device if it were as requested: under
// `pad`, without unknown and repeated axes.
int64_t requested_bytes(const Plan& plan, const Placement& placement);
// Returns "15.6 MiB more per device" for parameters of a placement.
std::string cost_text(const LintInput& input, const Placement& placement,
                      std::span<const uint32_t> parameters);
// Returns the place of a rule's spec entry, or of the whole spec.
Span spec_span(const LintInput& input, int rule, int dim);
Span rule_span(const LintInput& input, int rule);
// Returns the same, or the place of the logical rule that placed the dimension.
Span asked_span(const LintInput& input, const Placement& placement, int dim);
// Returns "rule 3 (rules.yaml:5)"; for 0, "the logical axis rules".
std::string rule_text(const Plan& plan, int rule);

// Returns the form in which a new rule before this one (1-based) is written;
// null: ours.
const RuleForm* form_at(const RuleSet& rules, int rule);
// Returns the sizes from 1 to `limit`, at most 65536, that divide both numbers.
std::vector<int64_t> common_divisors(int64_t a, int64_t b, int64_t limit);

// For graphs, programs and runs.

// Returns the name in the graph file; parts of composites have that of their
// result.
std::string shown_name(const Graph& graph, ValueId value);
// Returns "`h` (linear)".
std::string served_by(const Graph& graph, NodeId node);
// Returns the place of the value in the graph file, or that of the operation
// that computes it.
Span place_of_value(const Graph& graph, ValueId value);

}  // namespace shardplan
