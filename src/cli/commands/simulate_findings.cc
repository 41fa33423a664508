// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/simulate_findings.h"

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "core/fold.h"
#include "findings/graph_findings.h"
#include "sim/locate.h"
#include "sim/price.h"
#include "sim/verdict.h"

namespace shardplan::cli {
namespace {

const Value& value_of(const Graph& graph, int number) {
  return graph.values[static_cast<size_t>(number)];
}

// What the graph file calls it: parts of composites go by their result.
std::string shown_name(const Graph& graph, int value) {
  const std::string& name = value_of(graph, value).name;
  return name.substr(0, name.find(':'));
}

// "`h` (linear)"
std::string served_by(const Graph& graph, int node) {
  if (node < 0) return "the output";
  const GraphNode& by = graph.nodes[static_cast<size_t>(node)];
  return "`" + shown_name(graph, by.result) + "` (" + by.label + ")";
}

// The parameters that a value is computed from: those of its own operation, or
// else the nearest before it.
std::vector<int> nearest_parameters(const Graph& graph, int value) {
  std::vector<int> layer = {value};
  std::vector<bool> seen(graph.values.size());
  while (!layer.empty()) {
    std::vector<int> parameters;
    std::vector<int> next;
    for (const int at : layer) {
      if (value_of(graph, at).kind == Value::Kind::Parameter) {
        parameters.push_back(at);
      }
      const int node = value_of(graph, at).node;
      if (node < 0) continue;
      for (const int operand :
           graph.nodes[static_cast<size_t>(node)].operands) {
        if (seen[static_cast<size_t>(operand)]) continue;
        seen[static_cast<size_t>(operand)] = true;
        next.push_back(operand);
      }
    }
    if (!parameters.empty()) return parameters;
    layer = std::move(next);
  }
  return {};
}

std::string device_text(const Mesh& mesh, int64_t device) {
  std::string text = "device " + std::to_string(device) + " (";
  const std::vector<int64_t> where = mesh.coordinates(device);
  for (size_t i = 0; i < where.size(); ++i) {
    text += (i > 0 ? ", " : "") + mesh.axes()[i].name + " " +
            std::to_string(where[i]);
  }
  return text + ")";
}

// A parameter goes by its name in the model.
std::string name_of_value(const Graph& graph, int number) {
  const Value& value = value_of(graph, number);
  const bool is_parameter = value.kind == Value::Kind::Parameter;
  return "`" + printable(is_parameter ? value.parameter : value.name) + "`";
}

Span place_of(const Graph& graph, int number) {
  const Value& value = value_of(graph, number);
  return value.node < 0 ? value.where
                        : graph.nodes[static_cast<size_t>(value.node)].where;
}

// "3 of its 4,096 numbers, NaN among them"
std::string odd_numbers(const NonFinite& found) {
  const std::string all = found.count == found.elements
                              ? "all of its " + plural(found.elements, "number")
                              : count_text(found.count) + " of its " +
                                    plural(found.elements, "number");
  const std::string kind = std::isnan(found.worst) ? "NaN"
                           : found.worst > 0       ? "inf"
                                                   : "-inf";
  return all + (found.count == 1 ? ", " + kind : ", " + kind + " among them");
}

void report_non_finite(const SimulateInput& input, const NonFinite& found,
                       Diagnostics& diags) {
  const Graph& graph = input.graph;
  const Value& value = value_of(graph, found.value);
  const std::string name = name_of_value(graph, found.value);
  const bool made = value.kind == Value::Kind::Result;
  auto finding =
      diags.report(Code::NonFiniteValues, place_of(graph, found.value),
                   made ? name + " is not finite in the unsharded run"
                        : name + " holds values that are not finite");
  finding.fact(odd_numbers(found));
  if (made) {
    finding.fact("computed by " + served_by(graph, value.node) +
                 " in double precision, from values that are finite");
  } else {
    finding.fact(input.source == ValueSource::Checkpoint
                     ? "they are in the checkpoint: no run made them"
                     : "they are there before the run");
  }
  finding.fact(
      "infinities and NaNs are alike in both runs whatever the plan does: what "
      "is computed from them is not compared");
  finding.help(made ? "smaller values, or those that `--values random` draws; "
                      "`--values field` compares without floating point"
                    : "put the tensor right; `--values random` runs the plan "
                      "on other numbers");
}

// `alone`: the unsharded run is finite in the same types.
void report_overflow(const SimulateInput& input, const Program& program,
                     const NonFinite& found, bool alone, Diagnostics& diags) {
  const Graph& graph = input.graph;
  const Value& value = value_of(graph, found.value);
  const std::string types = input.storage == input.reduce
                                ? std::string(storage_name(input.storage))
                                : std::string(storage_name(input.storage)) +
                                      " with sums in " +
                                      std::string(storage_name(input.reduce));
  auto finding = diags.report(
      Code::NonFiniteValues, place_of(graph, found.value),
      name_of_value(graph, found.value) + " is not finite in " + types + " " +
          (found.device < 0 ? "in the unsharded run"
                            : "on " + device_text(program.mesh, found.device)));
  finding.fact(odd_numbers(found));
  if (value.node >= 0) {
    finding.fact("computed by " + served_by(graph, value.node));
  }
  finding.fact(alone ? "in the unsharded run it is finite"
                     : "in double precision it is finite");
  finding.help(
      "bf16 and f32 reach to 3e38, f16 to 65,504; `--reduce-dtype f32` adds up "
      "parts of sums in f32");
}

// The same in every layer once.
std::string unseen_text(const Graph& graph, const Unseen& found) {
  const std::string name = name_of_value(graph, found.value);
  const std::string axes = fmt::format("{}", fmt::join(found.axes, ", "));
  switch (found.kind) {
    case Unseen::Kind::ZeroInput:
    case Unseen::Kind::ZeroResult:
      return name + " is all zero";
    case Unseen::Kind::LostTerm:
      return name + " is the same without " +
             name_of_value(graph, found.operand) + ", to 2^-30";
    case Unseen::Kind::LostParts:
      return "no two devices along " + axes + " add anything to " + name;
    case Unseen::Kind::AlikeShards:
      return "all devices along " + axes + " have the same of " + name;
    case Unseen::Kind::OneToken:
      return "every sequence has one token, which sees nothing but itself";
    case Unseen::Kind::NoNumbers:
      break;
  }
  return "the outputs have no elements: nothing was compared";
}

std::string hidden_text(Unseen::Kind kind) {
  switch (kind) {
    case Unseen::Kind::ZeroInput:
      return "zero times anything is zero, and so is zero added twice";
    case Unseen::Kind::ZeroResult:
      return "what it is computed from does not show in it";
    case Unseen::Kind::LostTerm:
      return "it could be added on every device, or on none";
    case Unseen::Kind::LostParts:
      return "a part could stand for the sum";
    case Unseen::Kind::AlikeShards:
      return "devices could have each other's shards";
    case Unseen::Kind::OneToken:
      return "its attention is 1 whatever queries and keys are";
    case Unseen::Kind::NoNumbers:
      break;
  }
  return "two runs that give nothing always agree";
}

std::string unseen_help(const SimulateInput& input, Unseen::Kind kind) {
  if (kind == Unseen::Kind::OneToken) {
    return "give sequences more tokens: `--tokens BxS`";
  }
  if (kind == Unseen::Kind::NoNumbers) return "give no dimension size 0";
  if (kind == Unseen::Kind::AlikeShards && !input.ids.empty()) {
    return "give sequences that differ, or leave out the tokens; `--values "
           "field` compares every operation on numbers of its own";
  }
  return input.source == ValueSource::Random
             ? "`--values field` compares every operation on numbers of its own"
             : "`--values random` draws other numbers for all parameters, "
               "`--values field` compares exact integers";
}

// Once per kind: what is alike in every layer, and then what else there is.
void report_unseen(const SimulateInput& input, const Simulation& outcome,
                   Diagnostics& diags) {
  const Graph& graph = input.graph;
  constexpr size_t kMostFacts = 8;
  std::map<Unseen::Kind, std::vector<const Unseen*>> kinds;
  for (const Unseen& each : outcome.unseen) kinds[each.kind].push_back(&each);
  for (const auto& [kind, all] : kinds) {
    auto finding =
        diags.report(Code::Inconclusive, place_of(graph, all.front()->value),
                     "these values could not have shown a fault: " +
                         unseen_text(graph, *all.front()));
    std::map<std::string, int64_t> families;
    std::vector<std::string> order;
    for (const Unseen* each : all) {
      const std::string family = folded_name(unseen_text(graph, *each));
      if (families[family]++ == 0) order.push_back(family);
    }
    finding.fact(hidden_text(kind));
    for (size_t i = 0; i < order.size() && i < kMostFacts; ++i) {
      const int64_t times = families[order[i]];
      if (times > 1) {
        finding.fact(order[i] + ": " + count_text(times) + " times");
      } else if (i > 0) {
        finding.fact(order[i]);
      }
    }
    if (order.size() > kMostFacts) {
      finding.fact("and " +
                   count_text(static_cast<int64_t>(order.size() - kMostFacts)) +
                   " more");
    }
    finding.findings(static_cast<int64_t>(all.size()));
    finding.help(unseen_help(input, kind));
  }
}

// Where the rule stands that placed a parameter; nothing in saved plans.
Span rule_span(const SimulateInput& input, int parameter) {
  const Session& session = input.session;
  if (!session.rules) return {};
  const std::string& name = value_of(input.graph, parameter).parameter;
  for (size_t i = 0; i < session.manifest.size(); ++i) {
    if (session.manifest.name(i) != name) continue;
    const int rule = session.plan.of(i).rule;
    if (rule == 0) return {};
    return session.rules->rules[static_cast<size_t>(rule) - 1].where;
  }
  return {};
}

// What a collective moves.
const Register& moved_register(const Program& program, const Instruction& at) {
  const bool joined = at.kind == Instruction::Kind::Compute;
  const int number = joined && at.overlapped >= 0
                         ? at.operands[static_cast<size_t>(at.overlapped)]
                         : at.operands[0];
  return program.registers[static_cast<size_t>(number)];
}

// The same reshard in every layer, whose names differ in numbers.
struct RepeatedReshard {
  const Instruction* first = nullptr;
  int64_t count = 0;
  int64_t moved = 0;  // bytes, over all devices and all of them
};

std::vector<RepeatedReshard> fold_reshards(const SimulateInput& input,
                                           const Program& program) {
  const Graph& graph = *program.graph;
  using Key = std::tuple<std::string, std::string, std::string_view, AxisNames,
                         CollectiveKind, bool, Layout, Shape>;
  std::map<Key, size_t> known;
  std::vector<RepeatedReshard> folded;
  for (const CollectivePrice& priced :
       price(program, input.storage, input.reduce)) {
    const Instruction& at =
        program.instructions[static_cast<size_t>(priced.instruction)];
    if (at.cause != Cause::Implicit && !at.rematerializes) continue;
    const Register& from = moved_register(program, at);
    const std::string_view label =
        at.node < 0 ? std::string_view()
                    : graph.nodes[static_cast<size_t>(at.node)].label;
    const Key key = {folded_name(value_of(graph, from.value).name),
                     folded_name(served_value(program, at)),
                     label,
                     at.axes,
                     at.collective,
                     at.rematerializes,
                     from.layout,
                     from.local_shape};
    const auto [place, added] = known.emplace(key, folded.size());
    if (added) folded.push_back({&at, 0, 0});
    ++folded[place->second].count;
    folded[place->second].moved += priced.bytes;
  }
  return folded;
}

void report_reshard(const SimulateInput& input, const Program& program,
                    const RepeatedReshard& reshard, Diagnostics& diags) {
  const Graph& graph = input.graph;
  const Instruction& at = *reshard.first;
  const Register& from = moved_register(program, at);
  const Value& value = value_of(graph, from.value);
  const Span where = at.node < 0
                         ? value.where
                         : graph.nodes[static_cast<size_t>(at.node)].where;
  const std::string name = "`" + value.name + "`";
  const std::string kind(collective_name(at.collective));
  const std::string axes = fmt::format("{}", fmt::join(at.axes, ", "));
  const std::string message =
      at.rematerializes
          ? name + " is gathered over " + axes +
                " only to be cut otherwise for " + served_by(graph, at.node)
          : name + " is resharded for " + served_by(graph, at.node) + ": " +
                kind + " over " + axes;
  auto finding = diags.report(
      at.rematerializes ? Code::FullRematerialization : Code::ImplicitReshard,
      where, message);
  const KeptTypes precision{Arithmetic::F32, input.storage, input.reduce};
  const auto number = static_cast<size_t>(&from - program.registers.data());
  const int64_t bytes =
      *element_count(from.local_shape) *
      storage_bytes(register_types(program, precision)[number]);
  finding.fact(name + " " + shape_text(value.shape) + " lies as " +
               layout_text(from.layout) + ", " +
               bytes_text(static_cast<double>(bytes)) + " per device");
  finding.fact("all devices together send " +
               bytes_text(static_cast<double>(reshard.moved)));
  if (reshard.count > 1) {
    finding
        .fact(count_text(reshard.count) + " times, wherever `" +
              folded_name(value.name) + "` is")
        .findings(reshard.count);
  }
  if (at.node >= 0) {
    const GraphNode& node = graph.nodes[static_cast<size_t>(at.node)];
    for (const int operand : node.operands) {
      if (operand == from.value) continue;
      const Layout& other = program.layouts[static_cast<size_t>(operand)];
      finding.fact("`" + value_of(graph, operand).name + "` lies as " +
                   layout_text(other));
    }
  }
  if (at.rematerializes) {
    finding.help(
        "choose layouts that differ by one step, such as axes added to a "
        "dimension, or go through one in between");
  } else if (value.kind == Value::Kind::Parameter) {
    finding.help(
        "give the parameter another spec, or the activation one that agrees "
        "with it");
  } else {
    finding.help("nothing says how " + name +
                 " is to lie: name it under `activations:` in the rules, or "
                 "give it a `constraint` in the graph");
  }
}

}  // namespace

std::string served_value(const Program& program, const Instruction& at) {
  const Graph& graph = *program.graph;
  const int value =
      at.node < 0 ? program.registers[static_cast<size_t>(at.result)].value
                  : graph.nodes[static_cast<size_t>(at.node)].result;
  return shown_name(graph, value);
}

void report_program(const SimulateInput& input, const Program& program,
                    Diagnostics& diags) {
  for (const RepeatedReshard& reshard : fold_reshards(input, program)) {
    report_reshard(input, program, reshard, diags);
  }
  UnreadScope scope;
  if (input.model) {
    // A model made smaller holds nothing but what is read.
    scope = {!input.model->shrunk, input.model->only_layers};
    if (input.model->tied.value_or(false)) {
      report_tied_copies(input.session.manifest, input.session.plan, diags);
    }
  }
  report_unread_parameters(input.graph, input.session.manifest, scope, diags);
  report_tied_uses(program, input.storage, input.reduce, diags);
  for (const int bias : repeated_biases(input.graph)) {
    const Value& value = value_of(input.graph, bias);
    diags
        .report(Code::RepeatedBias, value.where,
                "every device adds its own `" + value.name + "`: " +
                    std::to_string(value.shape[0]) + " biases are summed")
        .fact("`" + value.name + "` is " + shape_text(value.shape))
        .help(
            "that is what TPDense does in mode scatter; TPAsyncDense adds one "
            "bias, and so does a bias added after the sum");
  }
}

void report_dropped_tokens(int64_t dropped, int64_t routed,
                           Diagnostics& diags) {
  if (dropped == 0) return;
  diags
      .report(Code::DroppedTokens, {},
              "experts have no room for " + count_text(dropped) + " of " +
                  count_text(routed) + " tokens routed to them (" +
                  percent_text(static_cast<double>(dropped) /
                               static_cast<double>(routed)) +
                  ")")
      .fact("a token that is dropped gets nothing of that expert")
      .help(
          "a larger `capacity` keeps them; the length of a sequence keeps "
          "all");
}

void report_decisions(const Simulation& outcome, Diagnostics& diags) {
  // Of a mistake of the plan rounding is not the reason.
  if (outcome.decision_flips == 0 ||
      (outcome.mismatch && outcome.mismatch->choice)) {
    return;
  }
  diags
      .report(Code::DecisionsDiffer, {},
              "the sharded run alone would have made " +
                  plural(outcome.decision_flips, "choice") + " otherwise")
      .fact(
          "choices of the unsharded run were used in both, so that the rest "
          "can be compared")
      .help(
          "nearly equal scores are turned over by rounding; a router in "
          "float32, summed in one order, turns over fewer");
}

void report_doubts(const SimulateInput& input, const Program& program,
                   const Simulation& outcome, Diagnostics& diags) {
  if (outcome.non_finite) report_non_finite(input, *outcome.non_finite, diags);
  // What is not finite in doubles is not in anything else.
  if (outcome.non_finite) return report_unseen(input, outcome, diags);
  const auto& overflow = outcome.overflow;
  const auto& sharded = outcome.sharded_overflow;
  if (overflow) report_overflow(input, program, *overflow, false, diags);
  if (sharded && (!overflow || overflow->value != sharded->value)) {
    report_overflow(input, program, *sharded, !overflow, diags);
  }
  report_unseen(input, outcome, diags);
}

void report_outcome(const SimulateInput& input, const Program& program,
                    const Simulation& outcome, Diagnostics& diags) {
  const Graph& graph = input.graph;
  report_decisions(outcome, diags);
  report_dropped_tokens(outcome.dropped, outcome.routed, diags);
  report_doubts(input, program, outcome, diags);
  if (!outcome.mismatch) {
    if (outcome.error_amplification > kLargeAmplification) {
      const std::string message =
          std::isfinite(outcome.error_amplification)
              ? fmt::format(
                    "the sharded run's error is {:.3g} times that of "
                    "the unsharded run",
                    outcome.error_amplification)
              : "the sharded run is inexact where the unsharded one is exact";
      diags.report(Code::ErrorAmplification, {}, message)
          .fact("in double precision both agree: the plan is right")
          .help("sums in fewer or larger parts lose less precision");
    }
    return;
  }
  const Divergence& at = *outcome.mismatch;
  const Value& value = value_of(graph, at.value);
  auto finding = diags.report(
      Code::SimulationMismatch,
      value.node < 0 ? value.where
                     : graph.nodes[static_cast<size_t>(value.node)].where,
      "the sharded run computes something else: `" + value.name +
          "` differs first on " + device_text(program.mesh, at.device));
  if (value.node >= 0) {
    finding.fact("computed by " + served_by(graph, value.node) +
                 (at.isolated ? ", by itself on fresh inputs" : ""));
  }
  if (at.choice) {
    finding.fact("it chooses " + count_text(at.choice->own) +
                 " where the unsharded run chooses " +
                 count_text(at.choice->recorded));
    if (std::isfinite(at.error)) {
      finding.fact(fmt::format(
          "their scores are {:.2g} of the row apart; rounding explains {:.2g}",
          at.error, kTie));
    }
  } else if (std::isinf(at.error)) {
    finding.fact("one of the runs is all zero there, or not finite");
  } else if (input.source == ValueSource::Field) {
    finding.fact("exact integers differ");
  } else {
    finding.fact("structural error " + fmt::format("{:.2g}", at.error) +
                 "; a mismatch is above " + fmt::format("{:.2g}", kMismatch));
  }
  for (const int parameter : nearest_parameters(graph, at.value)) {
    const auto p = static_cast<size_t>(parameter);
    finding.fact("`" + graph.values[p].parameter + "` lies as " +
                 layout_text(program.layouts[p]) + " by " +
                 input.placed.from[p]);
    if (const Span rule = rule_span(input, parameter)) {
      finding.label(rule, "places `" + graph.values[p].parameter + "`");
    }
  }
  finding.help(
      "`--values field` compares exactly, and every operation by itself");
}

}  // namespace shardplan::cli
