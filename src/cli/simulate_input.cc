// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_input.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/simulate_memory.h"
#include "graph/build.h"
#include "io/checkpoint.h"
#include "io/graph_file.h"
#include "io/load.h"
#include "resolve/match.h"

namespace shardplan::cli {
namespace {

// Parameters that the graph gives a spec itself.
std::vector<const DescribedValue*> placed_by_graph(
    const GraphDescription& description) {
  std::vector<const DescribedValue*> placed;
  for (const DescribedValue& parameter : description.parameters) {
    if (parameter.spec) placed.push_back(&parameter);
  }
  return placed;
}

// The spec that a graph file gives a parameter, as a rule.
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

// The given rules, then those of the graph for parameters that none of them is
// found in: rules win over what a graph says of a model. Empty, with the reason
// reported; SP105 is left to whoever resolves them.
std::optional<RuleSet> rules_of(Context& context, const Manifest& manifest,
                                const GraphDescription& description) {
  const Options& options = context.options;
  RuleSet rules;
  if (!options.rules.empty() || options.pattern != nullptr) {
    auto given = read_given_rules(context);
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

// "`up` and 2 more"
std::string first_of(const std::vector<std::string>& names) {
  std::string text = "`" + printable(names.front()) + "`";
  if (names.size() == 1) return text;
  return text + " and " + count_text(static_cast<int64_t>(names.size()) - 1) +
         " more";
}

// Specs that a graph gives and the rules, or the plan, overrule.
void report_overruled(const GraphDescription& description,
                      const Session& session, Diagnostics& diags) {
  const auto numbers = numbers_of(session.manifest);
  std::vector<std::string> names;
  const DescribedValue* first = nullptr;
  for (const DescribedValue* parameter : placed_by_graph(description)) {
    const auto found = numbers.find(parameter->parameter);
    if (found == numbers.end()) continue;
    const Placement& placement = session.plan.of(found->second);
    const size_t rank = placement.type.shape.size();
    // In full: [tp] is [tp, null].
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
      .report(Code::ShadowedRule, Severity::Note, first->spec_where,
              who + " where " + first_of(names) +
                  (names.size() == 1 ? " lies, not the graph's own spec"
                                     : " lie, not the graph's own specs"))
      .fact("`" + printable(first->parameter) + "` lies as " +
            spec_text(placement.spec) + "; the graph says " +
            spec_text(*first->spec))
      .help(session.rules
                ? "leave the rules that are found in it out to run the graph "
                  "as it is"
                : "leave out `--plan` to run the graph as it is")
      .parameters(std::move(names));
}

// Labels of the graph's parameters, where the model gives none itself.
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
          .report(
              Code::OverriddenLogicalAxes, Severity::Note, parameter.axes_where,
              "the model's logical axes of `" + printable(parameter.parameter) +
                  "` are taken, not the graph's")
          .help("leave out `axes` of the parameter, or make them agree");
    }
  }
}

// The axes that a graph names by itself, which need no rule.
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
  const Options& options = context.options;
  const auto& graph = options.simulation.graph;
  const bool apart = graph && *graph != options.arguments.front();
  std::optional<Manifest> manifest =
      apart ? read_manifest(context)
            : graph_manifest(description, context.diags);
  if (!manifest) return std::nullopt;
  if (apart) add_labels(description, *manifest, context.diags);
  const bool given = !options.rules.empty() || options.pattern != nullptr;
  const bool placed = !placed_by_graph(description).empty();
  std::optional<RuleSet> rules;
  // A graph without parameters needs no rules; one that says nothing of those
  // that it has needs others.
  const bool needs_none = !apart && description.parameters.empty();
  if (!options.plan && (placed || (needs_none && !given))) {
    rules = rules_of(context, *manifest, description);
    if (!rules) return std::nullopt;
  }
  auto session = open_session(context, *std::move(manifest), std::move(rules),
                              axes_of(description));
  if (session) report_overruled(description, *session, context.diags);
  return session;
}

// Every device has tensors of its own.
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

// Whether the model itself is a graph file; what cannot be read is reported
// where it is read.
bool brings_graph(Context& context) {
  const std::string& path = context.options.arguments.front();
  if (path == "-" || path.starts_with('@')) return true;
  Diagnostics quiet = context.diags.fresh();
  const SourcePtr source = read_source(path, kWholeFile, context.host, quiet);
  return source != nullptr && looks_like_graph(source->text());
}

// Flags that say how a whole model is run, given with a graph.
bool fit_a_graph(const SimulationFlags& flags, Diagnostics& diags) {
  const std::pair<bool, const char*> given[] = {
      {flags.layers.has_value(), "--layers"},
      {flags.batch.has_value(), "--tokens"},
      {flags.input_ids.has_value(), "--input-ids"},
      {flags.capacity.has_value(), "--capacity"},
      {flags.shrink, "--shrink"}};
  bool fit = true;
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    diags
        .error(Code::Usage, {},
               std::string(name) + " is for whole models, not for graph files")
        .help("`--dims` gives the sizes of a graph file");
    fit = false;
  }
  return fit;
}

// What the run computes with: weights where there are any and nothing else is
// asked for.
std::optional<ValueSource> value_source(Context& context,
                                        const std::optional<ModelRun>& model) {
  const SimulationFlags& flags = context.options.simulation;
  const std::string& path = context.options.arguments.front();
  const bool shrunk = model && model->shrunk;
  const auto wanted = flags.values;
  if (wanted && *wanted != ValueSource::Checkpoint) return wanted;
  const bool weights = !shrunk && has_weights(path, context.host);
  if (weights) return ValueSource::Checkpoint;
  if (!wanted) return ValueSource::Random;
  return context.diags
      .error(Code::Usage, {}, "there are no weights to compute with")
      .fact(shrunk ? "a model made smaller has none"
                   : "`" + printable(path) + "` is no checkpoint with data")
      .help("`--values random` draws numbers");
}

// Whether recorded outputs can be asked for: they are of the model's own
// weights.
bool can_expect(Context& context, ValueSource source) {
  if (!context.options.simulation.expect) return true;
  if (source == ValueSource::Checkpoint) return true;
  context.diags
      .error(Code::Usage, {}, "--expect needs the weights of a checkpoint")
      .help("recorded outputs are not those of drawn numbers");
  return false;
}

NameReading reading_of(const Options& options) {
  return {options.mode, options.fallback, options.flax};
}

// A graph, and the session of the model that it is the forward pass of.
struct Placed {
  Session session;
  std::optional<ModelRun> model;
  GraphDescription description;
};

std::optional<Placed> read_graph_and_model(Context& context) {
  const Options& options = context.options;
  const SimulationFlags& flags = options.simulation;
  context.progress.stage("reading the graph");
  if (!fit_a_graph(flags, context.diags)) return std::nullopt;
  auto description = load_graph(flags.graph.value_or(options.arguments.front()),
                                flags.dims, context.host, context.diags);
  if (!description) return std::nullopt;
  std::optional<Session> session = session_of(context, *description);
  if (!session) return std::nullopt;
  return Placed{*std::move(session), std::nullopt, *std::move(description)};
}

std::optional<Placed> read_family_model(Context& context, const InputIds& ids) {
  if (!context.options.simulation.dims.empty()) {
    return context.diags.error(Code::Usage, {}, "--dims is for graph files")
        .help("`--tokens` and `--layers` give the sizes of a whole model's run")
        .help("`--shrink` makes a smaller model of the same structure");
  }
  std::optional<WholeModel> model = read_whole_model(context, ids);
  if (!model) return std::nullopt;
  return Placed{std::move(model->session), std::move(model->run),
                std::move(model->description)};
}

}  // namespace

std::optional<SimulateInput> read_simulation(Context& context) {
  const Options& options = context.options;
  const SimulationFlags& flags = options.simulation;
  const bool has_graph = flags.graph.has_value() || brings_graph(context);
  InputIds ids;
  if (!has_graph && flags.input_ids) {
    ids = read_input_ids(*flags.input_ids, context.host, context.diags);
    if (ids.empty()) return std::nullopt;
  }
  std::optional<ExpectedOutputs> expected;
  if (flags.expect) {
    expected = read_expected(*flags.expect, context.host, context.diags);
    if (!expected) return std::nullopt;
    if (!has_graph && ids.empty()) ids = recorded_ids(*expected);
  }
  std::optional<Placed> given = has_graph ? read_graph_and_model(context)
                                          : read_family_model(context, ids);
  if (!given ||
      !has_few_enough_devices(given->session.plan.mesh, context.diags)) {
    return std::nullopt;
  }
  std::optional<Graph> graph =
      build_graph(given->description, given->session.manifest, context.diags);
  if (!graph || !fits_memory(*graph, flags.values == ValueSource::Field,
                             context.options, context.diags)) {
    return std::nullopt;
  }
  static const RuleSet kNoRules;
  const Session& session = given->session;
  std::optional<PlacedValues> placed =
      place_values(*graph, session.manifest, session.plan,
                   session.rules ? *session.rules : kNoRules,
                   reading_of(options), context.diags);
  if (!placed) return std::nullopt;
  const auto source = value_source(context, given->model);
  if (!source || !can_expect(context, *source)) return std::nullopt;
  const Storage storage = flags.storage.value_or(Storage::F32);
  const Algorithm* algorithm =
      options.algorithm ? find_algorithm(*options.algorithm) : nullptr;
  return SimulateInput{std::move(given->session),
                       std::move(given->model),
                       *std::move(graph),
                       *std::move(placed),
                       {flags.overlap, algorithm},
                       *source,
                       storage,
                       flags.reduce.value_or(storage),
                       std::move(ids),
                       std::move(expected)};
}

}  // namespace shardplan::cli
