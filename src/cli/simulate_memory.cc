// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_memory.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/allocation.h"
#include "base/checked.h"
#include "base/text.h"

namespace shardplan::cli {
namespace {

// What is held of every number at least: a double; in two precisions a float32
// beside it, but of parameters, which may be views of a file.
constexpr int64_t kDouble = 8;
constexpr int64_t kBoth = 12;
// What is tried where nothing says how much memory there is.
constexpr int64_t kUnknown = int64_t{64} << 30U;
constexpr int64_t kUncounted = std::numeric_limits<int64_t>::max();

// Whether the result is the operand's numbers in other words, or a part of
// them, which takes no memory.
bool may_be_view(const GraphNode& node) {
  static constexpr std::array<std::string_view, 4> kViews = {
      "transpose", "slice", "reshape", "constraint"};
  return std::find(kViews.begin(), kViews.end(), node.op->name) != kViews.end();
}

// Empty where it exceeds 63 bits.
std::optional<int64_t> bytes_of(const Graph& graph, const Value& value,
                                bool exact) {
  if (value.node >= 0 &&
      may_be_view(graph.nodes[static_cast<size_t>(value.node)])) {
    return 0;
  }
  const auto elements = element_count(value.shape);
  const bool both = !exact && value.kind == Value::Kind::Result;
  return elements ? checked_mul(*elements, both ? kBoth : kDouble)
                  : std::nullopt;
}

// The values that are there while a node is computed, each once.
std::vector<int> values_at(const GraphNode& node) {
  std::vector<int> values = node.operands;
  values.push_back(node.result);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::string size_text(const std::optional<int64_t>& bytes) {
  return bytes ? bytes_text(static_cast<double>(*bytes))
               : std::string("more than 2^63 bytes");
}

bool has_limit() { return memory_left() < kUncounted; }

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
  for (const GraphNode& node : graph.nodes) {
    std::optional<int64_t> total = 0;
    int largest = node.result;
    int64_t most = -1;
    for (const int number : values_at(node)) {
      const Value& value = graph.values[static_cast<size_t>(number)];
      const std::optional<int64_t> bytes = bytes_of(graph, value, exact);
      total = total && bytes ? checked_add(*total, *bytes) : std::nullopt;
      if (bytes.value_or(kUncounted) <= most) continue;
      most = bytes.value_or(kUncounted);
      largest = number;
    }
    if (total && *total <= limit) continue;
    const Value& value = graph.values[static_cast<size_t>(largest)];
    const Value& result = graph.values[static_cast<size_t>(node.result)];
    diags
        .error(Code::MemoryBudget, value.where ? value.where : node.where,
               "the graph is too large to run: `" + printable(result.name) +
                   "` and what it is made of take at least " + size_text(total))
        .fact("`" + printable(value.name) + "` is " + shape_text(value.shape) +
              ", which takes " + size_text(bytes_of(graph, value, exact)))
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
