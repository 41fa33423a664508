// SPDX-License-Identifier: Apache-2.0
#include "cli/views/gate_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "cli/views/columns.h"
#include "cli/views/figures/plan_figures.h"

namespace shardplan::cli {
namespace {

// A comment on GitHub may have at most 65,536 characters.
constexpr size_t kMaxCommentBytes = 65'000;
// Rows of a target's changes that people see.
constexpr size_t kMaxChanges = 12;
// Token counts of forward passes that are listed separately.
constexpr size_t kMaxTokens = 3;
// Reasons listed for collectives that were not compared or are in doubt.
constexpr size_t kMaxReasons = 3;

Cell cell_of(const ChangeValue& value) {
  if (const auto* spec = std::get_if<PartitionSpec>(&value)) return *spec;
  if (const auto* count = std::get_if<int64_t>(&value)) return Count{*count};
  if (const auto* bytes = std::get_if<ChangeBytes>(&value)) {
    return ByteSize{bytes->value};
  }
  if (const auto* time = std::get_if<ChangeSeconds>(&value)) {
    return Duration{time->value};
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return std::monostate{};
}

std::string change_size(int64_t bytes, bool exact) {
  return exact ? std::to_string(bytes) : bytes_text(bytes);
}

// Returns "+7.9 GiB", "-12 bytes", or "" for 0.
std::string delta_text(int64_t bytes, bool exact) {
  if (bytes == 0) return "";
  return (bytes > 0 ? "+" : "-") +
         change_size(bytes > 0 ? bytes : -bytes, exact);
}

// Returns the growth of a step's time, "+12.5 %"; "" if a side has no time.
std::string growth_text(const GateChange& change) {
  if (change.time_growth == 0) return "";
  return fmt::format("{:+.1f} %", 100 * change.time_growth);
}

std::string value_text(const ChangeValue& value, bool exact) {
  if (const auto* spec = std::get_if<PartitionSpec>(&value)) {
    return spec_text(*spec);
  }
  if (const auto* count = std::get_if<int64_t>(&value)) {
    return count_text(*count);
  }
  if (const auto* bytes = std::get_if<ChangeBytes>(&value)) {
    return change_size(bytes->value, exact);
  }
  if (const auto* time = std::get_if<ChangeSeconds>(&value)) {
    return exact ? fmt::format("{} s", time->value) : seconds_text(time->value);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return "-";
}

std::string line_text(const ChangeLine& line) {
  if (line.file.empty()) return "";
  return line.file + ":" + std::to_string(line.line) +
         (line.before ? " (before)" : "");
}

// Returns the axes of a label, or any other value as text.
std::string shown_value(const GateChange& change, const ChangeValue& value,
                        bool exact) {
  const auto* spec = std::get_if<PartitionSpec>(&value);
  const bool is_label = change.kind == GateKind::Label && spec != nullptr &&
                        spec->dims.size() == 1;
  return is_label ? axes_text(spec->dims[0]) : value_text(value, exact);
}

// Returns the name of what changed, as people read it.
std::string name_of(const GateChange& change) {
  switch (change.kind) {
    case GateKind::Finding: {
      const bool gone = change.after == ChangeValue(int64_t{0});
      const std::string how =
          gone ? "gone: "
          : change.severity == Severity::Off
              ? ""
              : "new " + std::string(severity_name(change.severity)) + ": ";
      return how + change.what;
    }
    case GateKind::Placement:
      return change.what + (change.parameters > 1
                                ? " ×" + std::to_string(change.parameters)
                                : "");
    case GateKind::Rule:
      return "rule " + change.what;
    case GateKind::Label:
      return "label " + change.what;
    case GateKind::Baseline:
      return "baseline " + change.what;
    case GateKind::Collective:
      // The amount sent is shown below.
      return change.what.substr(
          0, std::min(change.what.find(" of "), change.what.find(" after ")));
    case GateKind::Memory:
    case GateKind::Time:
    case GateKind::Target:
      break;
  }
  return change.what;
}

std::string axes_lost(const GateChange& change) {
  std::string text;
  const auto add = [&](const char* verb, const AxisNames& axes) {
    if (axes.empty()) return;
    text += (text.empty() ? "" : ", ") + std::string(verb) + " " +
            quoted_names(texts_of(axes));
  };
  add("loses", change.lost);
  add("gains", change.gained);
  return text;
}

// Returns the reason for the change, which is shown on its own line.
std::string reason_text(const GateChange& change) {
  if (change.kind == GateKind::Rule || change.kind == GateKind::Label) {
    return change.text;
  }
  std::string text = axes_lost(change);
  if (!change.text.empty()) text += (text.empty() ? "" : "; ") + change.text;
  return text;
}

Row row_for_people(const GateChange& change, bool exact) {
  std::string delta;
  if (change.kind == GateKind::Memory && change.of_bytes > 0) {
    delta = fmt::format("{:+.1f} %",
                        100.0 * static_cast<double>(change.bytes_per_device) /
                            static_cast<double>(change.of_bytes));
  } else if (change.kind == GateKind::Time) {
    delta = growth_text(change);
  } else {
    delta = delta_text(change.bytes_per_device, exact);
  }
  std::string below = line_text(change.line);
  const std::string reason = reason_text(change);
  if (!reason.empty()) below += (below.empty() ? "" : ": ") + reason;
  return {change.fails ? "✗" : "~",
          name_of(change),
          shown_value(change, change.before, exact),
          "→",
          shown_value(change, change.after, exact),
          delta,
          Prose{below}};
}

// Returns the changes to show. If there are too many, picks one of each kind in
// turn, so that no kind hides another.
std::set<const GateChange*> shown_of(
    const std::vector<const GateChange*>& changes, bool all) {
  if (all || changes.size() <= kMaxChanges) {
    return {changes.begin(), changes.end()};
  }
  std::map<GateKind, std::vector<const GateChange*>> by_kind;
  for (const GateChange* change : changes) {
    by_kind[change->kind].push_back(change);
  }
  std::set<const GateChange*> shown;
  for (size_t turn = 0; shown.size() < kMaxChanges; ++turn) {
    for (const auto& [kind, of_kind] : by_kind) {
      if (turn < of_kind.size() && shown.size() < kMaxChanges) {
        shown.insert(of_kind[turn]);
      }
    }
  }
  return shown;
}

Table people_table(std::string id, std::string title,
                   const std::vector<const GateChange*>& changes,
                   const GateView& view) {
  if (!view.expand && changes.size() > kMaxChanges) {
    title += " (" + count_text(std::ssize(changes)) +
             " changes; --expand shows all)";
  }
  std::vector<Row> rows;
  const std::set<const GateChange*> shown = shown_of(changes, view.expand);
  for (const GateChange* change : changes) {
    if (!shown.contains(change)) continue;
    rows.push_back(row_for_people(*change, view.exact));
  }
  Table table = {
      std::move(id),
      std::move(title),
      {left("sign", ""), elastic("what", "change"), left("before"),
       left("arrow", ""), left("after"), right("per_device"), below("why")},
      rows_of(std::move(rows)),
      Audience::People};
  table.show_header = false;
  return table;
}

bool any_fails(const std::vector<GateChange>& changes) {
  return std::ranges::any_of(changes, &GateChange::fails);
}

bool fails_target(const GateTarget& target) {
  return target.could_not_run || any_fails(*target.changes);
}

// Returns a text that is equal for targets with the same changes, which are
// shown once.
std::string fingerprint_of(const GateTarget& target) {
  std::string text = target.could_not_run ? "!" : "";
  for (const GateChange& change : *target.changes) {
    text += name_of(change) + '\x1f' + value_text(change.before, true) +
            '\x1f' + value_text(change.after, true) + '\x1f' +
            reason_text(change) + '\x1f' + line_text(change.line) +
            (change.fails ? "!" : "") + '\x1e';
  }
  return text;
}

struct Group {
  std::vector<std::string> names;
  const GateTarget* first = nullptr;
  bool fails = false;
  int64_t bytes = 0;  // of the largest change
};

std::vector<Group> groups_of(const GateView& view) {
  std::vector<Group> groups;
  std::map<std::string, size_t> numbers;
  for (const GateTarget& target : view.targets) {
    if (target.changes->empty() || target.could_not_run) continue;
    const auto [entry, is_new] =
        numbers.emplace(fingerprint_of(target), groups.size());
    if (is_new) {
      Group& group = groups.emplace_back();
      group.first = &target;
      group.fails = any_fails(*target.changes);
      for (const GateChange& change : *target.changes) {
        group.bytes = std::max(group.bytes, std::abs(change.bytes_per_device));
      }
    }
    groups[entry->second].names.push_back(target.name);
  }
  std::ranges::stable_sort(groups, std::greater(), [](const Group& group) {
    return std::pair(group.fails, group.bytes);
  });
  return groups;
}

// Returns the changes that fail first, otherwise in their original order.
std::vector<const GateChange*> by_weight(
    const std::vector<GateChange>& changes) {
  std::vector<const GateChange*> all;
  for (const GateChange& change : changes) all.push_back(&change);
  std::ranges::stable_sort(all, std::greater(), &GateChange::fails);
  return all;
}

// Returns null if the target is not checked on both sides or does not differ.
Cell coverage_cell(const CollectiveCoverage& collectives) {
  constexpr std::array<std::string_view, 4> kCoverage = {"", "same", "compared",
                                                         "unknown"};
  return text_cell(nth(kCoverage, collectives.how));
}

Cell coverage_note(const CollectiveCoverage& collectives) {
  if (collectives.text.empty()) return {};
  return Prose{collectives.text + (collectives.doubt.empty() ? "" : "; ") +
               collectives.doubt};
}

Table targets_table(const GateView& view) {
  std::vector<Row> rows;
  for (const GateTarget& target : view.targets) {
    const CollectiveCoverage& collectives = target.collectives;
    rows.push_back({target.name, YesNo{!target.changes->empty()},
                    Count{target.errors}, Count{target.warnings},
                    YesNo{fails_target(target)}, coverage_cell(collectives),
                    coverage_note(collectives)});
  }
  return {"targets",
          "",
          {left("target"), left("changed"), left("errors"), left("warnings"),
           left("failed"), left("collectives"), left("collectives_note")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

Table memory_changes_table(const GateView& view) {
  std::vector<Row> rows;
  for (const GateTarget& target : view.targets) {
    for (const CategoryChange& change : target.categories) {
      Row& row = rows.emplace_back(Row{target.name, change.category});
      for (const auto* ends : {&change.before, &change.after}) {
        for (const int64_t bytes : *ends) row.emplace_back(ByteSize{bytes});
      }
    }
  }
  return {"memory_changes",
          "",
          {left("target"), left("category"), left("lower_before"),
           left("estimate_before"), left("upper_before"), left("lower_after"),
           left("estimate_after"), left("upper_after")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

Table time_changes_table(const GateView& view) {
  std::vector<Row> rows;
  for (const GateTarget& target : view.targets) {
    for (const TimeChange& change : target.times) {
      Row& row = rows.emplace_back(Row{target.name, change.part});
      for (const auto* side : {&change.before, &change.after}) {
        const auto [seconds, exposed] = side->value_or(TimeChange::Side{});
        for (const double value :
             {seconds.lower, seconds.estimate, seconds.upper, exposed}) {
          row.push_back(*side ? Cell(Duration{value}) : Cell());
        }
      }
    }
  }
  return {"time_changes",
          "",
          {left("target"), left("part"), left("lower_before"),
           left("estimate_before"), left("upper_before"),
           left("exposed_before"), left("lower_after"), left("estimate_after"),
           left("upper_after"), left("exposed_after")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

bool is_bracket(const CategoryChange& change) {
  return change.before.front() != change.before.back() ||
         change.after.front() != change.after.back();
}

ColumnsOf<GateChange> gate_columns() {
  const auto of_line = [](auto cell) {
    return [cell](const GateChange& change) {
      return change.line.file.empty() ? Cell() : Cell(cell(change.line));
    };
  };
  return {
      {left("target"), [](auto& c) { return text_cell(c.target); }},
      {left("kind"), [](auto& c) { return text_cell(gate_kind_name(c.kind)); }},
      {left("what"), &GateChange::what},
      {left("before"), [](auto& c) { return cell_of(c.before); }},
      {left("after"), [](auto& c) { return cell_of(c.after); }},
      {left("file"), [](auto& c) { return text_cell(c.line.file); }},
      {left("line"), of_line([](auto& line) { return Count{line.line}; })},
      {left("side"),
       of_line([](auto& line) { return line.before ? "base" : "head"; })},
      {left("fails"), [](auto& c) { return YesNo{c.fails}; }},
      {left("why"),
       [](auto& c) { return c.text.empty() ? Cell() : Cell(Prose{c.text}); }},
      {left("lost"), [](auto& c) { return Names{texts_of(c.lost)}; }},
      {left("gained"), [](auto& c) { return Names{texts_of(c.gained)}; }},
      {left("parameters"), [](auto& c) { return Count{c.parameters}; }},
      {left("bytes_per_device"),
       [](auto& c) { return ByteSize{c.bytes_per_device}; }}};
}

Table changes_table(const GateView& view) {
  std::vector<const std::vector<GateChange>*> all = {view.changes};
  for (const GateTarget& target : view.targets) all.push_back(target.changes);
  const auto columns = gate_columns();
  return {"gate_changes", "", columns_of(columns),
          [all, columns](const RowSink& sink) {
            for (const auto* changes : all) {
              for (const GateChange& change : *changes) {
                sink(row_of(columns, change));
              }
            }
          },
          Audience::Programs};
}

struct Totals {
  int64_t changed = 0;
  int64_t failed = 0;
  int64_t broken = 0;
};

Totals totals_of(const GateView& view) {
  Totals totals;
  for (const GateTarget& target : view.targets) {
    totals.changed += !target.changes->empty();
    totals.failed += fails_target(target);
    totals.broken += target.could_not_run;
  }
  return totals;
}

// Returns "2 of 12 targets change, 1 fails."
std::string totals_text(const GateView& view, const Totals& totals) {
  const auto all = std::ssize(view.targets);
  if (totals.changed == 0 && totals.broken == 0 && view.changes->empty()) {
    return (all == 1 ? "the only target is"
                     : "all " + count_text(all) + " targets are") +
           std::string(" unchanged.");
  }
  std::string text = count_text(totals.changed) + " of " +
                     plural(all, "target") +
                     (totals.changed == 1 ? " changes" : " change");
  text += ", " + count_text(totals.failed) +
          (totals.failed == 1 ? " fails" : " fail");
  if (totals.broken > 0) {
    text += "; " + count_text(totals.broken) + " could not run";
  }
  return text + ".";
}

// Returns a number of one side; 0 if it does not exist there.
double number_of(const ChangeValue& value) {
  if (const auto* bytes = std::get_if<ChangeBytes>(&value)) {
    return static_cast<double>(bytes->value);
  }
  const auto* time = std::get_if<ChangeSeconds>(&value);
  return time == nullptr ? 0 : time->value;
}

// Adds what targets need before and after, in memory and in time.
void add_figures(const GateView& view, Report& report) {
  const auto add = [&](GateKind kind, const char* name, const char* title,
                       AmountUnit unit) {
    Bars bars = before_and_after(unit);
    for (const GateTarget& target : view.targets) {
      for (const GateChange& change : *target.changes) {
        if (change.kind != kind) continue;
        add_before_and_after(target.name, number_of(change.before),
                             number_of(change.after), bars);
      }
    }
    if (bars.bars.empty()) return;
    report.figures.push_back({name, title, [bars] { return bars; }});
  };
  add(GateKind::Memory, "memory", "Memory per device, before and after",
      AmountUnit::Bytes);
  add(GateKind::Time, "time", "Time of a step, before and after",
      AmountUnit::Seconds);
}

void add_people_tables(const GateView& view, Report& report) {
  if (!view.changes->empty()) {
    report.tables.push_back(people_table("general_changes", view.general,
                                         by_weight(*view.changes), view));
  }
  size_t number = 0;
  for (const Group& group : groups_of(view)) {
    const std::span<const std::string> names = group.names;
    std::string title =
        joined(names.first(std::min<size_t>(3, names.size())), ", ");
    if (names.size() > 3) {
      title += " and " + plural(std::ssize(names) - 3, "more target");
    }
    if (group.fails) title += ": fails";
    const auto changes = by_weight(*group.first->changes);
    report.tables.push_back(people_table(
        "target_changes_" + std::to_string(++number), title, changes, view));
    report.tables.back().folded = !group.fails;
  }
}

// Adds the reasons with the names of their targets, at most kMaxReasons.
void add_reasons(const char* begin,
                 const std::map<std::string, std::vector<std::string>>& reasons,
                 const char* between, std::vector<std::string>& notes) {
  size_t shown = 0;
  for (const auto& [why, names] : reasons) {
    if (++shown > kMaxReasons) {
      notes.push_back(plural(static_cast<int64_t>(reasons.size() - kMaxReasons),
                             "more reason") +
                      " in `collectives_note` of the JSON report.");
      return;
    }
    notes.push_back(begin + some_names(names) + between + why + ".");
  }
}

// Adds for how many changed targets collectives were compared, over which
// numbers of tokens, and why they were not compared for the others.
void add_coverage(const GateView& view, std::vector<std::string>& notes) {
  using How = CollectiveCoverage::How;
  std::map<std::string, std::vector<std::string>> unknown;
  std::map<std::string, std::vector<std::string>> compared;
  std::map<std::string, std::vector<std::string>> doubted;
  size_t all = 0;
  for (const GateTarget& target : view.targets) {
    const CollectiveCoverage& collectives = target.collectives;
    if (collectives.how == How::NotAsked || collectives.how == How::Same) {
      continue;
    }
    ++all;
    auto& kind = collectives.how == How::Compared ? compared : unknown;
    kind[collectives.text].push_back(target.name);
    if (collectives.doubt.empty()) continue;
    doubted[collectives.doubt].push_back(target.name);
  }
  if (all == 0) return;
  if (compared.empty() && unknown.size() == 1) {
    notes.push_back("Collectives were not compared: " + unknown.begin()->first +
                    ".");
    return;
  }
  size_t count = 0;
  std::vector<std::string> tokens;
  for (const auto& [over, names] : compared) {
    count += names.size();
    tokens.push_back(over);
  }
  std::string text = "Collectives were compared for " +
                     count_text(static_cast<int64_t>(count)) + " of " +
                     plural(static_cast<int64_t>(all), "target");
  if (count > 0) {
    text += ", in a forward pass over ";
    text += tokens.size() > kMaxTokens ? "each one's tokens"
                                       : joined(tokens, ", ", " or ");
  }
  notes.push_back(text + ".");
  add_reasons("In the forward pass of ", doubted, ", ", notes);
  add_reasons("Not compared for ", unknown, ": ", notes);
}

std::vector<std::string> same_targets(const GateView& view) {
  std::vector<std::string> names;
  for (const GateTarget& target : view.targets) {
    if (target.changes->empty() && !target.could_not_run) {
      names.push_back(target.name);
    }
  }
  return names;
}

}  // namespace

Table category_table(const std::vector<CategoryChange>& categories,
                     bool exact) {
  const bool brackets = std::ranges::any_of(categories, is_bracket);
  std::vector<Row> rows;
  const auto add = [&](const std::string& title, int64_t was, int64_t is) {
    rows.push_back(
        {title, ByteSize{was}, ByteSize{is}, delta_text(is - was, exact)});
  };
  for (const CategoryChange& change : categories) {
    const auto& [lower_before, was, upper_before] = change.before;
    const auto& [lower_after, is, upper_after] = change.after;
    const bool is_total = change.category == "total";
    if (was != is || is_total) add(change.title, was, is);
    if (!is_total || !brackets) continue;
    add("total, at least", lower_before, lower_after);
    add("total, at most", upper_before, upper_after);
  }
  return {"category_changes",
          brackets ? "Training step memory, on the fullest device (estimate)"
                   : "Memory on the fullest device",
          {left("category", ""), right("before"), right("after"),
           right("delta", "change")},
          rows_of(std::move(rows)),
          Audience::People};
}

Table time_table(const std::vector<TimeChange>& times) {
  std::vector<Row> rows;
  const auto add = [&](const std::string& title, double was, double is) {
    rows.push_back({title, Duration{was}, Duration{is},
                    was == is ? Cell() : Cell(Duration{is - was})});
  };
  for (const TimeChange& change : times) {
    const double was = change.before ? change.before->exposed : 0;
    const double is = change.after ? change.after->exposed : 0;
    const bool is_total = &change == &times.back();
    if (was != is || is_total) add(change.part, was, is);
    if (!is_total) continue;
    add(change.part + ", at least", change.before->seconds.lower,
        change.after->seconds.lower);
    add(change.part + ", at most", change.before->seconds.upper,
        change.after->seconds.upper);
  }
  return {
      "part_changes",
      "Time per " + times.back().part + ", on the slowest device (estimate)",
      {left("part", ""), right("before"), right("after"),
       right("delta", "change")},
      rows_of(std::move(rows)),
      Audience::People};
}

std::string change_text(const GateChange& change) {
  const std::string arrow = shown_value(change, change.before, false) + " → " +
                            shown_value(change, change.after, false);
  switch (change.kind) {
    case GateKind::Memory: {
      const std::string how = change.bytes_per_device < 0 ? "less" : "more";
      const std::string text =
          change.what == "replicated parameters"
              ? "every device holds " + how + " unsharded memory: "
              : "the fullest device uses " + how + ": ";
      return text + arrow + " (" + delta_text(change.bytes_per_device, false) +
             ")";
    }
    case GateKind::Time: {
      const std::string growth = growth_text(change);
      const std::string timed =
          "a " + change.what.substr(0, change.what.find(' '));
      if (change.after == ChangeValue()) {
        return timed + " no longer has a time: " + arrow;
      }
      if (growth.empty()) break;
      return timed + " takes " +
             (change.time_growth < 0 ? "less time: " : "longer: ") + arrow +
             " (" + growth + ")";
    }
    case GateKind::Placement:
    case GateKind::Label:
    case GateKind::Rule:
      if (change.lost.empty() && change.gained.empty()) break;
      return "`" + change.what + "` " + axes_lost(change) + ": " + arrow;
    default:
      break;
  }
  return std::string(gate_kind_name(change.kind)) + " `" + change.what +
         "` changes: " + arrow;
}

Report gate_report(const GateView& view) {
  const Totals totals = totals_of(view);
  Report report;
  report.command = "gate";
  report.summary = {{"targets", Count{std::ssize(view.targets)}},
                    {"changed", Count{totals.changed}},
                    {"failed", Count{totals.failed}},
                    {"base", view.base},
                    {"head", view.head}};
  report.headline = {view.verdict + ": " + totals_text(view, totals),
                     view.base + " → " + view.head};
  report.tables = {targets_table(view), changes_table(view),
                   memory_changes_table(view), time_changes_table(view)};
  add_people_tables(view, report);
  add_figures(view, report);
  if (const auto same = same_targets(view);
      !same.empty() && totals.changed > 0) {
    report.closing.push_back("Unchanged: " + some_names(same) + ".");
  }
  add_coverage(view, report.closing);
  if (!view.expand) report.most_bytes = kMaxCommentBytes;
  return report;
}

}  // namespace shardplan::cli
