// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_memory.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan::cli {
namespace {

// What is held of every number at least, while a node is computed in doubles:
// of an input a float32 and the double that it became; of a parameter the
// double alone, since the float32 may be mapped; of an earlier result what the
// unsharded and the sharded run have of it in both precisions; of the one that
// is made, a double in both runs. Residues are doubles, and in one precision.
constexpr int64_t kInput = 12;
constexpr int64_t kParameter = 8;
constexpr int64_t kEarlier = 24;
constexpr int64_t kMade = 16;
constexpr int64_t kResidue = 8;
// What is tried where nothing says how much memory there is.
constexpr int64_t kUnknown = int64_t{64} << 30U;

// Whether the result is the operand's numbers in other words, or a part of
// them, which takes no memory.
bool may_be_view(const GraphNode& node) {
  static constexpr std::array<std::string_view, 4> kViews = {
      "transpose", "slice", "reshape", "constraint"};
  return std::find(kViews.begin(), kViews.end(), node.op->name) != kViews.end();
}

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
      : graph_(graph), exact_(exact), last_(graph.values.size(), -1) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const int operand : graph.nodes[n].operands) {
        last_[static_cast<size_t>(operand)] = static_cast<int>(n);
      }
    }
    for (const int output : graph.outputs) {
      last_[static_cast<size_t>(output)] = static_cast<int>(graph.nodes.size());
    }
  }

  // What is held at least while a node is computed. To be called for all nodes
  // in their order.
  Int128 next(int node) {
    const GraphNode& at = graph_.nodes[static_cast<size_t>(node)];
    Int128 total = earlier_ + bytes(at.result, node);
    std::vector<int> read = at.operands;
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const int operand : read) {
      const auto v = static_cast<size_t>(operand);
      const bool result = graph_.values[v].kind == Value::Kind::Result;
      if (!result) total += bytes(operand, node);
      // From the next node on it is not there any more.
      if (result && last_[v] == node) earlier_ -= bytes(operand, node);
    }
    if (last_[static_cast<size_t>(at.result)] > node) {
      earlier_ += bytes(at.result, node + 1);
    }
    return total;
  }

  // Of one value, while a node is computed.
  Int128 bytes(int value, int node) const {
    const Value& of = graph_.values[static_cast<size_t>(value)];
    return bytes_of(of, unit(of, last_[static_cast<size_t>(value)], node));
  }

 private:
  int64_t unit(const Value& value, int last, int node) const {
    const bool read = last >= node;
    if (value.kind == Value::Kind::Parameter) return read ? kParameter : 0;
    if (value.kind == Value::Kind::Input) {
      if (!read) return 0;
      return exact_ ? kResidue : kInput;
    }
    if (value.node > node || (value.node < node && !read) ||
        may_be_view(graph_.nodes[static_cast<size_t>(value.node)])) {
      return 0;
    }
    if (value.node == node) return kMade;
    return exact_ ? 2 * kResidue : kEarlier;
  }

  const Graph& graph_;
  bool exact_;
  std::vector<int> last_;  // by value: the last node that reads it, the number
                           // of nodes for outputs; -1 where none does
  Int128 earlier_ = 0;     // of results that are there before the next node
};

std::string size_text(Int128 bytes) {
  return bytes < kUncounted ? bytes_text(static_cast<double>(bytes))
                            : std::string("more than 2^63 bytes");
}

bool has_limit() { return memory_left() < std::numeric_limits<int64_t>::max(); }

std::string allowed_text(const Options& options) {
  if (options.max_memory) {
    return "the program may use " + size_text(*options.max_memory);
  }
  // This differs between machines.
  return has_limit() ? size_text(memory_left()) + " are left of what it may use"
                     : size_text(kUnknown) + " are as much as is tried";
}

}  // namespace

bool fits_memory(const Graph& graph, bool exact, const Options& options,
                 Diagnostics& diags) {
  const int64_t limit = has_limit() ? memory_left() : kUnknown;
  Counter counter(graph, exact);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto node = static_cast<int>(n);
    const Int128 total = counter.next(node);
    if (total <= limit) continue;
    int largest = graph.nodes[n].result;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const auto value = static_cast<int>(v);
      if (counter.bytes(value, node) > counter.bytes(largest, node)) {
        largest = value;
      }
    }
    const Value& value = graph.values[static_cast<size_t>(largest)];
    const Value& made =
        graph.values[static_cast<size_t>(graph.nodes[n].result)];
    diags
        .error(Code::MemoryBudget,
               value.where ? value.where : graph.nodes[n].where,
               "the graph is too large to run: to compute `" +
                   printable(made.name) + "` takes at least " +
                   size_text(total))
        .fact("`" + printable(value.name) + "` is " + shape_text(value.shape) +
              ", which takes " + size_text(counter.bytes(largest, node)))
        .fact(allowed_text(options))
        .help(
            "smaller `--tokens` or `--dims` keep the same structure, and so "
            "does `--shrink`")
        .help("`--max-memory SIZE` sets what the program may use");
    return false;
  }
  return true;
}

}  // namespace shardplan::cli
