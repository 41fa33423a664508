// SPDX-License-Identifier: Apache-2.0
#include "sim/repeated_layers.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "graph/build.h"
#include "resolve/match.h"
#include "sim/activations.h"
#include "spmd/hooked_plan.h"
#include "spmd/partition.h"

namespace shardplan {
namespace {

constexpr int64_t kLongestPeriod = 8;
constexpr int64_t kMostBefore = 8;
constexpr int64_t kMostOtherwise = 8;
// The most layers that are partitioned if none may be left out; more would take
// minutes.
constexpr int64_t kMostLayers = 512;

std::string with_number(std::string_view name, const NumberIn& at,
                        const std::string& number) {
  return std::string(name.substr(0, at.begin)) + number +
         std::string(name.substr(at.end));
}

// Returns the kind of every layer. Layers of one kind have the same parameters,
// placed alike, and the same attention window. If layers are stacked, all are
// of one kind. With `by_training`, the same parameters are also trained in
// them, and gradients flow into all of them or into none: they flow into no
// layer up to and including the first that is trained.
std::vector<int> layer_kinds(const ForwardGraphs& model, const Plan& plan,
                             bool by_training) {
  // The number of its name, its placement, and whether it is trained.
  using Parameter = std::tuple<int, uint32_t, bool>;
  std::vector<std::vector<Parameter>> parameters(to_size(model.layers));
  for (size_t i = 0; i < model.place_of.size(); ++i) {
    const auto& [layer, name, other] = model.place_of[i];
    if (layer < 0 || layer >= model.layers || other) continue;
    nth(parameters, layer)
        .emplace_back(name, plan.placement_of[i],
                      by_training && !is_frozen(model, i));
  }
  std::map<std::tuple<std::vector<Parameter>, int64_t, bool>, int> kinds;
  std::vector<int> kind_of;
  bool has_gradient = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<Parameter>& own = parameters[i];
    std::ranges::sort(own);
    const bool trained = std::ranges::any_of(
        own, [](const Parameter& each) { return std::get<bool>(each); });
    const int64_t window = i < model.windows.size() ? model.windows[i] : 0;
    const auto [kind, is_new] =
        kinds.emplace(std::tuple(std::move(own), window, has_gradient),
                      static_cast<int>(kinds.size()));
    kind_of.push_back(kind->second);
    has_gradient = has_gradient || trained;
  }
  return kind_of;
}

// REQUIRES: there are at least `begin + period` kinds.
bool repeats(const std::vector<int>& kinds, int64_t begin, int64_t period) {
  const auto first = kinds.begin() + begin;
  return std::equal(first + period, kinds.end(), first);
}

// Returns the cycle that keeps the fewest layers, or nothing if none keeps
// fewer than all. The last `tail_layers` layers are not part of the cycle.
std::optional<LayerCycle> find_cycle(std::vector<int> kinds,
                                     int64_t tail_layers) {
  const auto layers = static_cast<int64_t>(kinds.size()) - tail_layers;
  if (layers < 1) return std::nullopt;
  kinds.resize(to_size(layers));
  std::optional<LayerCycle> best;
  for (int64_t begin = 0; begin <= kMostBefore; ++begin) {
    for (int64_t period = 1; period <= kLongestPeriod; ++period) {
      const int64_t rest = layers - begin;
      const int64_t count = begin + kPeriods * period + rest % period;
      if (count >= layers ||
          (best && count + tail_layers >= best->partitioned) ||
          !repeats(kinds, begin, period)) {
        continue;
      }
      best = {begin, period, count + tail_layers, rest / period - kPeriods + 1,
              tail_layers};
    }
  }
  return best;
}

// If something is frozen, the last layers may differ in what is trained. Others
// may stand for them as long as they are placed like the layers before them.
std::optional<LayerCycle> find_cycle(const ForwardGraphs& model,
                                     const Plan& plan) {
  const std::vector<int> kinds = layer_kinds(model, plan, false);
  if (!contains(model.frozen, true)) return find_cycle(kinds, 0);
  const std::vector<int> trained = layer_kinds(model, plan, true);
  std::optional<LayerCycle> best;
  for (int64_t tail_layers = 0; tail_layers <= kMostOtherwise; ++tail_layers) {
    const auto found = find_cycle(trained, tail_layers);
    if (!found || (best && found->partitioned >= best->partitioned) ||
        !repeats(kinds, found->begin, found->period)) {
      continue;
    }
    best = found;
  }
  return best;
}

// Returns whether all layers form one stack. The layers of an encoder and of a
// decoder are counted separately, and one may have more than the other.
bool is_one_stack(const Graph& graph) {
  return std::ranges::all_of(graph.layers, [](const GraphLayer& layer) {
    return layer.stack == kMainStack;
  });
}

bool reads_others(const Graph& graph, const ForwardGraphs& model) {
  return std::ranges::any_of(graph.values, [&](const Value& value) {
    return value.kind == Value::Kind::Parameter &&
           std::ranges::any_of(model.others, [&](const std::string& begin) {
             return value.parameter.starts_with(begin);
           });
  });
}

// Returns whether activation rules, which may name layers, apply to the layers
// that are left out as they apply to those of the second period.
bool names_no_layer(const Graph& graph, const RuleSet& rules,
                    const LayerCycle& cycle, int64_t layers) {
  if (rules.activations.empty()) return true;
  Diagnostics quiet;
  const auto matcher = compile_activations(rules, quiet);
  if (!matcher) return false;
  std::vector<int> found;
  const auto winner = [&](std::string_view name) {
    matcher->find(name, found);
    return found.empty() ? -1 : found.front();
  };
  for (const ValueId v : graph.values.ids()) {
    const Value& value = graph.values[v];
    const GraphLayer* const of = layer_of(graph, v);
    if (of == nullptr || period_of(cycle, of->number) != 1) continue;
    const int decided = winner(value.name);
    const NumberIn at = first_number(value.name);
    for (int64_t other = of->number % cycle.period; other < layers;
         other += cycle.period) {
      if (other < cycle.begin) continue;
      if (winner(with_number(value.name, at, std::to_string(other))) !=
          decided) {
        return false;
      }
    }
  }
  return true;
}

// Returns whether the second period hands on what a neighbour does. If so,
// every period between the first and the last does.
bool has_equal_layouts(const Program& program, const LayerCycle& cycle) {
  PeriodItems<const Layout&> layouts;
  for (const ValueId v : program.layouts.ids()) {
    const GraphLayer* const layer = layer_of(*program.graph, v);
    if (layer != nullptr) layouts.add(cycle, layer->number, program.layouts[v]);
  }
  return layouts.is_steady();
}

// The most numbers that one device may send or receive at once: more than fit
// on any device, but so few that their bytes, sent twice, fit 63 bits.
constexpr int64_t kMostNumbers = int64_t{1} << 58U;

bool can_be_counted(const Program& program, Diagnostics& diags) {
  const auto is_small = [&](RegisterId number) {
    const Register& one = program.registers[number];
    const auto elements = element_count(one.local_shape);
    return elements && *elements <= kMostNumbers;
  };
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Collective ||
        (is_small(at.result) && is_small(at.operands[0]))) {
      continue;
    }
    const Register& one = program.registers[at.operands[0]];
    const Value& value = program.graph->values[one.value];
    diags
        .error(Code::MemoryBudget, {},
               "the forward pass is too large to count the bytes of one device")
        .fact(in_backticks(value.name) + " is " + shape_text(value.shape) +
              ", " + shape_text(one.local_shape) + " on each of " +
              plural(program.mesh.devices(), "device"))
        .help("reduce `--batch` or `--seq`, or shard them over more devices");
    return false;
  }
  return true;
}

// Returns the model's parameter that a parameter of a graph with `partitioned`
// layers stands for: the graph's last layers stand for the model's last ones.
std::string meant_parameter(const ForwardGraphs& model, const std::string& name,
                            const std::optional<LayerCycle>& cycle) {
  if (!cycle || cycle->tail_layers == 0) return name;
  const NumberIn at = first_number(name);
  if (at.number < cycle->partitioned - cycle->tail_layers) return name;
  return with_number(
      name, at, std::to_string(at.number + model.layers - cycle->partitioned));
}

void mark_frozen(const ForwardGraphs& model,
                 const std::optional<LayerCycle>& cycle, Graph& graph) {
  if (model.frozen.empty()) return;
  std::set<std::string_view> frozen;
  for (size_t i = 0; i < model.frozen.size(); ++i) {
    if (model.frozen[i]) frozen.insert(model.manifest->name(i));
  }
  for (Value& value : graph.values) {
    value.frozen =
        value.kind == Value::Kind::Parameter &&
        frozen.contains(meant_parameter(model, value.parameter, cycle));
  }
}

// Returns the graph of the layers that are partitioned; null, with the reason
// reported, if it cannot be built.
const Graph* graph_of(const ForwardGraphs& model,
                      const std::optional<LayerCycle>& cycle,
                      Diagnostics& diags) {
  const int64_t layers = cycle ? cycle->partitioned : model.layers;
  const std::pair key(layers, cycle ? cycle->tail_layers : 0);
  const std::lock_guard lock(model.graphs->mutex);
  auto& built = model.graphs->built;
  if (const auto known = built.find(key); known != built.end()) {
    return &known->second;
  }
  ForwardPass pass = model.pass;
  // If no layer is left out, it is not set how many there are: stacks that it
  // does not count may have more layers.
  if (layers < model.layers) pass.layers = layers;
  const auto description =
      write_forward(model.model, {*model.manifest, pass}, diags);
  if (!description) return nullptr;
  auto graph = build_graph(*description, *model.manifest, diags);
  if (!graph) return nullptr;
  mark_frozen(model, cycle, *graph);
  return &built.emplace(key, *std::move(graph)).first->second;
}

// Reports that the program is a compiler's although hooks run another one.
void note_without_hook_layouts(const Graph& graph, const HookedWalk& walk,
                               Diagnostics& diags) {
  if (walk.fault) {
    const std::string& at = graph.values[walk.fault->value].name;
    diags
        .report(Code::NotAsHooks, {},
                "run with hooks, the plan " +
                    std::string(walk.fault->shapes_differ
                                    ? "fails at "
                                    : "gives wrong values for ") +
                    in_backticks(at))
        .fact("the collectives are those that a compiler would insert")
        .help("run `shardplan simulate` to see the rules and styles");
    return;
  }
  diags
      .report(Code::NotAsHooks, Severity::Note, {},
              "partitioned as by a compiler, not as the hooks run it")
      .fact(walk.unknown.empty() ? "another axis shards more than the batch"
                                 : walk.unknown);
}

std::optional<Program> partitioned(const Graph& graph, const ForwardPlan& of,
                                   Diagnostics& diags) {
  static const RuleSet kNoRules;
  const RuleSet& rules = of.rules != nullptr ? *of.rules : kNoRules;
  const auto placed =
      place_values(graph, of.manifest, of.plan, rules, of.reading, diags);
  if (!placed) return std::nullopt;
  if (placed->hooked && !placed->hook_layouts) {
    note_without_hook_layouts(graph, *placed->hooked, diags);
  }
  Program program = partition(graph, placed->mesh, placed->wanted,
                              {.hook_layouts = placed->hook_layouts});
  if (!can_be_counted(program, diags)) return std::nullopt;
  return program;
}

// Partitions a few layers in place of all; returns nothing if that is not
// possible for any reason.
std::optional<RepeatedProgram> of_few_layers(const ForwardGraphs& model,
                                             const ForwardPlan& of,
                                             const IsSteady& is_steady,
                                             Diagnostics& diags) {
  const auto cycle = find_cycle(model, of.plan);
  if (!cycle) return std::nullopt;
  // Hooks of modules without parameters do not show in any placement.
  if (of.plan.run_as == RunAs::Hooks && last_number_named(of.plan) >= 0) {
    return std::nullopt;
  }
  Diagnostics quiet;
  const Graph* graph = graph_of(model, cycle, quiet);
  if (graph == nullptr || !is_one_stack(*graph) ||
      reads_others(*graph, model) ||
      (of.rules != nullptr &&
       !names_no_layer(*graph, *of.rules, *cycle, model.layers))) {
    return std::nullopt;
  }
  auto program = partitioned(*graph, of, quiet);
  if (!program || !has_equal_layouts(*program, *cycle) ||
      !is_steady(*program, *cycle)) {
    return std::nullopt;
  }
  diags.add_all(quiet);
  return RepeatedProgram{*std::move(program), cycle, cycle->partitioned};
}

}  // namespace

int64_t period_of(const LayerCycle& cycle, int64_t layer) {
  return layer < cycle.begin ? -1 : (layer - cycle.begin) / cycle.period;
}

int64_t layer_for(const LayerCycle& cycle, int64_t layer) {
  const int64_t period = period_of(cycle, layer);
  if (period < 1) return layer;
  if (period > cycle.times) return layer - (cycle.times - 1) * cycle.period;
  return cycle.begin + cycle.period + (layer - cycle.begin) % cycle.period;
}

ForwardGraphs forward_graphs(const Manifest& manifest, ForwardDefinition given,
                             const ForwardPass& pass,
                             std::vector<bool> frozen) {
  const int64_t layers =
      layers_run(pass, model_size(given, "layers").value_or(0));
  std::vector<int64_t> windows = model_table(given, "window");
  ForwardGraphs model{&manifest, std::move(given), std::move(windows), pass,
                      layers};
  std::map<std::string, int> numbers;
  const NumberedLayers numbered = numbered_layers(manifest);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto& [stack, number, end] = numbered.of[i];
    LayerPlace place{number};
    if (stack >= 0) {
      const LayerStack& of = nth(numbered.stacks, stack);
      const auto name =
          of.prefix + "*" + std::string(manifest.name(i).substr(end));
      place.name =
          numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
      place.other = of.last < layers - 1;
    }
    model.place_of.push_back(place);
  }
  for (const LayerStack& stack : numbered.stacks) {
    if (stack.last < layers - 1) model.others.push_back(stack.prefix);
  }
  model.frozen = std::move(frozen);
  return model;
}

std::optional<RepeatedProgram> partition_layers(const ForwardGraphs& model,
                                                const ForwardPlan& of,
                                                const IsSteady& is_steady,
                                                EqualLayers equal_layers,
                                                Diagnostics& diags) {
  if (equal_layers == EqualLayers::Once) {
    if (auto few = of_few_layers(model, of, is_steady, diags)) return few;
  }
  if (model.layers > kMostLayers) {
    return diags.error(Code::MemoryBudget, {},
                       "the layers are placed in too many different ways to "
                       "partition a forward pass");
  }
  const Graph* graph = graph_of(model, std::nullopt, diags);
  if (graph == nullptr) return std::nullopt;
  auto program = partitioned(*graph, of, diags);
  if (!program) return std::nullopt;
  return RepeatedProgram{*std::move(program), std::nullopt, model.layers};
}

}  // namespace shardplan
