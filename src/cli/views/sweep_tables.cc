// SPDX-License-Identifier: Apache-2.0
#include "cli/views/sweep_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/views/budget_tables.h"

namespace shardplan::cli {
namespace {

constexpr size_t kSweepRowsForPeople = 40;

Cell count_cell(const std::optional<int64_t>& count) {
  return count ? Cell(Count{*count}) : Cell();
}

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

  bool has_column(size_t time) const { return times[time] || asked[time]; }
  bool is_timed() const { return contains(asked, true); }
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
    shown.limit = shown.limit || point.limit;
    shown.workload =
        shown.workload || (point.seq && !point.step && !point.serving);
    shown.serving = shown.serving || point.serving;
    shown.reasons = shown.reasons || !reasons_of(point).empty();
    shown.step = shown.step || point.step;
    shown.rate = shown.rate || point.times.is_known();
    if (point.times.asked) {
      shown.asked[static_cast<size_t>(*point.times.asked)] = true;
    }
    for (size_t i = 0; i < kTimed; ++i) {
      shown.times[i] = shown.times[i] || point.times.of[i];
    }
    if (point.step && points.front().step) {
      const SweptStep& of_first = *points.front().step;
      shown.microbatches = shown.microbatches ||
                           point.step->microbatches != of_first.microbatches;
      shown.remat = shown.remat || point.step->remat != of_first.remat;
    }
    const SweepPoint& first = points.front();
    shown.hardware = shown.hardware || point.device != first.device;
    shown.batch = shown.batch || point.batch != first.batch;
    shown.seq = shown.seq || point.seq != first.seq;
    const SweepMesh& mesh = meshes[point.mesh];
    shown.devices = shown.devices ||
                    mesh.mesh.devices() != meshes[first.mesh].mesh.devices();
    shown.several_axes = shown.several_axes || larger_axes(mesh.mesh) > 1;
    shown.views = shown.views || !mesh.mesh.views().empty();
    shown.findings =
        shown.findings || mesh.errors + mesh.warnings + point.warnings > 0;
  }
  return shown;
}

// Returns the views in the syntax of `--view`: "experts:ep=8,edp=4".
std::string named_views(const Mesh& mesh) {
  return joined_of(mesh.views(), " ", [](const MeshView& view) {
    return view.name + ":" + axes_text(view.axes);
  });
}

std::vector<Column> people_columns(const Shown& shown) {
  std::vector<Column> columns = {{"mesh", "mesh", Align::Left, true}};
  if (shown.views) columns.push_back({"views", "views", Align::Left, true});
  if (shown.devices && shown.several_axes) {
    columns.push_back(right("devices"));
  }
  if (shown.hardware) columns.push_back(left("hardware"));
  if (shown.batch) columns.push_back(right("batch"));
  if (shown.seq) {
    columns.push_back({"seq", shown.step ? "tokens" : "context", Align::Right});
  }
  if (shown.microbatches) columns.push_back(right("microbatches"));
  if (shown.remat) columns.push_back(left("remat"));
  if (shown.serving) {
    columns.push_back(right("weights"));
    columns.push_back(right("cache"));
    columns.push_back(right("tokens"));
    columns.push_back(right("sequences"));
  } else if (shown.step) {
    columns.push_back(right("estimate"));
    columns.push_back(right("upper", "at most"));
  } else {
    columns.push_back(right("bytes_per_device", "memory"));
  }
  for (size_t i = 0; i < kTimed; ++i) {
    if (shown.times[i]) columns.push_back(right(kTimes[i].id, kTimes[i].title));
  }
  if (shown.rate) {
    columns.push_back(right("tokens_per_second", "tokens/s"));
  }
  if (shown.limit) {
    columns.push_back({"headroom", "fits"});
    columns.back().tone = fit_tone;
  }
  if (shown.limit && shown.workload) {
    columns.push_back(left("breaks_at"));
    columns.back().below_if_wide = true;
  }
  if (shown.findings) {
    columns.push_back(left("findings"));
    columns.back().below_if_wide = true;
  }
  if (shown.reasons) {
    columns.push_back({"reasons", "", Align::Left, false, true});
  }
  return columns;
}

Row people_row(const SweepPoint& point, const SweepMesh& mesh,
               const Shown& shown) {
  Row row = {mesh_text(mesh.mesh)};
  if (shown.views) row.emplace_back(named_views(mesh.mesh));
  if (shown.devices && shown.several_axes) {
    row.emplace_back(Count{mesh.mesh.devices()});
  }
  if (shown.hardware) row.emplace_back(point.device);
  if (shown.batch) row.push_back(count_cell(point.batch));
  if (shown.seq) row.push_back(count_cell(point.seq));
  const std::optional<SweptStep>& step = point.step;
  if (shown.microbatches && step) row.emplace_back(Count{step->microbatches});
  if (shown.remat && step) row.emplace_back(step->remat);
  if (shown.serving && point.serving) {
    const SweptServing& serving = *point.serving;
    row.emplace_back(ByteSize{serving.weights});
    const bool runs = serving.starts;
    row.push_back(runs ? Cell(ByteSize{serving.cache}) : Cell());
    row.push_back(runs ? Cell(Count{serving.tokens}) : Cell());
    row.push_back(runs ? Cell(sequences_text(serving.sequences)) : Cell());
  } else if (shown.step && step) {
    row.emplace_back(ByteSize{step->estimate});
    row.emplace_back(ByteSize{step->upper});
  } else {
    row.emplace_back(ByteSize{point.total});
  }
  const SweptTimes& times = point.times;
  for (size_t i = 0; i < kTimed; ++i) {
    if (!shown.times[i]) continue;
    row.push_back(times.of[i] ? Cell(Duration{(*times.of[i])[1]}) : Cell());
  }
  if (shown.rate) {
    row.push_back(times.is_known()
                      ? Cell(Count{std::llround(times.tokens_per_second)})
                      : Cell());
  }
  if (shown.limit) row.emplace_back(headroom_text(point));
  if (shown.limit && shown.workload) {
    row.emplace_back(breaks_text(point.workload_headroom));
  }
  if (shown.findings) row.emplace_back(findings_text(point, mesh));
  if (shown.reasons) {
    row.emplace_back(Prose{joined(reasons_of(point), "; ")});
  }
  return row;
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
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
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
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

// Returns the columns for programs. The columns of a training step exist if a
// point has one, and those of times if they are requested or known.
std::vector<Column> program_columns(const std::vector<SweepPoint>& points,
                                    const Shown& shown) {
  std::vector<Column> columns = {left("mesh"),
                                 left("views"),
                                 left("devices"),
                                 left("hardware"),
                                 left("batch"),
                                 left("seq", "context"),
                                 left("bytes_per_device", "per device"),
                                 left("memory_limit", "memory"),
                                 left("headroom"),
                                 left("fits"),
                                 left("largest_batch"),
                                 left("longest_context"),
                                 left("errors"),
                                 left("warnings")};
  for (size_t i = 0; i < kCategories; ++i) {
    const std::string name(category_name(static_cast<Category>(i)));
    columns.push_back({name, name});
  }
  columns.push_back(left("fit"));
  if (!points.empty() && points.front().serving) {
    for (const char* name :
         {"starts", "reasons", "weights", "cache", "tokens", "sequences_lower",
          "sequences", "sequences_upper"}) {
      columns.push_back({name, name});
    }
  }
  if (!points.empty() && points.front().step) {
    for (const auto& [name, bytes] : points.front().step->beside) {
      columns.push_back({name, name});
    }
    for (const char* name :
         {"microbatches", "remat", "lower", "estimate", "upper", "reasons"}) {
      columns.push_back({name, name});
    }
  }
  for (size_t i = 0; i < kTimed; ++i) {
    if (shown.has_column(i)) columns.push_back({kTimes[i].id, kTimes[i].id});
  }
  if (shown.is_timed()) {
    columns.push_back({"tokens_per_second", "tokens_per_second"});
  }
  return columns;
}

Row program_row(const SweepPoint& point, const SweepMesh& mesh,
                const Shown& shown) {
  Row row = {MeshCell{mesh.mesh},
             ViewsCell{mesh.mesh.views()},
             Count{mesh.mesh.devices()},
             point.device.empty() ? Cell() : Cell(point.device),
             count_cell(point.batch),
             count_cell(point.seq),
             ByteSize{point.total},
             point.limit ? Cell(ByteSize{point.limit->usable}) : Cell(),
             headroom_cell(point.fit),
             fits_cell(point.fit),
             count_cell(point.workload_headroom.batch),
             count_cell(point.workload_headroom.context),
             Count{mesh.errors},
             Count{mesh.warnings + point.warnings}};
  for (const int64_t bytes : point.bytes) row.emplace_back(ByteSize{bytes});
  row.push_back(point.limit ? Cell(std::string(fit_name(point))) : Cell());
  if (point.serving) {
    const SweptServing& serving = *point.serving;
    row.emplace_back(YesNo{serving.starts});
    row.emplace_back(Names{serving.reasons});
    row.emplace_back(ByteSize{serving.weights});
    row.emplace_back(ByteSize{serving.cache});
    row.emplace_back(Count{serving.tokens});
    for (const double sequences : serving.sequences) {
      row.emplace_back(Ratio{sequences});
    }
  }
  if (point.step) {
    const SweptStep& step = *point.step;
    for (const auto& [name, bytes] : step.beside) {
      row.emplace_back(ByteSize{bytes});
    }
    row.emplace_back(Count{step.microbatches});
    row.emplace_back(step.remat);
    for (const int64_t bytes : {step.lower, step.estimate, step.upper}) {
      row.emplace_back(ByteSize{bytes});
    }
    row.emplace_back(Names{point.refused});
  }
  const SweptTimes& times = point.times;
  for (size_t i = 0; i < kTimed; ++i) {
    if (!shown.has_column(i)) continue;
    const auto& of = times.of[i];
    row.push_back(of ? Cell(DurationBracket{(*of)[0], (*of)[1], (*of)[2]})
                     : Cell());
  }
  if (shown.is_timed()) {
    row.push_back(times.is_known() ? Cell(Ratio{times.tokens_per_second})
                                   : Cell());
  }
  return row;
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
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
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
  const Shown shown = shown_of(points, meshes);
  return {"points", "Points", program_columns(points, shown),
          [&points, &meshes, shown](const RowSink& sink) {
            for (const SweepPoint& point : points) {
              sink(program_row(point, meshes[point.mesh], shown));
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
  const Shown shown = shown_of(points, meshes, impossible);
  const auto possible =
      static_cast<size_t>(std::ranges::count(impossible, false));
  const size_t limit = expand ? points.size() : kSweepRowsForPeople;
  Table table = {"sorted_points", "All configurations, fitting ones first",
                 people_columns(shown)};
  table.audience = Audience::People;
  std::vector<Row> rows;
  for (const size_t i : sorted(points, meshes)) {
    if (impossible[i]) continue;
    if (rows.size() == limit) {
      Row rest(table.columns.size());
      rest[0] = "and " + count_text(static_cast<int64_t>(possible - limit)) +
                " more (--expand)";
      rows.push_back(std::move(rest));
      break;
    }
    rows.push_back(people_row(points[i], meshes[points[i].mesh], shown));
  }
  table.rows = rows_of(std::move(rows));
  return table;
}

std::vector<Table> frontier_tables(const std::vector<SweepPoint>& points,
                                   const std::vector<SweepMesh>& meshes) {
  const Shown shown = shown_of(points, meshes);
  const Shown shown_to_people =
      shown_of(points, meshes, impossible_points(points, meshes));
  std::vector<Row> for_people;
  std::vector<Row> for_programs;
  for (const size_t i : frontier(points, meshes)) {
    const SweepMesh& mesh = meshes[points[i].mesh];
    for_people.push_back(people_row(points[i], mesh, shown_to_people));
    for_programs.push_back(program_row(points[i], mesh, shown));
  }
  Table people = {"frontier_for_people",
                  "Frontier of " + compared_text(points) + " versus devices",
                  people_columns(shown_to_people)};
  people.audience = Audience::People;
  people.rows = rows_of(std::move(for_people));
  Table programs = {"frontier", "", program_columns(points, shown)};
  programs.audience = Audience::Programs;
  programs.rows = rows_of(std::move(for_programs));
  return {std::move(people), std::move(programs)};
}

}  // namespace shardplan::cli
