// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate/input.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/text.h"
#include "cli/options.h"
#include "graph/build.h"
#include "io/graph/graph_file.h"
#include "io/load.h"
#include "resolve/match.h"

namespace shardplan::cli {
namespace {

// The bytes per element that a run holds at least while it computes a node in
// double precision. An input is held as float32 and as the double converted
// from it; a parameter only as a double, since its float32 may be mapped; an
// earlier result by the unsharded and the sharded run in both precisions; the
// result being computed as a double in both runs. Residues are doubles, in one
// precision only.
constexpr int64_t kInput = 12;
constexpr int64_t kParameter = 8;
constexpr int64_t kEarlier = 24;
constexpr int64_t kMade = 16;
constexpr int64_t kResidue = 8;
// The limit if the available memory is not known.
constexpr int64_t kUnknown = int64_t{64} << 30U;

// More than any sum of sizes that fit 63 bits.
constexpr Int128 kUncounted = Int128{1} << 100U;

Int128 bytes_of(const Value& value, int64_t unit) {
  if (unit == 0) return 0;
  const auto elements = element_count(value.shape);
  return elements ? Int128{*elements} * unit : kUncounted;
}

class Counter {
 public:
  Counter(const Graph& graph, bool exact)
      : graph_(graph), exact_(exact), last_(graph.values.size()) {
    for (const NodeId n : graph.nodes.ids()) {
      for (const ValueId operand : graph.nodes[n].operands) {
        last_[operand] = n;
      }
    }
    for (const ValueId output : graph.outputs) {
      last_[output] = NodeId(graph.nodes.size());
    }
  }

  // Returns the bytes held at least while a node is computed. Must be called
  // for all nodes in order.
  Int128 next(NodeId node) {
    const GraphNode& at = graph_.nodes[node];
    Int128 total = earlier_ + bytes(at.result, node);
    std::vector<ValueId> read = at.operands;
    std::ranges::sort(read);
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const ValueId v : read) {
      const bool result = graph_.values[v].kind == Value::Kind::Result;
      if (!result) total += bytes(v, node);
      // The value is freed after this node.
      if (result && last_[v] == node) earlier_ -= bytes(v, node);
    }
    if (last_[at.result] > node) {
      earlier_ += bytes(at.result, NodeId(node.number + 1));
    }
    return total;
  }

  // Returns the bytes of one value while a node is computed.
  Int128 bytes(ValueId value, NodeId node) const {
    const Value& of = graph_.values[value];
    return bytes_of(of, unit(of, last_[value], node));
  }

 private:
  int64_t unit(const Value& value, NodeId last, NodeId node) const {
    const bool read = last >= node;
    if (value.kind == Value::Kind::Parameter) return read ? kParameter : 0;
    if (value.kind == Value::Kind::Input) {
      if (!read) return 0;
      return exact_ ? kResidue : kInput;
    }
    if (value.node > node || (value.node < node && !read) ||
        graph_.nodes[value.node].op->shares_storage) {
      return 0;
    }
    if (value.node == node) return kMade;
    return exact_ ? 2 * kResidue : kEarlier;
  }

  const Graph& graph_;
  bool exact_;
  // The last node that reads a value, if any does; for outputs, a number after
  // all nodes.
  PerValue<NodeId> last_;
  Int128 earlier_ = 0;  // of results that exist before the next node
};

std::string graph_size_text(Int128 bytes) {
  return bytes < kUncounted ? bytes_text(bytes)
                            : std::string("more than 2^63 bytes");
}

bool has_limit() { return memory_left() < std::numeric_limits<int64_t>::max(); }

std::string allowed_text(const std::optional<int64_t>& max_memory) {
  if (max_memory) return "shardplan may use " + graph_size_text(*max_memory);
  // The available memory differs between machines.
  return has_limit()
             ? graph_size_text(memory_left()) + " of the memory limit are left"
             : graph_size_text(kUnknown) + " is the largest size supported";
}

// Returns the parameters whose spec the graph contains.
std::vector<const DescribedValue*> placed_by_graph(
    const GraphDescription& description) {
  std::vector<const DescribedValue*> placed;
  for (const DescribedValue& parameter : description.parameters) {
    if (parameter.spec) placed.push_back(&parameter);
  }
  return placed;
}

// Converts the spec that a graph file gives a parameter into a rule.
Rule rule_of(const DescribedValue& parameter) {
  Rule rule;
  rule.pattern = exact_pattern(parameter.parameter);
  rule.spec = *parameter.spec;
  rule.where = parameter.where;
  rule.spec_where = parameter.spec_where;
  rule.dim_where.assign(rule.spec.dims.size(), parameter.spec_where);
  return rule;
}

std::unordered_map<std::string_view, size_t> numbers_of(
    const Manifest& manifest) {
  std::unordered_map<std::string_view, size_t> numbers;
  numbers.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    numbers.emplace(manifest.name(i), i);
  }
  return numbers;
}

// Returns the given rules, followed by those of the graph for parameters that
// no given rule matches: rules take precedence over a graph's specs. Returns
// empty, with the reason reported. Resolving the rules reports SP105.
std::optional<RuleSet> rules_of(Context& context, const Manifest& manifest,
                                const GraphDescription& description) {
  const PlanRequest& planning = context.options.planning;
  RuleSet rules;
  if (!planning.rules.empty() || planning.pattern != nullptr) {
    Manifest none;
    auto given = read_given_rules(planning, none, context.host, context.diags);
    if (!given) return std::nullopt;
    rules = *std::move(given);
  }
  Diagnostics quiet;
  const auto matcher =
      Matcher::compile(rules, manifest.names_are_plain(), quiet);
  if (!matcher) return rules;
  const auto numbers = numbers_of(manifest);
  std::vector<int> found;
  for (const DescribedValue* parameter : placed_by_graph(description)) {
    matcher->find(parameter->parameter, found);
    if (!found.empty() || !numbers.contains(parameter->parameter)) continue;
    rules.rules.push_back(rule_of(*parameter));
  }
  rules.sources.insert(rules.sources.end(), description.sources.begin(),
                       description.sources.end());
  return rules;
}

// Returns "`up` and 2 more".
std::string first_of(const std::vector<std::string>& names) {
  std::string text = in_backticks(names.front());
  if (names.size() == 1) return text;
  return text + " and " + count_text(std::ssize(names) - 1) + " more";
}

// Reports specs of a graph that the rules or the saved plan override.
void report_overruled(const GraphDescription& description,
                      const Session& session, Diagnostics& diags) {
  const auto numbers = numbers_of(session.model.manifest);
  std::vector<std::string> names;
  const DescribedValue* first = nullptr;
  for (const DescribedValue* parameter : placed_by_graph(description)) {
    const auto found = numbers.find(parameter->parameter);
    if (found == numbers.end()) continue;
    const Placement& placement = session.plan.of(found->second);
    const size_t rank = placement.type.shape.size();
    // In full length: [tp] is [tp, null].
    const auto full = [&](PartitionSpec spec) {
      spec.dims.resize(std::max(rank, spec.dims.size()));
      return spec;
    };
    if (placement.requested &&
        full(*placement.requested) == full(*parameter->spec)) {
      continue;
    }
    if (full(placement.spec) == full(*parameter->spec)) continue;
    if (names.empty()) first = parameter;
    names.push_back(parameter->parameter);
  }
  if (names.empty()) return;
  const Placement& placement = session.plan.of(numbers.at(first->parameter));
  const std::string who =
      session.rules ? "the rules decide" : "the saved plan decides";
  diags
      .report(
          Code::ShadowedRule, Severity::Note, first->spec_where,
          who + " how " + first_of(names) +
              (names.size() == 1 ? " is sharded, not the graph's own spec"
                                 : " are sharded, not the graph's own specs"))
      .fact(in_backticks(first->parameter) + " is sharded as " +
            spec_text(placement.spec) + "; the graph says " +
            spec_text(*first->spec))
      .help(session.rules
                ? "leave out the rules that match it to use the graph's specs"
                : "leave out `--plan` to use the graph's specs")
      .parameters(std::move(names));
}

// Adds the labels that the graph gives parameters, unless the model has its
// own.
void add_labels(const GraphDescription& description, Manifest& manifest,
                Diagnostics& diags) {
  const auto numbers = numbers_of(manifest);
  for (const DescribedValue& parameter : description.parameters) {
    const auto found = numbers.find(parameter.parameter);
    if (found == numbers.end() || parameter.axes.empty()) continue;
    if (parameter.axes.size() != manifest.type(found->second).shape.size()) {
      continue;
    }
    AxisLabels labels;
    for (const std::string& axis : parameter.axes) {
      labels.push_back(axis.empty() ? std::optional<std::string>() : axis);
    }
    const AxisLabels* own = manifest.axes(found->second);
    if (own == nullptr) {
      manifest.set_axes(found->second, std::move(labels));
    } else if (*own != labels) {
      diags
          .report(Code::OverriddenLogicalAxes, Severity::Note,
                  parameter.axes_where,
                  "the model's logical axes of " +
                      in_backticks(parameter.parameter) +
                      " are used, not the graph's")
          .help("leave out `axes` of the parameter, or make them agree");
    }
  }
}

// Returns the axes that the graph itself names, which need no rule.
AxisNames axes_of(const GraphDescription& description) {
  AxisNames names;
  const auto add = [&](const PartitionSpec& spec) {
    for (const AxisNames& axes : spec.dims) {
      names.insert(names.end(), axes.begin(), axes.end());
    }
  };
  for (const auto* values : {&description.inputs, &description.parameters}) {
    for (const DescribedValue& value : *values) {
      if (value.spec) add(*value.spec);
    }
  }
  for (const DescribedOp& op : description.ops) {
    for (const DescribedAttribute& attribute : op.attributes) {
      if (const auto* spec = std::get_if<PartitionSpec>(&attribute.value)) {
        add(*spec);
      }
    }
    if (!op.shard_map) continue;
    for (const PartitionSpec& spec : op.shard_map->in_specs) add(spec);
    add(op.shard_map->out_spec);
    const AxisNames& psum = op.shard_map->psum;
    names.insert(names.end(), psum.begin(), psum.end());
  }
  return names;
}

std::optional<Session> session_of(Context& context,
                                  const GraphDescription& description) {
  const PlanRequest& planning = context.options.planning;
  const auto& graph = context.options.simulate.graph;
  const bool apart = graph && *graph != planning.model;
  std::optional<Model> model;
  if (apart) {
    model = read_model(planning, context.host, context.diags, context.progress);
  } else if (auto own = graph_manifest(description, context.diags)) {
    model.emplace(*std::move(own));
  }
  if (!model) return std::nullopt;
  if (apart) add_labels(description, model->manifest, context.diags);
  const bool given = !planning.rules.empty() || planning.pattern != nullptr;
  const bool placed = !placed_by_graph(description).empty();
  std::optional<RuleSet> rules;
  // A graph without parameters needs no rules. A graph whose parameters have no
  // specs needs given rules.
  const bool needs_none = !apart && description.parameters.empty();
  if (!planning.saved_plan && (placed || (needs_none && !given))) {
    rules = rules_of(context, model->manifest, description);
    if (!rules) return std::nullopt;
  }
  auto session =
      open_session(planning, context.options.memory,
                   {*std::move(model), std::move(rules), axes_of(description)},
                   context.host, context.diags, context.progress);
  if (session) report_overruled(description, *session, context.diags);
  return session;
}

// Every device has its own tensors, so more would use too much memory.
constexpr int64_t kMaxDevicesRun = 1024;

bool has_few_enough_devices(const Mesh& mesh, Diagnostics& diags) {
  if (mesh.devices() <= kMaxDevicesRun) return true;
  diags
      .error(
          Code::Usage, {},
          "`simulate` runs at most " + count_text(kMaxDevicesRun) + " devices")
      .fact("the mesh " + mesh_text(mesh) + " has " +
            count_text(mesh.devices()))
      .help("a smaller mesh with the same axes shows the same collectives");
  return false;
}

// Returns whether the model is itself a graph file, and sets `file` to the
// beginning of its text. Errors are reported when the model is read.
bool brings_graph(Context& context, SourcePtr& file) {
  const std::string& path = context.options.planning.model;
  if (path == "-" || path.starts_with('@')) return true;
  Diagnostics quiet = context.diags.fresh();
  file = read_head(path, context.host, quiet);
  return file != nullptr && looks_like_graph(file->text());
}

// Reports flags for running a whole model that are given with a graph.
bool fit_a_graph(const SimulateRequest& flags, Diagnostics& diags) {
  const std::pair<bool, const char*> given[] = {
      {flags.layers.has_value(), "--layers"},
      {flags.batch.has_value(), "--tokens"},
      {flags.capacity.has_value(), "--capacity"},
      {flags.shrink, "--shrink"},
      {flags.full, "--full"}};
  bool fit = true;
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    diags
        .error(
            Code::Usage, {},
            std::string(name) + " applies to whole models, not to graph files")
        .help("`--dims` sets the sizes of a graph file");
    fit = false;
  }
  return fit;
}

// Returns what the run computes with: the weights, if there are any and no
// other values are requested.
std::optional<ValueSource> value_source(Context& context,
                                        const PlacedPass& given) {
  const auto wanted = context.options.simulate.values;
  if (wanted && *wanted != ValueSource::Checkpoint) return wanted;
  if (given.weights) return ValueSource::Checkpoint;
  if (!wanted) return ValueSource::Random;
  return context.diags
      .error(Code::Usage, {}, "there are no weights to compute with")
      .fact(given.run && given.run->shrunk && !given.run->shrunk_by_default
                ? "a shrunk model has none"
                : in_backticks(context.options.planning.model) +
                      " is not a checkpoint with data")
      .help("`--values random` draws random values");
}

// Returns whether outputs can be compared with recorded ones, which come from
// the model's own weights.
bool can_expect(Context& context, ValueSource source) {
  if (source == ValueSource::Checkpoint) return true;
  context.diags
      .error(Code::Usage, {}, "--expect needs the weights of a checkpoint")
      .help("recorded outputs cannot match random weights");
  return false;
}

std::optional<PlacedPass> read_graph_and_model(Context& context,
                                               const SourcePtr& file) {
  const Options& options = context.options;
  const SimulateRequest& flags = options.simulate;
  context.progress.stage("reading the graph");
  if (!fit_a_graph(flags, context.diags)) return std::nullopt;
  auto description = load_graph(flags.graph.value_or(options.planning.model),
                                flags.dims, context.host, context.diags, file);
  if (!description) return std::nullopt;
  std::optional<Session> session = session_of(context, *description);
  if (!session) return std::nullopt;
  auto weights = weights_of(context, session->model.manifest);
  return PlacedPass{*std::move(session), *std::move(description), std::nullopt,
                    std::move(weights)};
}

std::optional<PlacedPass> read_family_model(Context& context,
                                            const SourcePtr& file,
                                            const InputIds& ids,
                                            const ExpectedOutputs* expected) {
  if (!context.options.simulate.dims.empty()) {
    return context.diags.error(Code::Usage, {}, "--dims applies to graph files")
        .help("`--tokens` and `--layers` set the sizes for a whole model")
        .help("`--shrink` makes a smaller model of the same structure");
  }
  const auto shapes = given_shapes(context, expected);
  if (!shapes) return std::nullopt;
  return read_whole_model(context, file, ids, *shapes);
}

}  // namespace

double least_bytes_held(const Graph& graph, bool exact) {
  Counter counter(graph, exact);
  Int128 most = 0;
  for (const NodeId n : graph.nodes.ids()) {
    most = std::max(most, counter.next(n));
  }
  return static_cast<double>(most);
}

bool fits_memory(const Graph& graph, bool exact,
                 const std::optional<int64_t>& max_memory, Diagnostics& diags) {
  const int64_t limit = has_limit() ? memory_left() : kUnknown;
  Counter counter(graph, exact);
  for (const NodeId n : graph.nodes.ids()) {
    const Int128 total = counter.next(n);
    if (total <= limit) continue;
    ValueId largest = graph.nodes[n].result;
    for (const ValueId v : graph.values.ids()) {
      if (counter.bytes(v, n) > counter.bytes(largest, n)) largest = v;
    }
    const Value& value = graph.values[largest];
    const Value& made = graph.values[graph.nodes[n].result];
    diags
        .error(Code::MemoryBudget,
               value.where ? value.where : graph.nodes[n].where,
               "the graph is too large to run: computing " +
                   in_backticks(made.name) + " takes at least " +
                   graph_size_text(total))
        .fact(in_backticks(value.name) + " is " + shape_text(value.shape) +
              ", which takes " + graph_size_text(counter.bytes(largest, n)))
        .fact(allowed_text(max_memory))
        .help(
            "smaller `--tokens` or `--dims`, or `--shrink`, keep the same "
            "structure")
        .help("`--max-memory SIZE` sets the limit");
    return false;
  }
  return true;
}

std::optional<SimulateInput> read_simulation(Context& context) {
  const Options& options = context.options;
  const SimulateRequest& flags = options.simulate;
  SourcePtr file;
  const bool has_graph = flags.graph.has_value() || brings_graph(context, file);
  InputIds ids;
  if (flags.input_ids) {
    ids = read_input_ids(*flags.input_ids, context.host, context.diags);
    if (ids.empty()) return std::nullopt;
  }
  std::optional<ExpectedOutputs> expected;
  if (flags.expect) {
    expected = read_expected(*flags.expect, context.host, context.diags);
    if (!expected) return std::nullopt;
    if (!has_graph && ids.empty()) ids = recorded_ids(*expected);
  }
  const ExpectedOutputs* const recording = expected ? &*expected : nullptr;
  std::optional<PlacedPass> given =
      has_graph ? read_graph_and_model(context, file)
                : read_family_model(context, file, ids, recording);
  if (!given ||
      !has_few_enough_devices(given->session.plan.mesh, context.diags)) {
    return std::nullopt;
  }
  std::optional<Graph> graph = build_graph(
      given->description, given->session.model.manifest, context.diags);
  if (!graph || !fits_memory(*graph, flags.values == ValueSource::Field,
                             context.options.run.max_memory, context.diags)) {
    return std::nullopt;
  }
  static const RuleSet kNoRules;
  if (flags.run_as == RunAs::Compiler) {
    given->session.plan.run_as = RunAs::Compiler;
  }
  const Session& session = given->session;
  const RuleSet& rules = session.rules ? *session.rules : kNoRules;
  std::optional<PlacedValues> placed = place_values(
      *graph, session.model.manifest, session.plan,
      has_graph ? rules : with_assumed_axes(rules, session.plan.mesh, {}),
      name_reading(options.planning), context.diags);
  if (!placed) return std::nullopt;
  const auto source = value_source(context, *given);
  if (!source) return std::nullopt;
  auto inputs = has_graph ? read_given_inputs(context, *graph, ids, recording)
                          : read_given_inputs(context, *graph, {}, recording,
                                              ids.empty() ? "" : "input_ids");
  if (!inputs) return std::nullopt;
  if (expected &&
      !(has_graph ? can_expect_of_graph(context, *graph, session.model.manifest,
                                        *source, *inputs)
                  : can_expect(context, *source))) {
    return std::nullopt;
  }
  const Storage storage = flags.storage.value_or(Storage::F32);
  const Algorithm* algorithm =
      flags.algorithm ? find_algorithm(*flags.algorithm) : nullptr;
  const PartitionOptions how{flags.overlap, algorithm, placed->hook_layouts};
  return SimulateInput{std::move(given->session),
                       std::move(given->run),
                       *std::move(graph),
                       *std::move(placed),
                       how,
                       *source,
                       std::move(given->weights),
                       storage,
                       flags.reduce.value_or(storage),
                       has_graph ? InputIds() : std::move(ids),
                       *std::move(inputs),
                       std::move(expected)};
}

ProgramInput program_input(const SimulateInput& input, const Program& program) {
  const Session& session = input.session;
  ProgramInput result{program,       session.model.manifest,
                      session.plan,  session.rules ? &*session.rules : nullptr,
                      input.storage, input.reduce};
  if (input.model) {
    // A shrunk model contains only parameters that the pass reads.
    result.whole_model = !input.model->shrunk;
    result.only_layers = input.model->only_layers;
    result.tied = input.model->tied.value_or(false);
  }
  return result;
}

RunInput run_input(const SimulateInput& input, const ProgramInput& of,
                   const Simulation& outcome) {
  RunInput run{of, outcome, input.source, !input.ids.empty(),
               input.placed.from};
  for (const GivenInput& each : input.given) {
    run.tokens_given = run.tokens_given || !each.stored;
    run.given_by.emplace(each.value, each.from);
  }
  return run;
}

}  // namespace shardplan::cli
