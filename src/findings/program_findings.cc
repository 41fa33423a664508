// SPDX-License-Identifier: Apache-2.0
// Compares what a program does with each weight, and what it moves.
#include "findings/program_findings.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/tensor_name.h"
#include "sim/transfers.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

// Returns the parameter that a value is, possibly in another layout; or none.
ValueId parameter_of(const Graph& graph, ValueId value) {
  while (graph.values[value].kind == Value::Kind::Result) {
    const GraphNode& node = graph.nodes[graph.values[value].node];
    if (!node.op->is_constraint) return {};
    value = node.operands[0];
  }
  return graph.values[value].kind == Value::Kind::Parameter ? value : ValueId();
}

// An operation that reads a parameter, and the layout in which it reads it.
struct Use {
  NodeId node;
  Layout layout;
};

// The first use of each kind.
struct Uses {
  std::optional<Use> table;
  std::optional<Use> head;
};

// Returns the bytes that all devices send of a parameter, except those that
// FSDP gathers.
Int128 moved_bytes(const Program& program, ValueId parameter, Storage storage,
                   Storage reduce) {
  Int128 total = 0;
  for (const CollectivePrice& priced : price(program, storage, reduce)) {
    const Instruction& at = program.instructions[priced.instruction];
    const ValueId value = program.registers[at.operands[0]].value;
    if (at.cause != Cause::WeightUse && at.kind != Instruction::Kind::Compute &&
        parameter_of(*program.graph, value) == parameter) {
      total += priced.bytes;
    }
  }
  return total;
}

std::string use_text(const Program& program, ValueId value, const Use& use) {
  return served_by(*program.graph, use.node) + " reads it as " +
         layout_text(reported_layout(program, use.layout, value));
}

// Returns the layout of an embedding or a head in the order [vocabulary,
// features].
Layout vocab_first(const Mesh& mesh, const PartitionSpec& spec,
                   size_t vocab_dim) {
  Layout layout = layout_of(mesh, spec, 2);
  if (vocab_dim == 1) std::swap(layout.spec.dims[0], layout.spec.dims[1]);
  return layout;
}

// The token embedding or head of a model, if there is only one.
struct VocabMatrix {
  size_t index = 0;
  size_t vocab_dim = 0;
};
std::optional<VocabMatrix> only_matrix(const Manifest& manifest, VocabUse use) {
  std::optional<VocabMatrix> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (vocab_use(manifest.name(i)) != use ||
        manifest.type(i).shape.size() != 2) {
      continue;
    }
    const auto dim =
        vocab_dim(manifest.name(i), manifest.type(i), manifest.facts);
    if (!dim) continue;
    if (found) return std::nullopt;
    found = VocabMatrix{i, *dim};
  }
  return found;
}

constexpr size_t kShownKinds = 8;

// Returns the names of the parameters that the outputs and the probes are
// computed from.
std::unordered_set<std::string_view> read_names(const Graph& graph) {
  PerValue<bool> wanted(graph.values.size());
  for (const ValueId value : graph.outputs) wanted[value] = true;
  for (const ValueId value : graph.probes) wanted[value] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (!wanted[node->result]) continue;
    for (const ValueId value : node->operands) wanted[value] = true;
  }
  std::unordered_set<std::string_view> names;
  for (const ValueId v : wanted.ids()) {
    const Value& value = graph.values[v];
    if (wanted[v] && value.kind == Value::Kind::Parameter) {
      names.insert(value.parameter);
    }
  }
  return names;
}

constexpr std::array<std::string_view, 6> kLayerNames = {
    "layers", "layer", "h", "blocks", "block", "blk"};

// Returns the number after the component that counts layers.
std::optional<int64_t> layer_of(std::string_view name) {
  std::string_view before;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find_first_of("/.", begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const auto number = parse_integer(part);
    if (number && contains(kLayerNames, before)) return number;
    before = part;
    begin = end + 1;
  }
  return std::nullopt;
}

// The distance from an addition within which its product and its bias are
// searched. No layer has more operations between them, and the limit makes a
// graph of a million additions fast.
constexpr int kMaxSteps = 8;

const GraphNode* maker(const Graph& graph, ValueId value) {
  const NodeId node = graph.values[value].node;
  return node ? &graph.nodes[node] : nullptr;
}

bool is_parameter(const Graph& graph, ValueId value) {
  return graph.values[value].kind == Value::Kind::Parameter;
}

// Returns whether the result consists of all elements of the operand, possibly
// in another shape.
bool is_same_numbers(const Graph& graph, const GraphNode& node) {
  const Shape& operand = graph.values[node.operands.front()].shape;
  return node.op->recompute_cost == RecomputeCost::View &&
         element_count(operand) ==
             element_count(graph.values[node.result].shape);
}

// Returns the bias whose sum over its first dimension `value` is; else no
// value.
std::optional<ValueId> summed_bias(const Graph& graph, ValueId value) {
  const GraphNode* node = maker(graph, value);
  for (int step = 0; step < kMaxSteps && node != nullptr; ++step) {
    if (!is_same_numbers(graph, *node)) break;
    node = maker(graph, node->operands.front());
  }
  if (node == nullptr || !node->op->is_sum) return std::nullopt;
  const ValueId bias = node->operands.front();
  const auto dims = integers_of(node->attributes, "dims");
  const Shape& shape = graph.values[bias].shape;
  if (!is_parameter(graph, bias) || shape.size() < 2 || dims.size() != 1) {
    return std::nullopt;
  }
  const auto rank = std::ssize(shape);
  if (dims.front() != 0 && dims.front() != -rank) return std::nullopt;
  return bias;
}

bool contracts_first_dim(const Graph& graph, const GraphNode& einsum,
                         int64_t size) {
  for (size_t i = 0; i < einsum.operands.size(); ++i) {
    const auto& dims = einsum.rule.operands[i];
    if (!is_parameter(graph, einsum.operands[i]) || dims.empty() ||
        dims.front().size() != 1) {
      continue;
    }
    const Factor& factor = nth(einsum.rule.factors, dims.front().front());
    if (factor.kind == FactorKind::Sum && factor.size == size) return true;
  }
  return false;
}

// Returns whether `value` is such a product, possibly scaled or with other
// terms added.
bool is_product_over(const Graph& graph, ValueId value, int64_t size) {
  const GraphNode* node = maker(graph, value);
  for (int step = 0; step < kMaxSteps && node != nullptr; ++step) {
    const OpDef& op = *node->op;
    if (op.is_product) return contracts_first_dim(graph, *node, size);
    if (!op.is_multiple && op.second_sign != 1 &&
        !is_same_numbers(graph, *node)) {
      return false;
    }
    node = maker(graph, node->operands.front());
  }
  return false;
}

// Returns the register that a collective moves.
const Register& moved_register(const Program& program, const Instruction& at) {
  const bool joined = at.kind == Instruction::Kind::Compute;
  return program.registers[at.operands[joined ? at.overlapped.value_or(0) : 0]];
}

// The same reshard in every layer, where names differ only in numbers.
struct RepeatedReshard {
  const Instruction* first = nullptr;
  int64_t count = 0;
  Int128 moved = 0;  // bytes, of all devices and all repetitions
};

std::vector<RepeatedReshard> fold_reshards(const ProgramInput& input) {
  const Program& program = input.program;
  const Graph& graph = *program.graph;
  using Key = std::tuple<std::string, std::string, std::string_view, AxisNames,
                         CollectiveKind, bool, Layout, Shape>;
  std::map<Key, size_t> known;
  std::vector<RepeatedReshard> folded;
  for (const CollectivePrice& priced :
       price(program, input.storage, input.reduce)) {
    const Instruction& at = program.instructions[priced.instruction];
    if (at.cause != Cause::Implicit && !at.rematerializes) continue;
    const Register& from = moved_register(program, at);
    const std::string_view label =
        at.node ? graph.nodes[at.node].label : std::string_view();
    const Key key{folded_name(graph.values[from.value].name),
                  folded_name(served_value(program, at)),
                  label,
                  priced.axes,
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

void report_reshard(const ProgramInput& input, const RepeatedReshard& reshard,
                    Diagnostics& diags) {
  const Program& program = input.program;
  const Graph& graph = *program.graph;
  const Instruction& at = *reshard.first;
  const Register& from = moved_register(program, at);
  const Value& value = graph.values[from.value];
  const Span where = at.node ? graph.nodes[at.node].where : value.where;
  const std::string name = "`" + value.name + "`";
  const std::string kind(collective_name(at.collective));
  const std::string axes = fmt::format(
      "{}", fmt::join(reported_axes(program, at.axes, at.node), ", "));
  const std::string message =
      at.rematerializes
          ? name + " is gathered over " + axes + " only to be resharded for " +
                served_by(graph, at.node)
          : name + " is resharded for " + served_by(graph, at.node) + ": " +
                kind + " over " + axes;
  auto finding = diags.report(
      at.rematerializes ? Code::FullRematerialization : Code::ImplicitReshard,
      where, message);
  const StorageTypes precision{Arithmetic::F32, input.storage, input.reduce};
  const RegisterId number = program.registers.id_of(from);
  const Int128 bytes =
      Int128{*element_count(from.local_shape)} *
      storage_bytes(register_types(program, precision)[number]);
  finding.fact(name + " " + shape_text(value.shape) + " is sharded as " +
               layout_text(reported_layout(program, from.layout, from.value)) +
               ", " + bytes_text(bytes) + " per device");
  finding.fact("all devices together send " + bytes_text(reshard.moved));
  if (reshard.count > 1) {
    finding
        .fact(count_text(reshard.count) + " times: at every `" +
              folded_name(value.name) + "`")
        .findings(reshard.count);
  }
  if (at.node) {
    const GraphNode& node = graph.nodes[at.node];
    for (const ValueId operand : node.operands) {
      if (operand == from.value) continue;
      finding.fact("`" + graph.values[operand].name + "` is sharded as " +
                   layout_text(reported_layout(
                       program, program.layouts[operand], operand)));
    }
  }
  if (at.rematerializes) {
    finding.help(
        "choose layouts one step apart, such as one more axis on a dimension, "
        "or reshard through an intermediate layout");
  } else if (value.kind == Value::Kind::Parameter) {
    finding.help(
        "change the parameter's spec, or give the activation a matching one");
  } else {
    finding.help(name +
                 " has no spec: give it one under `activations:` in a YAML "
                 "rules file, or "
                 "give it a `constraint` in the graph");
  }
}

}  // namespace

void report_tied_uses(const Program& program, Storage storage, Storage reduce,
                      Diagnostics& diags) {
  const Graph& graph = *program.graph;
  PerValue<Uses> uses(graph.values.size());
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Compute) continue;
    const GraphNode& node = graph.nodes[at.node];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const bool table = node.op->is_lookup && i == 0;
      if (!table && !node.op->is_product) continue;
      const ValueId parameter = parameter_of(graph, node.operands[i]);
      if (!parameter) continue;
      Uses& of = uses[parameter];
      std::optional<Use>& use = table ? of.table : of.head;
      if (!use) use = Use{at.node, program.registers[at.operands[i]].layout};
    }
  }
  for (const ValueId v : uses.ids()) {
    const auto& [table, head] = uses[v];
    if (!table || !head || table->layout == head->layout) continue;
    const Int128 bytes = moved_bytes(program, v, storage, reduce);
    if (bytes == 0) continue;
    const Value& value = graph.values[v];
    diags
        .report(Code::TiedLayoutsDiffer, graph.nodes[head->node].where,
                in_backticks(value.parameter) +
                    " is looked up in one layout and multiplied in another")
        .fact("it is sharded as " +
              layout_text(reported_layout(program, program.layouts[v], v)))
        .fact(use_text(program, v, *table))
        .fact(use_text(program, v, *head))
        .fact("to reshard it, all devices together send " + bytes_text(bytes) +
              " in every forward pass")
        .help(
            "shard the vocabulary over the same axes in both: each device then "
            "looks up its own rows and computes their logits");
  }
}

void report_tied_copies(const Manifest& manifest, const Plan& plan,
                        Diagnostics& diags) {
  const auto table = only_matrix(manifest, VocabUse::Table);
  const auto head = only_matrix(manifest, VocabUse::Head);
  if (!table || !head) return;
  const Placement& of_table = plan.of(table->index);
  const Placement& of_head = plan.of(head->index);
  const Layout from = vocab_first(plan.mesh, of_table.spec, table->vocab_dim);
  const Layout to = vocab_first(plan.mesh, of_head.spec, head->vocab_dim);
  if (from == to) return;
  const std::string first(manifest.name(table->index));
  const std::string second(manifest.name(head->index));
  auto finding = diags.report(
      Code::TiedLayoutsDiffer, manifest.where(head->index),
      "`" + first + "` and `" + second + "` are tied but sharded differently");
  finding.fact("`" + first + "` " + shape_text(of_table.type.shape) +
               " is sharded as " + spec_text(of_table.spec));
  finding.fact("`" + second + "` " + shape_text(of_head.type.shape) +
               " is sharded as " + spec_text(of_head.spec));
  const Shape shape = {of_table.type.shape[table->vocab_dim],
                       of_table.type.shape[1 - table->vocab_dim]};
  const auto is_even = [&](const std::vector<AxisNames>& dims) {
    return shape[0] % shard_count(plan.mesh, dims[0]) == 0 &&
           shape[1] % shard_count(plan.mesh, dims[1]) == 0;
  };
  if (is_even(from.spec.dims) && is_even(to.spec.dims)) {
    const TensorType& type = of_table.type;
    const double of_floats = plan_reshard(plan.mesh, shape, from, to).bytes;
    const double bytes =
        of_floats * static_cast<double>(type.bytes()) /
        static_cast<double>(wide_byte_count(type.elements(), DType::F32));
    if (bytes > 0) {
      finding.fact("to reshard one into the other, every device sends " +
                   bytes_text(bytes));
    }
  }
  finding
      .help(
          "shard the vocabulary and feature dimensions of both over the same "
          "axes, or store the weight once")
      .parameters({first, second});
}

void report_unread_parameters(const Graph& graph, const Manifest& manifest,
                              const UnreadScope& scope, Diagnostics& diags) {
  const auto read = read_names(graph);
  constexpr uint32_t kRead = 0;
  constexpr uint32_t kUnread = 1;
  constexpr uint32_t kLeftOut = 2;
  std::vector<uint32_t> kinds(manifest.size(), kRead);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (read.contains(manifest.name(i))) continue;
    const auto layer = scope.layers ? layer_of(manifest.name(i)) : std::nullopt;
    kinds[i] = layer && *layer >= *scope.layers ? kLeftOut : kUnread;
  }
  const auto name_of = [&](size_t i) { return manifest.name(i); };
  const Folding folding = fold(kinds, name_of);
  std::vector<int64_t> read_of_name(folding.folded_names.size());
  for (const ParameterClass& c : folding.classes) {
    if (c.kind == kRead) read_of_name[c.folded] += c.count;
  }
  const auto is_reported = [&](const ParameterClass& c) {
    return c.kind == kUnread &&
           (scope.whole_model || read_of_name[c.folded] > 0);
  };
  std::vector<std::string> names;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (is_reported(folding.classes[folding.class_of[i]])) {
      names.emplace_back(manifest.name(i));
    }
  }
  if (names.empty()) return;
  const std::string count = plural(std::ssize(names), "parameter");
  auto finding =
      diags.report(Code::UnreadParameter, {},
                   "the forward pass never reads " + count + " of the model");
  const std::vector<std::string> labels = class_labels(folding, name_of);
  size_t shown = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    if (!is_reported(c)) continue;
    if (++shown > kShownKinds) continue;
    const int64_t others = read_of_name[c.folded];
    finding.fact(in_backticks(labels[i]) + " " + (c.count == 1 ? "is" : "are") +
                 " not read" +
                 (others == 0 ? ""
                              : "; " + count_text(others) +
                                    (others == 1 ? " other" : " others") +
                                    " of the same kind " +
                                    (others == 1 ? "is" : "are")));
  }
  if (shown > kShownKinds) {
    finding.fact("and " + plural(static_cast<int64_t>(shown - kShownKinds),
                                 "more kind"));
  }
  finding.help(
      "their contribution is lost without an error: look for layers that no "
      "stage runs");
  finding.parameters(std::move(names));
}

std::vector<ValueId> repeated_biases(const Graph& graph) {
  std::vector<ValueId> found;
  for (const GraphNode& node : graph.nodes) {
    if (node.op->second_sign != 1) continue;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const auto bias = summed_bias(graph, node.operands[side]);
      if (!bias || contains(found, *bias)) continue;
      const int64_t size = graph.values[*bias].shape.front();
      if (is_product_over(graph, node.operands[1 - side], size)) {
        found.push_back(*bias);
      }
    }
  }
  return found;
}

std::string served_value(const Program& program, const Instruction& at) {
  const Graph& graph = *program.graph;
  const ValueId value = at.node ? graph.nodes[at.node].result
                                : program.registers[at.result].value;
  return shown_name(graph, value);
}

void check_reshards(const ProgramInput& input, Diagnostics& diags) {
  for (const RepeatedReshard& reshard : fold_reshards(input)) {
    report_reshard(input, reshard, diags);
  }
}

void check_weight_uses(const ProgramInput& input, Diagnostics& diags) {
  if (input.tied) report_tied_copies(input.manifest, input.plan, diags);
  report_unread_parameters(*input.program.graph, input.manifest,
                           {input.whole_model, input.only_layers}, diags);
  report_tied_uses(input.program, input.storage, input.reduce, diags);
}

void check_repeated_biases(const ProgramInput& input, Diagnostics& diags) {
  const Graph& graph = *input.program.graph;
  for (const ValueId bias : repeated_biases(graph)) {
    const Value& value = graph.values[bias];
    diags
        .report(Code::RepeatedBias, value.where,
                "every device adds its own `" + value.name + "`: " +
                    std::to_string(value.shape[0]) + " biases are summed")
        .fact("`" + value.name + "` is " + shape_text(value.shape))
        .help(
            "TPDense does this in scatter mode; use TPAsyncDense, or add the "
            "bias after the sum");
  }
}

}  // namespace shardplan
