// SPDX-License-Identifier: Apache-2.0
// Compares a measured step with its estimate, part by part.
#include "cli/commands/workload/residual.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/output.h"
#include "cli/views/columns.h"

namespace shardplan::cli {
namespace {

// The measured quantity: a time or bytes.
enum class Quantity : uint8_t { Step, Peak };

Cell amount(Quantity of, double value) {
  if (of == Quantity::Step) return Duration{value};
  return ByteSize{std::llround(value)};
}

std::string amount_text(Quantity of, double value) {
  return of == Quantity::Step ? seconds_text(value) : bytes_text(value);
}

std::string signed_text(Quantity of, double value) {
  return (value < 0 ? "-" : "+") + amount_text(of, std::abs(value));
}

std::string times_text(double times) {
  return fmt::format("{:.2f} times", times);
}

using Compared = std::vector<std::pair<Quantity, Residual>>;

std::string_view quantity_name(Quantity of) {
  return of == Quantity::Step ? "step" : "peak";
}

Table residual_table(const Compared& compared, bool for_people) {
  std::vector<Row> rows;
  for (const auto& each : compared) {
    const Quantity of = each.first;
    const Residual& residual = each.second;
    const auto add = [&](const std::string& part, Cell measured,
                         const auto& ends, std::optional<double> difference,
                         Cell alone, Cell in_range) {
      Row row = {part,
                 std::move(measured),
                 amount(of, ends.lower),
                 amount(of, ends.estimate),
                 amount(of, ends.upper),
                 !difference  ? Cell()
                 : for_people ? Cell(signed_text(of, *difference))
                              : amount(of, *difference),
                 std::move(alone)};
      if (!for_people) append(row, {in_range, std::string(quantity_name(of))});
      rows.push_back(std::move(row));
    };
    add(std::string(quantity_name(of)), amount(of, residual.measured), residual,
        residual.difference(), {}, {});
    for (const ResidualPart& part : residual.parts) {
      if (for_people && part.upper == 0) continue;
      const Cell alone = !for_people ? optional_cell<Ratio>(part.alone)
                         : part.alone_is_in_range
                             ? Cell(times_text(*part.alone))
                             : Cell("no");
      add(for_people ? "  " + part.title : part.part, {}, part, part.share,
          alone, YesNo{part.alone_is_in_range});
    }
  }
  std::vector<Column> columns = {left("part", for_people ? "" : "part"),
                                 right("measured"),
                                 right("lower", "at least"),
                                 right("estimate"),
                                 right("upper", "at most"),
                                 right("difference"),
                                 right("alone", "if alone")};
  if (!for_people) append(columns, {left("alone_in_range"), left("of")});
  return {for_people ? "residual_for_people" : "residual",
          "Measured versus estimated, by part", std::move(columns),
          rows_of(std::move(rows)), audience_of(for_people)};
}

// Returns "measured 6.20 s, 12.5 % above the estimate of 5.51 s and within 2.46
// s to 12.1 s".
std::string compared_text(Quantity of, const Residual& residual) {
  const double share = residual.difference() / residual.estimate;
  std::string text = "measured " + amount_text(of, residual.measured) +
                     (of == Quantity::Step ? "" : " at the peak") + ", " +
                     fmt::format("{:.1f} %", 100 * std::abs(share)) +
                     (share < 0 ? " below" : " above") + " the estimate of " +
                     amount_text(of, residual.estimate);
  if (residual.breaks_bound()) {
    return text + " and below the lower end of " +
           amount_text(of, residual.lower);
  }
  if (residual.measured > residual.upper) {
    return text + " and above the upper end of " +
           amount_text(of, residual.upper) +
           ": something is not counted, or the workload differs";
  }
  return text + ", within " + amount_text(of, residual.lower) + " to " +
         amount_text(of, residual.upper);
}

// Returns up to three parts, each of which could alone explain the difference
// within its range, the largest first.
std::string likely_text(const Residual& residual) {
  constexpr size_t kMaxNamed = 3;
  std::vector<const ResidualPart*> parts;
  for (const ResidualPart& part : residual.parts) {
    if (part.alone_is_in_range && part.share) parts.push_back(&part);
  }
  if (parts.empty()) {
    return "no single part explains it within its range";
  }
  std::ranges::stable_sort(parts, [](const auto* a, const auto* b) {
    return std::abs(*a->share) > std::abs(*b->share);
  });
  if (parts.size() > kMaxNamed) parts.resize(kMaxNamed);
  return "it is explained by " +
         joined_of(parts, ", or by ", [](const ResidualPart* part) {
           return part->title + " at " + times_text(*part->alone) +
                  " the estimate";
         });
}

void report_broken_bound(Quantity of, const Residual& residual,
                         Diagnostics& diags) {
  if (!residual.breaks_bound()) return;
  const bool is_step = of == Quantity::Step;
  diags
      .error(Code::BoundBroken, {},
             is_step ? "the measured step is faster than any run should be"
                     : "the measured peak is less than any run should need")
      .fact("measured " + amount_text(of, residual.measured) + ", at least " +
            amount_text(of, residual.lower))
      .help(is_step
                ? "usually the run differs from the flags: compare batch, "
                  "sequence length (padding counts), layers, recomputation, "
                  "precision, and the number and kind of devices"
                : "usually the run differs from the flags, or the number is "
                  "from another device: use torch.cuda.max_memory_allocated() "
                  "on the fullest device, with GiB in units of 1024")
      .help(
          "if they agree, a bound of shardplan is wrong: please report it with "
          "the command line and the output of `--json`");
}

}  // namespace

bool can_compare(const MeasuredStep& measured, const MemoryAnswer& answer,
                 Diagnostics& diags) {
  const auto& step = answer.step;
  if (!step) {
    diags
        .error(Code::Usage, {},
               "`--measured` needs a training step, but none is requested")
        .help(
            "add `--batch` and `--seq`, and `--hardware` for the time of the "
            "step");
    return false;
  }
  if (!measured.seconds || step->time) return true;
  auto problem = diags.error(
      Code::Usage, {},
      "`--measured step=` has no estimated step time to compare with");
  if (step->untimed.empty()) {
    problem.help("add `--hardware`, for example `--hardware h100-sxm`");
  } else {
    problem.fact(step->untimed).help("leave out `step=`");
  }
  return false;
}

void add_residual(const MeasuredStep& measured, const StepAnswer& answer,
                  Report& report, Diagnostics& diags) {
  Compared compared;
  if (measured.seconds) {
    compared.emplace_back(Quantity::Step,
                          time_residual(*answer.time, *measured.seconds));
  }
  if (measured.peak) {
    compared.emplace_back(Quantity::Peak,
                          memory_residual(answer.bracket, *measured.peak));
  }
  if (compared.empty()) return;
  for (const bool for_people : {true, false}) {
    report.tables.push_back(residual_table(compared, for_people));
  }
  for (const auto& [of, residual] : compared) {
    report.closing.push_back(compared_text(of, residual));
    if (!residual.breaks_bound() && residual.difference() != 0) {
      report.closing.push_back(likely_text(residual));
    }
    report_broken_bound(of, residual, diags);
  }
  report.notes.push_back(
      "parts were not measured: the difference is distributed by the "
      "uncertainty of each part");
}

}  // namespace shardplan::cli
