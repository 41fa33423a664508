// SPDX-License-Identifier: Apache-2.0
#include "sim/tied_layouts.h"

#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "resolve/vocab.h"
#include "sim/price.h"
#include "spmd/reshard.h"

namespace shardplan {
namespace {

const Value& value_of(const Graph& graph, int number) {
  return graph.values[static_cast<size_t>(number)];
}

// The parameter that a value is, perhaps in a layout of its own; -1: none.
int parameter_of(const Graph& graph, int value) {
  while (value_of(graph, value).kind == Value::Kind::Result) {
    const GraphNode& node =
        graph.nodes[static_cast<size_t>(value_of(graph, value).node)];
    if (node.op->name != "constraint") return -1;
    value = node.operands[0];
  }
  return value_of(graph, value).kind == Value::Kind::Parameter ? value : -1;
}

// An operation that reads a parameter, and the layout in which it does.
struct Use {
  int node = 0;
  Layout layout;
};

// The first use of each kind.
struct Uses {
  std::optional<Use> table;
  std::optional<Use> head;
};

// Bytes that all devices send of a parameter, but for what FSDP gathers.
int64_t moved_bytes(const Program& program, int parameter, Storage storage,
                    Storage reduce) {
  int64_t total = 0;
  for (const CollectivePrice& priced : price(program, storage, reduce)) {
    const Instruction& at =
        program.instructions[static_cast<size_t>(priced.instruction)];
    const int number = at.operands[0];
    const int value = program.registers[static_cast<size_t>(number)].value;
    if (at.cause != Cause::WeightUse && at.kind != Instruction::Kind::Compute &&
        parameter_of(*program.graph, value) == parameter) {
      total += priced.bytes;
    }
  }
  return total;
}

std::string use_text(const Graph& graph, const Use& use) {
  const GraphNode& node = graph.nodes[static_cast<size_t>(use.node)];
  const std::string& name = value_of(graph, node.result).name;
  return "`" + name.substr(0, name.find(':')) + "` (" + node.label +
         ") reads it as " + layout_text(use.layout);
}

// A layout of a table or a head as that of [vocabulary, features].
Layout vocab_first(const Mesh& mesh, const PartitionSpec& spec,
                   size_t vocab_dim) {
  Layout layout = layout_of(mesh, spec, 2);
  if (vocab_dim == 1) std::swap(layout.spec.dims[0], layout.spec.dims[1]);
  return layout;
}

// Table or head of the model, where it is the only one.
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

}  // namespace

void report_tied_uses(const Program& program, Storage storage, Storage reduce,
                      Diagnostics& diags) {
  const Graph& graph = *program.graph;
  std::vector<Uses> uses(graph.values.size());
  for (const Instruction& at : program.instructions) {
    if (at.kind != Instruction::Kind::Compute) continue;
    const GraphNode& node = graph.nodes[static_cast<size_t>(at.node)];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const bool table = node.op->name == "embedding" && i == 0;
      if (!table && node.op->name != "einsum") continue;
      const int parameter = parameter_of(graph, node.operands[i]);
      if (parameter < 0) continue;
      Uses& of = uses[static_cast<size_t>(parameter)];
      std::optional<Use>& use = table ? of.table : of.head;
      const auto number = static_cast<size_t>(at.operands[i]);
      if (!use) use = Use{at.node, program.registers[number].layout};
    }
  }
  for (size_t v = 0; v < uses.size(); ++v) {
    const auto& [table, head] = uses[v];
    if (!table || !head || table->layout == head->layout) continue;
    const int64_t bytes =
        moved_bytes(program, static_cast<int>(v), storage, reduce);
    if (bytes == 0) continue;
    const Value& value = graph.values[v];
    diags
        .report(Code::TiedLayoutsDiffer,
                graph.nodes[static_cast<size_t>(head->node)].where,
                "`" + printable(value.parameter) +
                    "` is looked up in one layout and multiplied in another")
        .fact("it lies as " + layout_text(program.layouts[v]))
        .fact(use_text(graph, *table))
        .fact(use_text(graph, *head))
        .fact("for that, all devices together send " +
              bytes_text(static_cast<double>(bytes)) +
              " of it in every forward pass")
        .help(
            "with the vocabulary on the same axes in both, a device looks up "
            "the rows that it has and makes their logits");
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
  const std::string first = printable(manifest.name(table->index));
  const std::string second = printable(manifest.name(head->index));
  auto finding = diags.report(
      Code::TiedLayoutsDiffer, manifest.where(head->index),
      "`" + first + "` and `" + second + "` are tied, and lie differently");
  finding.fact("`" + first + "` " + shape_text(of_table.type.shape) +
               " lies as " + spec_text(of_table.spec));
  finding.fact("`" + second + "` " + shape_text(of_head.type.shape) +
               " lies as " + spec_text(of_head.spec));
  const Shape shape = {of_table.type.shape[table->vocab_dim],
                       of_table.type.shape[1 - table->vocab_dim]};
  const bool even = shape[0] % shard_count(plan.mesh, from.spec.dims[0]) == 0 &&
                    shape[1] % shard_count(plan.mesh, from.spec.dims[1]) == 0 &&
                    shape[0] % shard_count(plan.mesh, to.spec.dims[0]) == 0 &&
                    shape[1] % shard_count(plan.mesh, to.spec.dims[1]) == 0;
  if (even) {
    const TensorType& type = of_table.type;
    const double of_floats = plan_reshard(plan.mesh, shape, from, to).bytes;
    const double bytes =
        of_floats * static_cast<double>(type.bytes()) /
        static_cast<double>(TensorType{DType::F32, shape}.bytes());
    if (bytes > 0) {
      finding.fact("from one to the other every device sends " +
                   bytes_text(bytes));
    }
  }
  finding
      .help(
          "give both the same axes for the vocabulary and for the features, "
          "or store the weight once")
      .parameters({std::string(manifest.name(table->index)),
                   std::string(manifest.name(head->index))});
}

}  // namespace shardplan
