// SPDX-License-Identifier: Apache-2.0
// Tables of given inputs, and of outputs compared with recorded ones.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/views/simulate_report.h"

namespace shardplan::cli {
namespace {

// Appends the outputs that the recording lacks, which were not compared.
void append_uncompared(const SimulateInput& input,
                       std::span<const ExpectedError> expected,
                       Report& report) {
  for (const ValueId output : input.graph.outputs) {
    if (std::ranges::count(expected, output, &ExpectedError::value)) continue;
    report.notes.push_back(fmt::format("`{}` is not in `{}`: not compared",
                                       output_name(input.graph, output),
                                       input.expected->path));
  }
}

}  // namespace

void append_expected(const SimulateInput& input,
                     std::span<const ExpectedError> expected, Report& report) {
  const std::string& file = input.expected->path;
  std::vector<Row> rows;
  for (const ExpectedError& error : expected) {
    const std::string& name = output_name(input.graph, error.value);
    rows.push_back({name, ratio_cell(error.unsharded),
                    ratio_cell(error.sharded), ratio_cell(error.exact),
                    ratio_cell(error.tolerance)});
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
  report.tables.push_back({"expected",
                           "",
                           {left("value"), left("unsharded"), left("sharded"),
                            left("exact"), left("tolerance")},
                           rows_of(std::move(rows)),
                           Audience::Programs});
  append_uncompared(input, expected, report);
}

void append_given(const SimulateInput& input, Report& report) {
  std::vector<std::string> parts;
  std::vector<Row> rows;
  for (const GivenInput& each : input.given) {
    const std::string& name = input.graph.values[each.value].name;
    parts.push_back(fmt::format("`{}` from `{}`", name, each.from));
    rows.push_back({name, each.from});
  }
  report.headline.push_back("inputs: " + joined(parts, ", "));
  report.tables.push_back({"inputs",
                           "",
                           {left("value"), left("from")},
                           rows_of(std::move(rows)),
                           Audience::Programs});
}

}  // namespace shardplan::cli
