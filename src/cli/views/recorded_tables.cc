// SPDX-License-Identifier: Apache-2.0
// Tables of given inputs, and of outputs compared with recorded ones.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/views/simulate_report.h"

namespace shardplan::cli {
namespace {

// Returns null if the number is not finite.
Cell error_cell(double number) {
  return std::isfinite(number) ? Cell(Ratio{number}) : Cell();
}

// Appends the outputs that the recording lacks, which were not compared.
void append_uncompared(const SimulateInput& input,
                       std::span<const ExpectedError> expected,
                       Report& report) {
  for (const ValueId output : input.graph.outputs) {
    const bool compared = std::ranges::any_of(
        expected,
        [output](const ExpectedError& each) { return each.value == output; });
    if (compared) continue;
    report.notes.push_back(fmt::format("`{}` is not in `{}`: not compared",
                                       output_name(input.graph, output),
                                       input.expected->path));
  }
}

// Returns "inputs: `x` from `x.safetensors`".
std::string given_text(const SimulateInput& input) {
  std::vector<std::string> parts;
  for (const GivenInput& each : input.given) {
    parts.push_back(fmt::format(
        "`{}` from `{}`", input.graph.values[each.value].name, each.from));
  }
  return fmt::format("inputs: {}", fmt::join(parts, ", "));
}

Table inputs_table(const SimulateInput& input) {
  Table table = {"inputs", "", {left("value", "input"), left("from")}};
  table.audience = Audience::Programs;
  std::vector<Row> rows;
  for (const GivenInput& each : input.given) {
    rows.push_back({input.graph.values[each.value].name, each.from});
  }
  table.rows = rows_of(std::move(rows));
  return table;
}

}  // namespace

void append_expected(const SimulateInput& input,
                     std::span<const ExpectedError> expected, Report& report) {
  Table table = {"expected",
                 "",
                 {left("value"), right("unsharded"), right("sharded"),
                  right("exact"), right("tolerance")}};
  table.audience = Audience::Programs;
  std::vector<Row> rows;
  for (const ExpectedError& error : expected) {
    const std::string& name = output_name(input.graph, error.value);
    rows.push_back({name, error_cell(error.unsharded),
                    error_cell(error.sharded), error_cell(error.exact),
                    error_cell(error.tolerance)});
    const std::string& file = input.expected->path;
    if (!std::isfinite(error.exact)) {
      report.notes.push_back(
          fmt::format("`{}` cannot be compared with `{}`: it is not finite or "
                      "is zero in one of them",
                      name, file));
      continue;
    }
    report.closing.push_back(fmt::format(
        "`{}` is within {} of `{}`", name,
        error.exact < kExpectedTolerance ? std::string("1e-5")
                                         : fmt::format("{:.2g}", error.exact),
        file));
    if (error.agrees() && error.exact >= kExpectedTolerance) {
      report.closing.back() += fmt::format(
          "; rounding in the recording explains {:.2g}", error.tolerance);
    }
  }
  table.rows = rows_of(std::move(rows));
  report.tables.push_back(std::move(table));
  append_uncompared(input, expected, report);
}

void append_given(const SimulateInput& input, Report& report) {
  report.headline.push_back(given_text(input));
  report.tables.push_back(inputs_table(input));
}

}  // namespace shardplan::cli
