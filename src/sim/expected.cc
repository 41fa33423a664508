// SPDX-License-Identifier: Apache-2.0
#include "sim/expected.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "base/text.h"
#include "graph/stored.h"

namespace shardplan {
namespace {

double relative_error(const Tensor& output, const Tensor& expected) {
  const std::vector<double> got = values_of(output);
  const std::vector<double> wanted = values_of(expected);
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(got[i]) || std::isnan(wanted[i])) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    // Infinite alike is no difference, and no measure of the others either: of
    // an infinite number every difference is nothing.
    if (std::isinf(got[i]) || std::isinf(wanted[i])) {
      if (got[i] == wanted[i]) continue;
      return std::numeric_limits<double>::infinity();
    }
    difference = std::max(difference, std::abs(got[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return difference == 0 ? 0 : difference / largest;
}

// Reports what cannot be compared.
bool check_type(const Value& output, const TensorType& type, Span where,
                Diagnostics& diags) {
  const std::string name = "`" + printable(output.name) + "`";
  if (!is_computable(type.dtype)) {
    diags.error(Code::Usage, where,
                "the expected " + name + " is " +
                    std::string(dtype_name(type.dtype)) +
                    ": outputs are floating-point numbers");
    return false;
  }
  if (type.shape == output.shape) return true;
  diags
      .error(Code::Usage, where,
             "the expected " + name + " is " + shape_text(type.shape) +
                 ", but the run gives " + shape_text(output.shape))
      .help("the expected outputs must be those of the same tokens");
  return false;
}

void report_none(const Graph& graph, const Manifest& expected,
                 Diagnostics& diags) {
  std::string outputs;
  for (const int output : graph.outputs) {
    const Value& value = graph.values[static_cast<size_t>(output)];
    outputs += (outputs.empty() ? "`" : ", `") + printable(value.name) + "`";
  }
  auto report = diags.error(
      Code::Usage, expected.size() == 0 ? Span() : expected.where(0),
      "`" + printable(expected.title) + "` holds no output of the model");
  report.fact("its outputs are " + outputs);
}

}  // namespace

std::optional<std::vector<ExpectedError>> compare_expected(
    const Graph& graph, std::span<const Tensor> unsharded,
    std::span<const Tensor> sharded, const Manifest& expected,
    const StoredTensors& numbers, Diagnostics& diags) {
  SHARDPLAN_CHECK(unsharded.size() == graph.outputs.size() &&
                  sharded.size() == graph.outputs.size() &&
                  numbers.size() == expected.size());
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < expected.size(); ++i) {
    places.emplace(expected.name(i), i);
  }
  std::vector<ExpectedError> errors;
  bool comparable = true;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const int value = graph.outputs[i];
    const Value& output = graph.values[static_cast<size_t>(value)];
    const auto found = places.find(output.name);
    if (found == places.end()) continue;
    if (!check_type(output, expected.type(found->second),
                    expected.where(found->second), diags)) {
      comparable = false;
      continue;
    }
    const Tensor wanted = load(numbers[found->second], Element::F64);
    errors.push_back({value, relative_error(unsharded[i], wanted),
                      relative_error(sharded[i], wanted)});
  }
  if (!comparable) return std::nullopt;
  if (errors.empty()) {
    report_none(graph, expected, diags);
    return std::nullopt;
  }
  return errors;
}

}  // namespace shardplan
