// SPDX-License-Identifier: Apache-2.0
#include "cli/views/figures/step_figures.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "cli/views/figures/plan_figures.h"

namespace shardplan::cli {
namespace {

constexpr std::array<const char*, kSavingModes> kEnds = {"at least", "estimate",
                                                         "at most"};

Bars ends_of(const MemoryBracket& bracket, const Budget& budget) {
  Bars bars;
  for (const BracketRow& row : bracket.rows) bars.parts.push_back(row.title);
  for (size_t end = 0; end < kSavingModes; ++end) {
    Bars::Bar& bar = bars.bars.emplace_back();
    bar.label = kEnds[end];
    for (const BracketRow& row : bracket.rows) {
      bar.values.push_back(static_cast<double>(row.bytes[end]));
    }
  }
  bars.limit = limit_of(budget.limit);
  return bars;
}

Plot moments_of(const MemoryCurve& curve, const Budget& budget,
                const std::string& title) {
  Plot plot;
  plot.title = title;
  plot.x_title = "forward, backward, optimizer";
  plot.y_title = "bytes per device";
  plot.unit = AmountUnit::Bytes;
  plot.is_linear = true;
  PlotSeries upper{"at most", {}};
  for (const MemoryCurve::Moment& moment : curve.moments) {
    plot.x_labels.push_back(moment.label);
    plot.series.resize(moment.rows.size());
    double most = 0;
    for (size_t i = 0; i < moment.rows.size(); ++i) {
      const BracketRow& row = moment.rows[i];
      plot.series[i].name = row.title;
      plot.series[i].points.push_back(
          static_cast<double>(nth(row.bytes, SavingMode::Fused)));
      most += static_cast<double>(row.bytes.back());
    }
    upper.points.push_back(most);
  }
  plot.stacked = plot.series.size();
  plot.series.push_back(std::move(upper));
  plot.limit = limit_of(budget.limit);
  return plot;
}

Bars stages_of(const MemoryBracket& bracket, const Budget& budget) {
  Bars bars;
  bars.parts = {"at least", "to the estimate", "to the upper end"};
  bars.colours = {0, 6, 11};
  for (const StageBracket& stage : bracket.stages) {
    const auto at = [&](SavingMode end) {
      return static_cast<double>(nth(stage.total, end));
    };
    const double least = at(SavingMode::Least);
    const double estimate = std::max(at(SavingMode::Fused), least);
    std::string label = "stage " + std::to_string(stage.stage);
    if (!stage.device.empty()) label = stage.device;
    bars.bars.push_back({std::move(label),
                         {least, estimate - least,
                          std::max(at(SavingMode::Eager) - estimate, 0.0)}});
  }
  bars.limit = limit_of(budget.limit);
  return bars;
}

Bars parts_of(const StepTime& time, const std::string& what) {
  Bars bars;
  bars.unit = AmountUnit::Seconds;
  bars.parts = {"exposed", "hidden"};
  bars.colours = {0, 6};
  bars.bars.push_back({"a " + what, {time.total.estimate, 0}});
  for (const StepTimePart& part : time.parts) {
    const double hidden = part.seconds.estimate - part.exposed;
    bars.bars.push_back({part.part, {part.exposed, std::max(hidden, 0.0)}});
  }
  return bars;
}

}  // namespace

void add_memory_figures(const MemoryBracket& bracket, const Budget& budget,
                        Report& report) {
  report.figures.push_back({"memory",
                            "Memory of a training step, on the fullest device",
                            [&] { return ends_of(bracket, budget); }});
  if (bracket.curve) {
    const std::string title =
        "Memory during a step, estimate; peak: " + bracket.moment;
    report.figures.push_back(
        {"moments", title,
         [&, title] { return moments_of(*bracket.curve, budget, title); }});
  }
  if (bracket.stages.size() > 1) {
    report.figures.push_back({"stages", "Memory by pipeline stage",
                              [&] { return stages_of(bracket, budget); }});
  }
}

Figure time_figure(const StepTime& time, const std::string& what) {
  return {"time", "Time of a " + what + ", on the slowest device",
          [&time, what] { return parts_of(time, what); }};
}

}  // namespace shardplan::cli
