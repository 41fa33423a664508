// SPDX-License-Identifier: Apache-2.0
// Findings about runs: wrong results, and results that prove nothing.
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "core/fold.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "graph/graph.h"
#include "sim/locate.h"
#include "sim/simulate.h"
#include "sim/values.h"
#include "sim/verdict.h"
#include "spmd/program.h"

namespace shardplan {
namespace {

const Program& program_of(const RunInput& input) { return input.of.program; }
const Graph& graph_of(const RunInput& input) { return *input.of.program.graph; }

// Returns the parameters that a value is computed from: those of its own
// operation, or else the nearest ones before it.
std::vector<ValueId> nearest_parameters(const Graph& graph, ValueId value) {
  std::vector<ValueId> layer = {value};
  PerValue<bool> seen(graph.values.size());
  while (!layer.empty()) {
    std::vector<ValueId> parameters;
    std::vector<ValueId> next;
    for (const ValueId at : layer) {
      if (graph.values[at].kind == Value::Kind::Parameter) {
        parameters.push_back(at);
      }
      const NodeId node = graph.values[at].node;
      if (!node) continue;
      for (const ValueId operand : graph.nodes[node].operands) {
        if (seen[operand]) continue;
        seen[operand] = true;
        next.push_back(operand);
      }
    }
    if (!parameters.empty()) return parameters;
    layer = std::move(next);
  }
  return {};
}

std::string listed_axes(const AxisNames& axes) {
  return fmt::format("{}", fmt::join(axes, ", "));
}

std::string device_text(const Mesh& mesh, int64_t device) {
  std::string text = "device " + std::to_string(device) + " (";
  const std::vector<int64_t> where = mesh.coordinates(device);
  for (size_t i = 0; i < where.size(); ++i) {
    const AxisName& axis = mesh.all_axes()[i].name;
    // Users do not know sub-axes by name.
    if (!is_axis_name(axis.text())) continue;
    text += (text.ends_with('(') ? "" : ", ") + axis.text() + " " +
            std::to_string(where[i]);
  }
  return text + ")";
}

// Uses a parameter's name in the model.
std::string name_of_value(const Graph& graph, ValueId value) {
  const Value& of = graph.values[value];
  const bool is_parameter = of.kind == Value::Kind::Parameter;
  return in_backticks(is_parameter ? of.parameter : of.name);
}

// Returns "3 of its 4,096 values, including NaN".
std::string odd_numbers(const NonFinite& found) {
  const std::string all = found.count == found.elements
                              ? "all of its " + plural(found.elements, "value")
                              : count_text(found.count) + " of its " +
                                    plural(found.elements, "value");
  const std::string kind = std::isnan(found.worst) ? "NaN"
                           : found.worst > 0       ? "inf"
                                                   : "-inf";
  return all + (found.count == 1 ? ", " : ", including ") + kind;
}

void report_non_finite(const RunInput& input, const NonFinite& found,
                       Diagnostics& diags) {
  const Graph& graph = graph_of(input);
  const Value& value = graph.values[found.value];
  const std::string name = name_of_value(graph, found.value);
  const bool made = value.kind == Value::Kind::Result;
  auto finding =
      diags.report(Code::NonFiniteValues, place_of_value(graph, found.value),
                   made ? name + " is not finite in the unsharded run"
                        : name + " has values that are not finite");
  finding.fact(odd_numbers(found));
  if (made) {
    finding.fact("computed by " + served_by(graph, value.node) +
                 " in double precision, from finite values");
  } else {
    const auto given = input.given_by.find(found.value);
    finding.fact(given != input.given_by.end()
                     ? "they are in " + in_backticks(given->second)
                 : input.source == ValueSource::Checkpoint
                     ? "they come from the checkpoint"
                     : "they are there before the run starts");
  }
  finding.fact(
      "infinities and NaNs are the same in both runs whatever the plan does, "
      "so values computed from them are not compared");
  finding.help(
      made ? "use smaller values or `--values random`; `--values field` "
             "compares without floating point"
           : "fix the tensor; `--values random` runs the plan on other values");
}

// `alone`: the unsharded run is finite in the same types.
void report_overflow(const RunInput& input, const NonFinite& found, bool alone,
                     Diagnostics& diags) {
  const Graph& graph = graph_of(input);
  const Value& value = graph.values[found.value];
  const std::string storage(storage_name(input.of.storage));
  const std::string reduce(storage_name(input.of.reduce));
  const std::string types =
      storage == reduce ? storage : storage + " with sums in " + reduce;
  auto finding = diags.report(
      Code::NonFiniteValues, place_of_value(graph, found.value),
      name_of_value(graph, found.value) + " is not finite in " + types + " " +
          (found.device < 0
               ? "in the unsharded run"
               : "on " + device_text(program_of(input).mesh, found.device)));
  finding.fact(odd_numbers(found));
  if (value.node) {
    finding.fact("computed by " + served_by(graph, value.node));
  }
  finding.fact(alone ? "in the unsharded run it is finite"
                     : "in double precision it is finite");
  finding.help(
      "bf16 and f32 reach 3e38, f16 only 65,504; `--reduce-dtype f32` "
      "accumulates partial sums in f32");
}

// Returns one observation; the caller folds those that differ only in numbers.
std::string unseen_text(const Graph& graph, const Unseen& found) {
  const std::string name = name_of_value(graph, found.value);
  const std::string axes = listed_axes(found.axes);
  switch (found.kind) {
    case Unseen::Kind::ZeroInput:
    case Unseen::Kind::ZeroResult:
      return name + " is all zero";
    case Unseen::Kind::LostTerm:
      return name + " is the same without " +
             name_of_value(graph, found.operand) + ", to 2^-30";
    case Unseen::Kind::LostOperand:
      return name + " does not depend on " +
             name_of_value(graph, found.operand) + ", to 2^-30";
    case Unseen::Kind::PastBound:
      return name + " is off by " + fmt::format("{:.2g}", found.ratio) +
             " times what rounding explains";
    case Unseen::Kind::LostParts:
      return "at most one device along " + axes + " contributes to " + name;
    case Unseen::Kind::EqualShards:
      return "all devices along " + axes + " have identical shards of " + name;
    case Unseen::Kind::OneToken:
      return "every sequence has one token, which attends only to itself";
    case Unseen::Kind::NotAsHooks:
      return "partitioned as by a compiler, not as the hooks run";
    case Unseen::Kind::NoNumbers:
      break;
  }
  return "the outputs have no elements: nothing was compared";
}

// Why a fault would not show, in the order of Unseen::Kind.
constexpr std::array<const char*, 10> kHidden = {
    "zero times anything is zero, and so is zero added twice",
    "a fault in its inputs would not show",
    "adding it on every device, or on none, would not show",
    "the operation saturates: its result hides its inputs",
    "its error in the working precision exceeds the rounding bound, and no "
    "difference in double precision explains it",
    "one part could pass for the whole",
    "swapped shards would not show",
    "its attention weight is 1 whatever the queries and keys",
    "hooks run only the collectives that the plan names; a compiler adds "
    "missing ones",
    "two runs without output always agree"};

// `first` is the value that the finding names.
std::string unseen_help(const RunInput& input, Unseen::Kind kind,
                        ValueId first) {
  if (kind == Unseen::Kind::OneToken) {
    return "give sequences more tokens: `--tokens BxS`";
  }
  if (kind == Unseen::Kind::NotAsHooks) {
    return "`--as compiler` checks only where parameters are placed";
  }
  if (kind == Unseen::Kind::NoNumbers) {
    return "give every dimension a size of at least 1";
  }
  if (kind == Unseen::Kind::EqualShards && input.tokens_given) {
    return "give sequences that differ, or leave out the tokens; `--values "
           "field` compares every operation on its own values";
  }
  if (input.given_by.contains(first)) {
    return "give inputs that vary, or leave out `--input` to draw random ones";
  }
  return input.source == ValueSource::Random
             ? "`--values field` compares every operation on its own values"
             : "`--values random` draws other values for all parameters, "
               "`--values field` compares exact integers";
}

// Reports one finding per kind, with its observations folded over layers.
void report_unseen(const RunInput& input, Diagnostics& diags) {
  const Graph& graph = graph_of(input);
  constexpr size_t kMostFacts = 8;
  std::map<Unseen::Kind, std::vector<const Unseen*>> kinds;
  for (const Unseen& each : input.outcome.unseen) {
    kinds[each.kind].push_back(&each);
  }
  for (const auto& [kind, all] : kinds) {
    const std::string what = unseen_text(graph, *all.front());
    const bool of_run = kind == Unseen::Kind::NotAsHooks;
    auto finding = diags.report(
        Code::Inconclusive,
        of_run ? Span() : place_of_value(graph, all.front()->value),
        of_run || kind == Unseen::Kind::PastBound
            ? what
            : "this run's values could not have exposed a fault: " + what);
    std::map<std::string, int64_t> families;
    std::vector<std::string> order;
    for (const Unseen* each : all) {
      const std::string family = folded_name(unseen_text(graph, *each));
      if (families[family]++ == 0) order.push_back(family);
    }
    finding.fact(nth(kHidden, kind));
    if (of_run) finding.fact(input.outcome.hooked->unknown);
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
    finding.findings(std::ssize(all));
    finding.help(unseen_help(input, kind, all.front()->value));
  }
}

// Returns the place of the rule that placed a parameter; empty for saved plans.
Span placing_rule(const ProgramInput& input, ValueId parameter) {
  if (input.rules == nullptr) return {};
  const std::string& name = input.program.graph->values[parameter].parameter;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (input.manifest.name(i) != name) continue;
    const int rule = input.plan.of(i).rule;
    if (rule == 0) return {};
    return nth(input.rules->rules, rule - 1).where;
  }
  return {};
}

// Reports why a variant is inconclusive, if the requested run is conclusive.
void report_doubts_of_variant(const RunInput& input, Diagnostics& diags) {
  const Simulation& own = input.outcome;
  const Simulation& asked_for = *input.asked_for;
  const auto report = [&](Code code, const std::string& what, ValueId value) {
    diags.report(code, {}, "on " + input.variant + " " + what)
        .fact(in_backticks(graph_of(input).values[value].name) +
              " is the first");
  };
  if (own.non_finite && !asked_for.non_finite) {
    report(Code::NonFiniteValues, "the unsharded run is not finite",
           own.non_finite->value);
  }
  if (own.overflow && !asked_for.overflow) {
    report(Code::NonFiniteValues,
           "the unsharded run is not finite in its precision",
           own.overflow->value);
  } else if (own.sharded_overflow && !asked_for.sharded_overflow) {
    report(Code::NonFiniteValues,
           "the sharded run is not finite in its precision",
           own.sharded_overflow->value);
  }
  if (!own.unseen.empty() && asked_for.unseen.empty()) {
    report(Code::Inconclusive,
           "this run's values could not have exposed a fault",
           own.unseen.front().value);
  }
}

// Reports experts without tokens; everything else was compared.
void report_unused_experts(const RunInput& input, Diagnostics& diags) {
  const auto& all = input.outcome.unused_experts;
  if (all.empty()) return;
  const Graph& graph = graph_of(input);
  const UnusedExperts& first = all.front();
  auto note = diags.report(
      Code::Inconclusive, Severity::Note, place_of_value(graph, first.value),
      count_text(first.unused) + " of " + plural(first.experts, "expert") +
          " got no token in " + name_of_value(graph, first.value));
  note.fact("their outputs were not compared; everything else was");
  if (all.size() > 1) {
    note.fact("this happens " + count_text(std::ssize(all)) +
              " times in total");
  }
  note.help(
      "use more tokens to reach more experts: `--tokens BxS`; `--values field` "
      "compares every operation on its own values");
}

using Problem = ReductionFault::Problem;

const char* reduced_text(ReducedBy kind) {
  switch (kind) {
    case ReducedBy::Sum:
      return "sum";
    case ReducedBy::Mean:
      return "mean";
    default:
      return "maximum";
  }
}

// Returns what is wrong with the reduction, to follow "the sharded run computes
// a different result: ".
std::string fault_text(const Graph& graph, const std::string& name,
                       const ReductionFault& fault) {
  const std::string kind = reduced_text(fault.kind);
  const std::string over = " over " + listed_axes(fault.axes);
  switch (fault.problem) {
    case Problem::Missing:
      return "the " + kind + over + " is missing in " + name;
    case Problem::Extra:
      return name + " has one " + kind + over + " too many";
    case Problem::WrongAxes:
      return name + " is the " + reduced_text(fault.done_kind) + " over " +
             listed_axes(fault.done_axes) + ", not" + over;
    case Problem::WrongKind:
      return name + " is a " + reduced_text(fault.done_kind) + " over " +
             listed_axes(fault.done_axes) + ", not a " + kind + over;
    case Problem::AddedByAll:
      break;
  }
  return name_of_value(graph, fault.operand) + " is added " +
         count_text(fault.times) + " times in " + name +
         ", once by every device along " + listed_axes(fault.axes);
}

// Returns the evidence for the fault.
std::string fault_evidence(const ReductionFault& fault) {
  const std::string devices = plural(fault.times, "device");
  const std::string along = " along " + listed_axes(fault.axes);
  switch (fault.problem) {
    case Problem::Extra:
      return "every device" + along + " already has the whole value" +
             (fault.kind == ReducedBy::Sum
                  ? ": the sum is " + count_text(fault.times) + " times it"
                  : "");
    case Problem::AddedByAll:
      return "the product is summed over " + listed_axes(fault.axes) +
             " with the term in each of its " + count_text(fault.times) +
             " parts";
    default:
      return std::string("the ") + reduced_text(fault.kind) + " of what the " +
             devices + along + " have equals the unsharded value";
  }
}

// Returns what to change in the graph. Without a shard_map, the graph has
// nothing to change.
std::string fault_help(const ReductionFault& fault, bool mapped) {
  if (!mapped) {
    return "nothing in the graph asks for this: please report it with the "
           "graph, the rules and the mesh";
  }
  const std::string axes = listed_axes(fault.axes);
  switch (fault.problem) {
    case Problem::AddedByAll:
      return "add it in a separate operation, after the one with `psum: [" +
             axes + "]`";
    case Problem::Extra:
      return "leave " + axes +
             " out of the `psum` of its `shard_map`, or shard what it sums "
             "over " +
             axes;
    default:
      break;
  }
  switch (fault.kind) {
    case ReducedBy::Sum:
      return "write `psum: [" + axes + "]` in its `shard_map`";
    case ReducedBy::Mean:
      return "write `psum: [" + axes +
             "]` in its `shard_map` and scale the "
             "result by 1/" +
             count_text(fault.times) +
             ", or leave out the `shard_map`: the partitioner then reduces it";
    default:
      return "`psum` only sums: leave out the `shard_map`, and the partitioner "
             "takes the maximum";
  }
}

// Returns the help if no reduction explains the mismatch.
std::string mismatch_help(const RunInput& input, bool mapped) {
  if (input.source != ValueSource::Field) {
    return "`--values field` compares exactly, each operation by itself";
  }
  if (mapped) {
    return "no reduction explains it: compare `in_specs` and `out_specs` of "
           "the `shard_map` with what the operation reads and writes";
  }
  return "no reduction explains it: please report it with the graph, the rules "
         "and the mesh";
}

// The styles that would work, in transformers and in PyTorch, in the order of
// HookedFault::Wants.
constexpr std::array<const char*, 7> kStyles = {
    "use matching styles within a block: `colwise` for its input layers, "
    "`rowwise` for its output layer",
    "give the module a style that reads shards: `moe_tp_experts` for experts, "
    "`ep_dispatch_experts` with `grouped_gemm`, `local_params` for others",
    "shard the parameter to match: `colwise` for its name, and `local_params` "
    "for the module that reads it",
    "`rowwise_split_input` takes an unsharded input (PyTorch: "
    "`RowwiseParallel(input_layouts=Replicate())`); or use `colwise` for the "
    "layers that produce it",
    "`colwise_gather_output` gathers the output (PyTorch: "
    "`ColwiseParallel(output_layouts=Replicate())`)",
    "`replicated_with_grad_allreduce` sums the gradients of a norm, "
    "`mla_kv_a_proj` those of a projection's output",
    "`replicate`, or no entry, does not reduce gradients"};

// Names the layouts of parameters, and the rules that place them. `says_by`: a
// layout need not come from a rule.
void name_rules(const RunInput& input, const std::vector<ValueId>& parameters,
                bool says_by, Diagnostics::Builder& finding) {
  const Program& program = program_of(input);
  for (const ValueId p : parameters) {
    const std::string& name = graph_of(input).values[p].parameter;
    finding.fact(in_backticks(name) + " is sharded as " +
                 layout_text(reported_layout(program, program.layouts[p], p)) +
                 (says_by ? " by " + input.placed_by[p.index()] : ""));
    if (const Span rule = placing_rule(input.of, p)) {
      finding.label(rule, "places " + in_backticks(name));
    }
  }
}

// Reports the operation at which the hooks fail or give wrong values, with the
// rules that place its operands.
void report_hooked(const RunInput& input, const HookedFault& fault,
                   Diagnostics& diags) {
  const Graph& graph = graph_of(input);
  const Value& value = graph.values[fault.value];
  auto finding = diags.report(
      Code::SimulationMismatch, place_of_value(graph, fault.value),
      "run with hooks, the plan " +
          std::string(fault.shapes_differ ? "fails at "
                                          : "gives wrong values for ") +
          in_backticks(value.name));
  finding.fact((fault.operand ? name_of_value(graph, fault.operand) + ": "
                              : std::string()) +
               fault.why);
  if (value.node) finding.fact("in " + served_by(graph, value.node));
  name_rules(input, nearest_parameters(graph, fault.value), false, finding);
  finding.help(nth(kStyles, fault.wants));
}

// Reports the value whose gradient is wrong although the forward pass is right.
void report_gradient(const RunInput& input, const HookedFault& fault,
                     Diagnostics& diags) {
  const Graph& graph = graph_of(input);
  const Value& value = graph.values[fault.value];
  const bool is_parameter = value.kind == Value::Kind::Parameter;
  auto finding = diags.report(
      Code::WrongGradients, place_of_value(graph, fault.value),
      "run with hooks, the gradient of " +
          in_backticks(is_parameter ? value.parameter : value.name) +
          " is wrong");
  finding.fact(fault.why);
  finding.fact("the forward pass is right: serving needs no gradients");
  name_rules(input,
             is_parameter ? std::vector{fault.value}
                          : nearest_parameters(graph, fault.value),
             false, finding);
  finding.help(nth(kStyles, fault.wants));
  finding.help("`--allow SP514` if the plan is only for serving");
}

}  // namespace

// Tokens are counted once per chosen expert.
void check_dropped_tokens(const RunInput& input, Diagnostics& diags) {
  const int64_t dropped = input.outcome.dropped;
  const int64_t routed = input.outcome.routed;
  if (dropped == 0 || input.asked_for != nullptr) return;
  diags
      .report(Code::DroppedTokens, {},
              "experts lack capacity for " + count_text(dropped) + " of " +
                  count_text(routed) + " tokens routed to them (" +
                  percent_text(static_cast<double>(dropped) /
                               static_cast<double>(routed)) +
                  ")")
      .fact("a dropped token gets no output from that expert")
      .help("raise `capacity`; at the sequence length no token is dropped");
}

// Reports choices that rounding would have changed.
void check_decisions(const RunInput& input, Diagnostics& diags) {
  const Simulation& outcome = input.outcome;
  // If the plan is wrong, rounding is not the reason.
  if (outcome.decision_flips == 0 || input.asked_for != nullptr ||
      (outcome.mismatch && outcome.mismatch->choice)) {
    return;
  }
  diags
      .report(Code::DecisionsDiffer, {},
              "on its own, the sharded run would make " +
                  plural(outcome.decision_flips, "choice") + " differently")
      .fact(
          "both runs used the unsharded run's choices, so that the rest can be "
          "compared")
      .help(
          "rounding flips nearly equal scores; a float32 router with a fixed "
          "summation order flips fewer");
}

// Reports why a run is inconclusive, and values that its working precision
// cannot represent.
void check_doubts(const RunInput& input, Diagnostics& diags) {
  if (input.asked_for != nullptr) return report_doubts_of_variant(input, diags);
  const Simulation& outcome = input.outcome;
  if (outcome.non_finite) report_non_finite(input, *outcome.non_finite, diags);
  // Values that are not finite in doubles are not finite in narrower types.
  if (outcome.non_finite) return report_unseen(input, diags);
  const auto& overflow = outcome.overflow;
  const auto& sharded = outcome.sharded_overflow;
  if (overflow) report_overflow(input, *overflow, false, diags);
  if (sharded && (!overflow || overflow->value != sharded->value)) {
    report_overflow(input, *sharded, !overflow, diags);
  }
  report_unseen(input, diags);
  if (!outcome.mismatch) report_unused_experts(input, diags);
}

void check_amplification(const RunInput& input, Diagnostics& diags) {
  const Simulation& outcome = input.outcome;
  if (outcome.mismatch || input.asked_for != nullptr ||
      !(outcome.error_amplification > kLargeAmplification)) {
    return;
  }
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

void check_mismatch(const RunInput& input, Diagnostics& diags) {
  const Simulation& outcome = input.outcome;
  if (const auto& hooked = outcome.hooked; hooked && !input.asked_for) {
    if (hooked->fault) report_hooked(input, *hooked->fault, diags);
    if (hooked->gradient) report_gradient(input, *hooked->gradient, diags);
  }
  if (!outcome.mismatch) return;
  const Graph& graph = graph_of(input);
  const Divergence& at = *outcome.mismatch;
  const Value& value = graph.values[at.value];
  const std::string what =
      at.fault ? fault_text(graph, "`" + value.name + "`", *at.fault)
               : "`" + value.name + "` differs first";
  if (input.asked_for != nullptr) {
    diags
        .report(Code::SimulationMismatch, {},
                "on " + input.variant +
                    " the sharded run computes a different result")
        .fact(what);
    return;
  }
  const std::string device = device_text(program_of(input).mesh, at.device);
  auto finding =
      diags.report(Code::SimulationMismatch, place_of_value(graph, at.value),
                   "the sharded run computes a different result: " + what +
                       (at.fault ? "" : " on " + device));
  if (value.node) {
    finding.fact("computed by " + served_by(graph, value.node) +
                 (at.isolated ? ", in isolation on fresh inputs" : "") +
                 (at.fault ? "; differs first on " + device : ""));
  }
  if (at.fault) finding.fact(fault_evidence(*at.fault));
  if (input.source != ValueSource::Field &&
      outcome.structural_error <= kMismatch) {
    finding.fact("the outputs agree: later operations hide the fault");
  }
  if (at.choice) {
    finding.fact("it chooses " + count_text(at.choice->own) +
                 " where the unsharded run chooses " +
                 count_text(at.choice->recorded));
    if (std::isfinite(at.error)) {
      finding.fact(fmt::format(
          "their scores differ by {:.2g} of the row; rounding explains {:.2g}",
          at.error, kTie));
    }
  } else if (std::isinf(at.error)) {
    finding.fact("one of the runs is all zero there, or not finite");
  } else if (input.source == ValueSource::Field) {
    finding.fact("exact integers differ");
  } else {
    finding.fact(
        fmt::format("structural error {:.2g}; a mismatch is above {:.2g}",
                    at.error, kMismatch));
  }
  name_rules(input, nearest_parameters(graph, at.value), true, finding);
  const bool mapped =
      value.node && graph.nodes[value.node].shard_map.has_value();
  finding.help(at.fault ? fault_help(*at.fault, mapped)
                        : mismatch_help(input, mapped));
}

// Outputs that another program computed in float32 must agree.
void check_recorded_outputs(const RecordedInput& input, Diagnostics& diags) {
  for (const ExpectedError& error : input.errors) {
    if (error.agrees()) continue;
    diags
        .report(Code::UnexpectedOutputs, {},
                in_backticks(output_name(input.graph, error.value)) +
                    " does not match " + in_backticks(input.path))
        .fact(fmt::format("in double precision it is off by {:.2g} of its "
                          "largest value",
                          error.exact))
        .fact(fmt::format("rounding in the recording explains {:.2g}",
                          error.tolerance))
        .help(
            "use the weights, tokens and config of the recording; `--layers` "
            "runs only part of the model");
  }
}

}  // namespace shardplan
