// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_findings.h"

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "core/fold.h"
#include "graph/layers.h"
#include "sim/precision.h"
#include "sim/tied_layouts.h"
#include "sim/unread_parameters.h"
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
  const Precision precision{Arithmetic::F32, input.storage, input.reduce};
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
  if (outcome.decision_flips == 0) return;
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

void report_outcome(const SimulateInput& input, const Program& program,
                    const Simulation& outcome, Diagnostics& diags) {
  const Graph& graph = input.graph;
  report_decisions(outcome, diags);
  report_dropped_tokens(outcome.dropped, outcome.routed, diags);
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
  const Mesh& mesh = program.mesh;
  std::string device = "device " + std::to_string(at.device) + " (";
  const std::vector<int64_t> where = mesh.coordinates(at.device);
  for (size_t i = 0; i < where.size(); ++i) {
    device += (i > 0 ? ", " : "") + mesh.axes()[i].name + " " +
              std::to_string(where[i]);
  }
  auto finding = diags.report(
      Code::SimulationMismatch,
      value.node < 0 ? value.where
                     : graph.nodes[static_cast<size_t>(value.node)].where,
      "the sharded run computes something else: `" + value.name +
          "` differs first on " + device + ")");
  if (value.node >= 0) {
    finding.fact("computed by " + served_by(graph, value.node) +
                 (at.isolated ? ", by itself on fresh inputs" : ""));
  }
  finding.fact(input.source == ValueSource::Field
                   ? "exact integers differ"
                   : "structural error " + fmt::format("{:.2g}", at.error) +
                         "; a mismatch is above " +
                         fmt::format("{:.2g}", kMismatch));
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
