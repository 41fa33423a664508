// SPDX-License-Identifier: Apache-2.0
#include "cli/views/sweep_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/views/columns.h"
#include "cli/views/figures/plan_figures.h"

namespace shardplan::cli {
namespace {

constexpr size_t kSweepRowsForPeople = 40;

// Returns whether the point fits, as text.
std::string_view fit_name(const SweepPoint& point) {
  return point.fit.will_fit() ? "yes" : point.fit.may_fit() ? "perhaps" : "no";
}

// Returns "1.80 GiB free", "2.10 GiB over"; empty without a limit. For a
// training step, the free bytes are those of the upper bound and the excess is
// that of the lower bound.
std::string headroom_text(const SweepPoint& point) {
  if (!point.limit) return "";
  if (!point.refused.empty()) return "refused";
  if (point.serving) return std::string(fit_name(point));
  if (point.step) {
    const int64_t usable = point.limit->usable;
    if (point.fit.will_fit()) return bytes_text(*point.fit.headroom) + " free";
    if (point.fit.may_fit()) return "may fit";
    if (point.step->lower <= usable) return "state too large";
    return bytes_text(point.step->lower - usable) + " over";
  }
  const int64_t headroom = *point.fit.headroom;
  return headroom >= 0 ? bytes_text(headroom) + " free"
                       : bytes_text(-headroom) + " over";
}

// Returns "27.8 to 32.3".
std::string sequences_text(const std::array<double, 3>& of) {
  return fmt::format("{:.1f} to {:.1f}", of[0], of[2]);
}

std::string findings_text(const SweepPoint& point, const SweepMesh& mesh) {
  const int64_t warnings = mesh.warnings + point.warnings;
  std::string text;
  if (mesh.errors > 0) {
    text = plural(mesh.errors, "error") + " (" + mesh.error_codes + ")";
  }
  if (warnings > 0) {
    text += (text.empty() ? "" : ", ") + plural(warnings, "warning");
  }
  return text;
}

// Returns why the point cannot run.
const std::vector<std::string>& reasons_of(const SweepPoint& point) {
  return point.serving ? point.serving->reasons : point.refused;
}

// Derives the tone from the text of headroom_text().
Tone fit_tone(std::string_view text) {
  if (text == "yes" || text.ends_with(" free")) return Tone::Good;
  if (text == "perhaps" || text == "may fit") return Tone::Doubtful;
  return text.empty() ? Tone::Plain : Tone::Bad;
}

struct TimeColumn {
  const char* id;
  const char* title;
};
constexpr std::array<TimeColumn, kTimed> kTimes = {
    {{"step_time", "step"},
     {"time_to_first_token", "first token"},
     {"time_per_output_token", "per token"}}};

// The columns that are not empty or constant.
struct Shown {
  bool limit = false;
  bool workload = false;
  bool findings = false;
  // A value that all points share is in the headline, not in a column.
  bool devices = false;
  bool several_axes = false;  // else the mesh shows the number of devices
  bool hardware = false;
  bool batch = false;
  bool seq = false;
  bool serving = false;
  bool reasons = false;
  bool views = false;
  bool step = false;
  bool rate = false;
  std::array<bool, kTimed> times{};  // that some point has
  std::array<bool, kTimed> asked{};
  bool microbatches = false;
  bool remat = false;
};

int64_t larger_axes(const Mesh& mesh) {
  return std::ranges::count_if(mesh.axes(),
                               [](const Axis& axis) { return axis.size > 1; });
}

// Points that are `hidden` have no rows; an empty list hides none.
Shown shown_of(const std::vector<SweepPoint>& points,
               const std::vector<SweepMesh>& meshes,
               const std::vector<bool>& hidden = {}) {
  Shown shown;
  for (size_t p = 0; p < points.size(); ++p) {
    if (!hidden.empty() && hidden[p]) continue;
    const SweepPoint& point = points[p];
    const SweepPoint& first = points.front();
    shown.limit |= point.limit.has_value();
    shown.workload |= point.seq && !point.step && !point.serving;
    shown.serving |= point.serving.has_value();
    shown.reasons |= !reasons_of(point).empty();
    shown.step |= point.step.has_value();
    shown.rate |= point.times.is_known();
    if (point.times.asked) nth(shown.asked, *point.times.asked) = true;
    for (size_t i = 0; i < kTimed; ++i) {
      shown.times[i] |= point.times.of[i].has_value();
    }
    if (point.step && first.step) {
      shown.microbatches |=
          point.step->microbatches != first.step->microbatches;
      shown.remat |= point.step->remat != first.step->remat;
    }
    shown.hardware |= point.device != first.device;
    shown.batch |= point.batch != first.batch;
    shown.seq |= point.seq != first.seq;
    const SweepMesh& mesh = meshes[point.mesh];
    shown.devices |= mesh.mesh.devices() != meshes[first.mesh].mesh.devices();
    shown.several_axes |= larger_axes(mesh.mesh) > 1;
    shown.views |= !mesh.mesh.views().empty();
    shown.findings |= mesh.errors + mesh.warnings + point.warnings > 0;
  }
  return shown;
}

// Returns the views in the syntax of `--view`: "experts:ep=8,edp=4".
std::string named_views(const Mesh& mesh) {
  return joined_of(mesh.views(), " ", [](const MeshView& view) {
    return view.name + ":" + axes_text(view.axes);
  });
}

// The subject of a row.
struct SweepRow {
  const SweepPoint& point;
  const SweepMesh& of;  // the mesh of the point
};

// Returns the function for a cell about the training step or the engine, which
// a point may lack.
template <typename Part, typename CellOf>
auto of_part(std::optional<Part> SweepPoint::*part, CellOf cell) {
  return [part, cell](const SweepRow& row) {
    const std::optional<Part>& found = row.point.*part;
    return found ? Cell(std::invoke(cell, *found)) : Cell();
  };
}
template <typename CellOf>
auto of_step(CellOf cell) {
  return of_part(&SweepPoint::step, cell);
}
template <typename CellOf>
auto of_engine(CellOf cell) {
  return of_part(&SweepPoint::serving, cell);
}

ColumnsOf<SweepRow> people_columns(const Shown& shown) {
  const bool has_step = shown.step && !shown.serving;
  const auto of_running = [](auto cell) {
    return of_engine([cell](const SweptServing& engine) {
      return engine.starts ? Cell(cell(engine)) : Cell();
    });
  };
  const auto estimate = [&](size_t i) -> ColumnOf<SweepRow> {
    const auto cell = [i](const SweepRow& row) {
      const auto& seconds = row.point.times.of[i];
      return seconds ? Cell(Duration{(*seconds)[1]}) : Cell();
    };
    return {right(kTimes[i].id, kTimes[i].title), cell, shown.times[i]};
  };
  return {
      {elastic("mesh"), [](auto& row) { return mesh_text(row.of.mesh); }},
      {elastic("views"), [](auto& row) { return named_views(row.of.mesh); },
       shown.views},
      {right("devices"), [](auto& row) { return Count{row.of.mesh.devices()}; },
       shown.devices && shown.several_axes},
      {left("hardware"), [](auto& row) { return row.point.device; },
       shown.hardware},
      {right("batch"),
       [](auto& row) { return optional_cell<Count>(row.point.batch); },
       shown.batch},
      {right("seq", shown.step ? "tokens" : "context"),
       [](auto& row) { return optional_cell<Count>(row.point.seq); },
       shown.seq},
      {right("microbatches"),
       of_step([](auto& step) { return Count{step.microbatches}; }),
       shown.microbatches},
      {left("remat"), of_step(&SweptStep::remat), shown.remat},
      {right("weights"),
       of_engine([](auto& engine) { return ByteSize{engine.weights}; }),
       shown.serving},
      {right("cache"),
       of_running([](auto& engine) { return ByteSize{engine.cache}; }),
       shown.serving},
      {right("tokens"),
       of_running([](auto& engine) { return Count{engine.tokens}; }),
       shown.serving},
      {right("sequences"), of_running([](auto& engine) {
         return sequences_text(engine.sequences);
       }),
       shown.serving},
      {right("estimate"),
       of_step([](auto& step) { return ByteSize{step.estimate}; }), has_step},
      {right("upper", "at most"),
       of_step([](auto& step) { return ByteSize{step.upper}; }), has_step},
      {right("bytes_per_device", "memory"),
       [](auto& row) { return ByteSize{row.point.total}; },
       !shown.serving && !shown.step},
      estimate(0),
      estimate(1),
      estimate(2),
      {right("tokens_per_second", "tokens/s"),
       [](auto& row) {
         const SweptTimes& times = row.point.times;
         return times.is_known()
                    ? Cell(Count{std::llround(times.tokens_per_second)})
                    : Cell();
       },
       shown.rate},
      {{.id = "headroom", .title = "fits", .tone = fit_tone},
       [](auto& row) { return headroom_text(row.point); },
       shown.limit},
      {{.id = "breaks_at", .title = "breaks at", .below_if_wide = true},
       [](auto& row) { return breaks_text(row.point.workload_headroom); },
       shown.limit && shown.workload},
      {{.id = "findings", .title = "findings", .below_if_wide = true},
       [](auto& row) { return findings_text(row.point, row.of); },
       shown.findings},
      {below("reasons", ""),
       [](auto& row) { return Prose{joined(reasons_of(row.point), "; ")}; },
       shown.reasons}};
}

// Returns the columns for programs. The columns of a training step exist if a
// point has one, and those of times if they are requested or known.
ColumnsOf<SweepRow> program_columns(const std::vector<SweepPoint>& points,
                                    const Shown& shown) {
  ColumnsOf<SweepRow> columns;
  const auto add = [&](std::string id,
                       std::function<Cell(const SweepRow&)> cell) {
    columns.push_back({left(std::move(id)), std::move(cell)});
  };
  add("mesh", [](auto& row) { return MeshCell{row.of.mesh}; });
  add("views", [](auto& row) { return ViewsCell{row.of.mesh.views()}; });
  add("devices", [](auto& row) { return Count{row.of.mesh.devices()}; });
  add("hardware", [](auto& row) { return text_cell(row.point.device); });
  add("batch", [](auto& row) { return optional_cell<Count>(row.point.batch); });
  add("seq", [](auto& row) { return optional_cell<Count>(row.point.seq); });
  add("bytes_per_device", [](auto& row) { return ByteSize{row.point.total}; });
  add("memory_limit", [](auto& row) {
    const auto& limit = row.point.limit;
    return limit ? Cell(ByteSize{limit->usable}) : Cell();
  });
  add("headroom", [](auto& row) {
    return optional_cell<ByteSize>(row.point.fit.headroom);
  });
  add("fits",
      [](auto& row) { return optional_cell<YesNo>(row.point.fit.fits); });
  add("largest_batch", [](auto& row) {
    return optional_cell<Count>(row.point.workload_headroom.batch);
  });
  add("longest_context", [](auto& row) {
    return optional_cell<Count>(row.point.workload_headroom.context);
  });
  add("errors", [](auto& row) { return Count{row.of.errors}; });
  add("warnings",
      [](auto& row) { return Count{row.of.warnings + row.point.warnings}; });
  for (size_t i = 0; i < kCategories; ++i) {
    add(std::string(category_name(static_cast<Category>(i))),
        [i](auto& row) { return ByteSize{row.point.bytes[i]}; });
  }
  add("fit", [](auto& row) {
    return text_cell(row.point.limit ? fit_name(row.point) : "");
  });
  if (!points.empty() && points.front().serving) {
    const auto sequences = [](size_t end) {
      return of_engine(
          [end](auto& engine) { return Ratio{engine.sequences[end]}; });
    };
    add("starts", of_engine([](auto& e) { return YesNo{e.starts}; }));
    add("reasons", of_engine([](auto& e) { return Names{e.reasons}; }));
    add("weights", of_engine([](auto& e) { return ByteSize{e.weights}; }));
    add("cache", of_engine([](auto& e) { return ByteSize{e.cache}; }));
    add("tokens", of_engine([](auto& e) { return Count{e.tokens}; }));
    add("sequences_lower", sequences(0));
    add("sequences", sequences(1));
    add("sequences_upper", sequences(2));
  }
  if (!points.empty() && points.front().step) {
    const auto& beside = points.front().step->beside;
    for (size_t i = 0; i < beside.size(); ++i) {
      add(beside[i].first, of_step([i](auto& step) {
            return ByteSize{nth(step.beside, i).second};
          }));
    }
    add("microbatches", of_step([](auto& s) { return Count{s.microbatches}; }));
    add("remat", of_step(&SweptStep::remat));
    add("lower", of_step([](auto& s) { return ByteSize{s.lower}; }));
    add("estimate", of_step([](auto& s) { return ByteSize{s.estimate}; }));
    add("upper", of_step([](auto& s) { return ByteSize{s.upper}; }));
    add("reasons", [](auto& row) { return Names{row.point.refused}; });
  }
  for (size_t i = 0; i < kTimed; ++i) {
    if (!shown.times[i] && !shown.asked[i]) continue;
    add(kTimes[i].id, [i](auto& row) {
      const auto& of = row.point.times.of[i];
      return of ? Cell(DurationBracket{(*of)[0], (*of)[1], (*of)[2]}) : Cell();
    });
  }
  if (contains(shown.asked, true)) {
    add("tokens_per_second", [](auto& row) {
      const SweptTimes& times = row.point.times;
      return times.is_known() ? Cell(Ratio{times.tokens_per_second}) : Cell();
    });
  }
  return columns;
}

// Marks points that no framework runs and, if some mesh has no errors, points
// whose mesh has errors.
std::vector<bool> impossible_points(const std::vector<SweepPoint>& points,
                                    const std::vector<SweepMesh>& meshes) {
  const bool some_suit = std::ranges::any_of(
      meshes, [](const SweepMesh& mesh) { return mesh.errors == 0; });
  std::vector<bool> impossible;
  for (const SweepPoint& point : points) {
    const bool is_wrong = some_suit && meshes[point.mesh].errors > 0;
    impossible.push_back(is_wrong || !point.refused.empty());
  }
  return impossible;
}

std::vector<size_t> sorted(const std::vector<SweepPoint>& points,
                           const std::vector<SweepMesh>& meshes) {
  std::vector<size_t> order = numbers_below(points.size());
  // A sweep by time compares times first; a sweep by memory compares devices
  // first.
  const auto key = [&](size_t i) {
    const double cost = points[i].cost();
    const bool by_time = points[i].objective != Objective::Memory;
    const auto devices =
        static_cast<double>(meshes[points[i].mesh].mesh.devices());
    return std::tuple(!points[i].will_fit(), !points[i].may_fit(),
                      by_time ? cost : devices, by_time ? devices : cost);
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

// Returns what --objective compares.
std::string compared_text(const std::vector<SweepPoint>& points) {
  for (const SweepPoint& point : points) {
    if (point.objective == Objective::TokensPerSecond) {
      return "tokens per second";
    }
    if (point.objective == Objective::StepTime) {
      return point.step ? "step time" : "time";
    }
  }
  return !points.empty() && points.front().serving ? "sequences" : "memory";
}

// Returns what distinguishes a point: its mesh, views, workload, device, ...
std::string label_of(const SweepPoint& point, const SweepMesh& of,
                     const Shown& shown) {
  std::string text = mesh_text(of.mesh);
  const auto add = [&](bool is_shown, const std::string& what) {
    if (is_shown) text += ", " + what;
  };
  add(shown.views, named_views(of.mesh));
  add(shown.hardware, point.device);
  add(shown.batch, "batch " + std::to_string(point.batch.value_or(0)));
  add(shown.seq, std::to_string(point.seq.value_or(0)) + " tokens");
  if (point.step) {
    add(shown.microbatches,
        std::to_string(point.step->microbatches) + " micro-batches");
    add(shown.remat, "remat " + point.step->remat);
  }
  return text;
}

// Returns the points that can run, in order; all of them if none can.
std::vector<size_t> possible(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes) {
  std::vector<size_t> order = sorted(points, meshes);
  const std::vector<bool> impossible = impossible_points(points, meshes);
  if (contains(impossible, false)) {
    std::erase_if(order, [&](size_t i) { return impossible[i]; });
  }
  return order;
}

Bars memory_of(const std::vector<SweepPoint>& points,
               const std::vector<SweepMesh>& meshes) {
  const Shown shown = shown_of(points, meshes);
  const bool has_steps = points.front().step.has_value();
  Bars bars;
  bars.parts = {"at least", "to the estimate", "to the upper end"};
  bars.colours = {0, 6, 11};
  if (!has_steps) bars.parts = {"memory"};
  for (const size_t i : possible(points, meshes)) {
    const SweepPoint& point = points[i];
    Bars::Bar& bar = bars.bars.emplace_back();
    bar.label = label_of(point, meshes[point.mesh], shown);
    if (!has_steps) {
      bar.values = {static_cast<double>(point.total)};
      continue;
    }
    const auto least = static_cast<double>(point.step->lower);
    const auto estimate =
        std::max(static_cast<double>(point.step->estimate), least);
    const auto most =
        std::max(static_cast<double>(point.step->upper), estimate);
    bar.values = {least, estimate - least, most - estimate};
  }
  if (!shown.hardware) bars.limit = limit_of(points.front().limit);
  return bars;
}

Bars times_of(const std::vector<SweepPoint>& points,
              const std::vector<SweepMesh>& meshes) {
  const Shown shown = shown_of(points, meshes);
  Bars bars;
  bars.unit = AmountUnit::Seconds;
  bars.parts = {"estimate"};
  for (const size_t i : possible(points, meshes)) {
    const SweptTimes& times = points[i].times;
    const auto* found = std::ranges::find_if(
        times.of, [](const auto& time) { return time.has_value(); });
    if (found == times.of.end()) continue;
    bars.bars.push_back(
        {label_of(points[i], meshes[points[i].mesh], shown), {(**found)[1]}});
  }
  return bars;
}

}  // namespace

std::string common_text(const std::vector<SweepPoint>& points,
                        const std::vector<SweepMesh>& meshes) {
  if (points.empty()) return "";
  const SweepPoint& first = points.front();
  const Shown shown = shown_of(points, meshes);
  std::vector<std::string> parts;
  std::string where;
  if (!shown.devices) {
    where = plural(meshes[first.mesh].mesh.devices(), "device");
  }
  if (first.limit && !shown.hardware) {
    const std::string& name = first.device;
    if (!name.empty()) where += (where.empty() ? "" : " of ") + name;
    where += (where.empty() ? "" : " with ") + bytes_text(first.limit->usable);
  }
  if (!where.empty()) parts.push_back(std::move(where));
  if (first.batch && first.seq && !shown.batch &&
      (!first.serving || *first.batch > 1)) {
    parts.push_back("batch " + count_text(*first.batch));
  }
  if (first.seq && !shown.seq) {
    parts.push_back(first.step ? count_text(*first.seq) + " tokens"
                               : "context " + count_text(*first.seq));
  }
  if (first.step && !shown.microbatches && first.step->microbatches > 1) {
    parts.push_back(plural(first.step->microbatches, "micro-batch"));
  }
  if (first.step && !shown.remat) parts.push_back("remat " + first.step->remat);
  return joined(parts, ", ");
}

std::string breaks_text(const WorkloadHeadroom& workload_headroom) {
  std::string text;
  if (workload_headroom.batch)
    text = "batch " + count_text(*workload_headroom.batch + 1);
  if (workload_headroom.context) {
    text += (text.empty() ? "context " : " or context ") +
            count_text(*workload_headroom.context + 1);
  }
  return text;
}

Table points_table(const std::vector<SweepPoint>& points,
                   const std::vector<SweepMesh>& meshes) {
  const auto columns = program_columns(points, shown_of(points, meshes));
  return {"points", "", columns_of(columns),
          [&points, &meshes, columns](const RowSink& sink) {
            for (const SweepPoint& point : points) {
              sink(row_of(columns, {point, meshes[point.mesh]}));
            }
          },
          Audience::Programs};
}

std::string left_out_text(const std::vector<SweepPoint>& points,
                          const std::vector<SweepMesh>& meshes) {
  const std::vector<bool> impossible = impossible_points(points, meshes);
  std::map<std::string, int64_t> reasons;
  int64_t count = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!impossible[i]) continue;
    ++count;
    ++reasons[points[i].refused.empty() ? meshes[points[i].mesh].error_codes
                                        : points[i].refused.front()];
  }
  if (count == 0) return "";
  std::vector<std::pair<int64_t, std::string>> most;
  for (const auto& [reason, times] : reasons) most.emplace_back(-times, reason);
  std::ranges::sort(most);
  std::string text = plural(count, "configuration") + " that cannot run " +
                     (count == 1 ? "is" : "are") +
                     " hidden (`--expand` shows " +
                     (count == 1 ? "it" : "them") + "): ";
  const size_t shown = std::min<size_t>(most.size(), 3);
  for (size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : "; ") + most[i].second;
    if (count > 1) text += " (" + count_text(-most[i].first) + ")";
  }
  if (shown < most.size()) {
    text += "; and " +
            plural(static_cast<int64_t>(most.size() - shown), "more reason");
  }
  return text;
}

Table sorted_points(const std::vector<SweepPoint>& points,
                    const std::vector<SweepMesh>& meshes, bool expand) {
  const std::vector<bool> impossible =
      expand ? std::vector<bool>(points.size(), false)
             : impossible_points(points, meshes);
  const auto columns = people_columns(shown_of(points, meshes, impossible));
  std::vector<size_t> order = sorted(points, meshes);
  std::erase_if(order, [&](size_t i) { return impossible[i]; });
  const size_t most = expand ? points.size() : kSweepRowsForPeople;
  std::vector<Row> rows;
  for (const size_t i : order) {
    if (rows.size() == most) break;
    rows.push_back(row_of(columns, {points[i], meshes[points[i].mesh]}));
  }
  std::vector<Column> shown = columns_of(columns);
  if (order.size() > most) {
    rows.emplace_back(shown.size())[0] =
        "and " + count_text(static_cast<int64_t>(order.size() - most)) +
        " more (--expand)";
  }
  return {"sorted_points", "All configurations, fitting ones first",
          std::move(shown), rows_of(std::move(rows)), Audience::People};
}

std::vector<Table> frontier_tables(const std::vector<SweepPoint>& points,
                                   const std::vector<SweepMesh>& meshes) {
  std::vector<SweepRow> best;
  for (const size_t i : frontier(points, meshes)) {
    best.push_back({points[i], meshes[points[i].mesh]});
  }
  return {
      table_of("frontier_for_people",
               "Frontier of " + compared_text(points) + " versus devices", best,
               people_columns(
                   shown_of(points, meshes, impossible_points(points, meshes))),
               Audience::People),
      table_of("frontier", "", best,
               program_columns(points, shown_of(points, meshes)),
               Audience::Programs)};
}

std::vector<Figure> sweep_figures(const std::vector<SweepPoint>& points,
                                  const std::vector<SweepMesh>& meshes) {
  if (points.empty()) return {};
  std::vector<Figure> figures = {{"memory", "Memory per device, best first",
                                  [&] { return memory_of(points, meshes); }}};
  const bool timed = std::ranges::any_of(points, [](const SweepPoint& point) {
    return std::ranges::any_of(
        point.times.of, [](const auto& time) { return time.has_value(); });
  });
  if (timed) {
    figures.push_back(
        {"time", "Time, best first", [&] { return times_of(points, meshes); }});
  }
  return figures;
}

}  // namespace shardplan::cli
