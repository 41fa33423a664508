// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_input.h"

#include <utility>

#include "base/text.h"
#include "graph/build.h"
#include "io/graph_file.h"
#include "io/load.h"

namespace shardplan::cli {
namespace {

// Elements of all values together: more than a machine's memory holds.
constexpr int64_t kMaxElements = int64_t{1} << 33U;

// The specs that a graph file gives its own parameters, as rules; empty when
// other rules are given, or it gives none to the parameters that it has.
std::optional<RuleSet> own_rules(const Options& options,
                                 const GraphDescription& description) {
  if (!options.rules.empty() || options.pattern != nullptr || options.plan) {
    return std::nullopt;
  }
  RuleSet rules;
  for (const DescribedValue& parameter : description.parameters) {
    if (!parameter.spec) continue;
    Rule rule;
    rule.pattern = exact_pattern(parameter.parameter);
    rule.spec = *parameter.spec;
    rule.where = parameter.where;
    rule.spec_where = parameter.spec_where;
    rule.dim_where.assign(rule.spec.dims.size(), parameter.spec_where);
    rules.rules.push_back(std::move(rule));
  }
  if (rules.rules.empty() && !description.parameters.empty()) {
    return std::nullopt;
  }
  rules.sources = description.sources;
  return rules;
}

std::optional<Session> session_of(Context& context,
                                  const GraphDescription& description) {
  const Options& options = context.options;
  const auto& graph = options.simulation.graph;
  if (graph && *graph != options.arguments.front()) {
    return open_session(context);
  }
  std::optional<Manifest> manifest = graph_manifest(description, context.diags);
  if (!manifest) return std::nullopt;
  return open_session(context, *std::move(manifest),
                      own_rules(options, description));
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

// Whether what is to be computed fits memory.
bool is_small_enough(const Graph& graph, Diagnostics& diags) {
  int64_t total = 0;
  for (const Value& value : graph.values) {
    const std::optional<int64_t> elements = element_count(value.shape);
    const std::optional<int64_t> sum =
        elements ? checked_add(total, *elements) : std::nullopt;
    if (sum && *sum <= kMaxElements) {
      total = *sum;
      continue;
    }
    diags
        .error(Code::Usage, value.where,
               "the graph is too large to run: its values have more than " +
                   count_text(kMaxElements) + " elements")
        .fact("`" + value.name + "` is " + shape_text(value.shape))
        .help("`--dims` makes a smaller one of the same structure");
    return false;
  }
  return true;
}

// Whether the model itself is a graph file; what cannot be read is reported
// where it is read.
bool brings_graph(Context& context) {
  const std::string& path = context.options.arguments.front();
  if (path == "-" || path.starts_with('@')) return true;
  Diagnostics quiet = context.diags.fresh();
  const SourcePtr source = read_source(path, kWholeFile, context.host, quiet);
  if (source == nullptr || looks_like_graph(source->text())) return true;
  context.diags
      .error(Code::Usage, {},
             "no graph was given, and `" + printable(path) + "` is none")
      .help(
          "add `--graph FILE`, or a shipped one such as `--graph @mlp`; "
          "`shardplan list graphs` shows all");
  return false;
}

NameReading reading_of(const Options& options) {
  return {options.mode, options.fallback, options.flax};
}

}  // namespace

std::optional<SimulateInput> read_simulation(Context& context) {
  const Options& options = context.options;
  const SimulationFlags& flags = options.simulation;
  context.progress.stage("reading the graph");
  if (!flags.graph && !brings_graph(context)) return std::nullopt;
  const auto description =
      load_graph(flags.graph.value_or(options.arguments.front()), flags.dims,
                 context.host, context.diags);
  if (!description) return std::nullopt;
  std::optional<Session> session = session_of(context, *description);
  if (!session || !has_few_enough_devices(session->plan.mesh, context.diags)) {
    return std::nullopt;
  }
  std::optional<Graph> graph =
      build_graph(*description, session->manifest, context.diags);
  if (!graph || !is_small_enough(*graph, context.diags)) return std::nullopt;
  static const RuleSet kNoRules;
  std::optional<PlacedValues> placed =
      place_values(*graph, session->manifest, session->plan,
                   session->rules ? *session->rules : kNoRules,
                   reading_of(options), context.diags);
  if (!placed) return std::nullopt;
  const ValueSource source =
      find_value_source(flags.values).value_or(ValueSource::Random);
  auto values = make_values(*graph, source, flags.seed, context.diags);
  if (!values) return std::nullopt;
  const Algorithm* algorithm =
      options.algorithm ? find_algorithm(*options.algorithm) : nullptr;
  return SimulateInput{*std::move(session),
                       *std::move(graph),
                       *std::move(placed),
                       {flags.overlap, algorithm},
                       source,
                       *std::move(values)};
}

}  // namespace shardplan::cli
