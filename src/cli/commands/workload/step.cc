// SPDX-License-Identifier: Apache-2.0
// The parts of a report that describe a training step, and the times of
// inference.
#include "cli/commands/workload/step.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/output.h"
#include "cli/views/budget_tables.h"
#include "cli/views/columns.h"
#include "cost/step_time.h"
#include "report/table_text.h"

namespace shardplan::cli {
namespace {

constexpr Style kPlainStyle = {.unicode = false};

using Ends = std::array<int64_t, kSavingModes>;

ByteBracket byte_bracket(const Ends& ends) {
  return {ends[0], ends[1], ends[2]};
}

// Returns the bytes of categories of memory: for people with their total and
// bars of the estimate, for programs with their sources, if any.
template <typename Category>
Table categories_table(std::string id, std::string title,
                       const std::vector<Category>& categories,
                       const Ends& total, bool for_people,
                       Cell (*source)(const Category&) = nullptr) {
  Table table = table_of(
      std::move(id), std::move(title), categories,
      {{left("category", ""), &Category::title, for_people},
       {left("category"), &Category::category, !for_people},
       {right("lower", "at least"),
        [](auto& each) { return ByteSize{each.bytes[0]}; }},
       {right("estimate"), [](auto& each) { return ByteSize{each.bytes[1]}; }},
       {right("upper", "at most"),
        [](auto& each) { return ByteSize{each.bytes[2]}; }},
       {left("share", ""),
        [&](auto& each) {
          return Bar{static_cast<double>(each.bytes[1]) /
                     static_cast<double>(std::max<int64_t>(total[1], 1))};
        },
        for_people},
       {left("source"), source, !for_people && source != nullptr}},
      audience_of(for_people));
  if (for_people) {
    table.footer = Row{"total",
                       ByteSize{total[0]},
                       ByteSize{total[1]},
                       ByteSize{total[2]},
                       {}};
  }
  return table;
}

void add_bracket_tables(const MemoryBracket& bracket, Report& report) {
  const std::string title = "Training step memory, on the fullest device";
  std::vector<BracketRow> for_people = bracket.rows;
  std::erase_if(for_people,
                [](const BracketRow& row) { return row.bytes[2] == 0; });
  append(report.tables, {categories_table("memory_bracket_for_people", title,
                                          for_people, bracket.total, true),
                         categories_table("memory_bracket", title, bracket.rows,
                                          bracket.total, false)});
}

void add_reserved_tables(const ReservedMemory& reserved, Report& report) {
  const std::string title =
      "Memory in use, with allocator and runtime overhead";
  append(report.tables,
         {categories_table("memory_reserved_for_people", title, reserved.rows,
                           reserved.total, true),
          categories_table<ReservedRow>(
              "memory_reserved", title, reserved.rows, reserved.total, false,
              [](auto& row) { return text_cell(row.source); })});
}

Table widened_table(const MemoryBracket& bracket) {
  return table_of(
      "widened", "Sources of uncertainty, at the upper end's peak",
      bracket.widened,
      {{elastic("cause", ""), &Widening::cause},
       {right("bytes"), [](auto& w) { return ByteSize{w.bytes}; }}});
}

Table alive_table(const MemoryBracket& bracket) {
  return table_of("alive",
                  "Live at peak (estimate): " + bracket.moment +
                      (bracket.device.empty() ? "" : " on " + bracket.device),
                  bracket.alive,
                  {{elastic("value"), &AliveRow::value},
                   {left("from"),
                    [](auto& row) {
                      return std::string(row.saved ? "forward" : "backward");
                    }},
                   {right("bytes_per_device", "per device"),
                    [](auto& row) { return ByteSize{row.bytes}; }}});
}

Table stages_table(const MemoryBracket& bracket) {
  return table_of(
      "stage_brackets", "Training step memory, by stage", bracket.stages,
      {{right("stage"), [](auto& s) { return Count{s.stage}; }},
       {left("class"), &StageBracket::device},
       {right("lower", "at least"),
        [](auto& s) { return ByteSize{s.total[0]}; }},
       {right("estimate"), [](auto& s) { return ByteSize{s.total[1]}; }},
       {right("upper", "at most"),
        [](auto& s) { return ByteSize{s.total[2]}; }}});
}

// `what` is "step", "token" or "first token".
std::string per_text(const std::string& what) {
  return what == "first token" ? "to first token" : "per " + what;
}

Table time_table(const StepTime& time, const std::string& what,
                 bool for_people) {
  Table table = table_of(
      for_people ? "step_time_for_people" : "step_time",
      "Time " + per_text(what) + ", on the slowest device", time.parts,
      {{left("part", for_people ? "" : "part"), &StepTimePart::part},
       {right("lower", "at least"),
        [](auto& part) { return Duration{part.seconds.lower}; }},
       {right("estimate"),
        [](auto& part) { return Duration{part.seconds.estimate}; }},
       {right("upper", "at most"),
        [](auto& part) { return Duration{part.seconds.upper}; }},
       {right("exposed"), [](auto& part) { return Duration{part.exposed}; }},
       {left("basis"),
        [](auto& part) { return std::string(basis_name(part.basis)); }},
       {left("source"), [](auto& part) { return text_cell(part.source); },
        !for_people}},
      audience_of(for_people));
  if (for_people) {
    table.footer = Row{what,
                       Duration{time.total.lower},
                       Duration{time.total.estimate},
                       Duration{time.total.upper},
                       {},
                       {}};
  }
  return table;
}

// Returns "a step takes 5.32 s (2.27 s to 18.2 s): 49,399 tokens/s, ..."
std::string time_text(const StepTime& time, int64_t devices) {
  const double rate = time.tokens_per_second();
  return "a step takes " + range_text(time.total) + ": " +
         count_text(std::llround(rate)) + " tokens/s, " +
         count_text(std::llround(rate / static_cast<double>(devices))) +
         " per device, MFU " + cell_text(Percent{time.mfu}, kPlainStyle);
}

Table collectives_table(const StepTime& time, const std::string& what) {
  return table_of(
      "step_collectives", "Communication per device, " + per_text(what),
      time.collectives,
      {{left("kind"),
        [](auto& row) { return std::string(collective_name(row.kind)); }},
       {left("axis"),
        [](auto& row) { return joined_of(row.axes, ",", &AxisName::text); }},
       {left("link"), &StepCollective::link},
       {elastic("where"), &StepCollective::where},
       {left("direction"),
        [](auto& row) {
          return std::string(nth(kDirectionNames, row.direction));
        }},
       {right("count"),
        [](auto& row) { return Count{static_cast<int64_t>(row.count)}; }},
       {right("bytes_per_device", "per device"),
        [](auto& row) {
          return ByteSize{static_cast<int64_t>(row.bytes_per_device)};
        }},
       {right("seconds", "time"),
        [](auto& row) { return Duration{row.seconds}; }},
       {right("exposed"), [](auto& row) { return Duration{row.exposed}; }}});
}

// Returns whether the step also fits with the memory that the allocator and the
// runtime reserve; "" if there is nothing to add.
std::string reserved_text(const ReservedMemory& reserved,
                          const MemoryBracket& bracket,
                          const std::optional<DeviceLimit>& limit) {
  if (reserved.arena && bracket.upper() > *reserved.arena) {
    return std::string(bracket.lower() > *reserved.arena
                           ? "the step does not fit"
                           : "the step may not fit") +
           " the arena of " + bytes_text(*reserved.arena) +
           "; raise XLA_CLIENT_MEM_FRACTION to enlarge it";
  }
  if (!limit || bracket.upper() > limit->usable ||
      reserved.total[2] <= limit->usable) {
    return "";
  }
  return "allocations fit, but with allocator and runtime overhead the step "
         "needs " +
         bytes_text(reserved.total[0]) + " to " +
         bytes_text(reserved.total[2]) +
         (reserved.total[0] > limit->usable ? ", which does not fit "
                                            : ", which may not fit ") +
         bytes_text(limit->usable);
}

void add_time_tables(const StepTime& time, const std::string& what,
                     Report& report) {
  report.tables.push_back(time_table(time, what, true));
  report.tables.push_back(time_table(time, what, false));
  if (!time.collectives.empty()) {
    report.tables.push_back(collectives_table(time, what));
  }
}

void add_limits(const StepTime& time,
                const std::vector<std::string>& calibrated, Report& report) {
  report.closing.push_back("limited by " + time.limited_by);
  if (!calibrated.empty()) {
    report.notes.push_back("calibrated with " +
                           joined(calibrated, ", ", " and "));
  }
  if (!time.links.empty()) {
    report.notes.push_back("links: " + joined(time.links, "; "));
  }
}

// Returns "in host memory, per device: 11.2 GiB; per host with 8 devices: 89.8
// GiB".
std::string host_text(const StepAnswer& answer) {
  const Ends& host = answer.bracket.host;
  const bool known = host[0] == host[2];
  std::string text =
      "in host memory, per device: " +
      (known ? bytes_text(host[0])
             : "at least " + bytes_text(host[0]) + ", estimate " +
                   bytes_text(host[1]) + ", at most " + bytes_text(host[2]));
  if (!answer.devices_per_host) return text;
  const double devices = static_cast<double>(*answer.devices_per_host);
  return text + "; per host with " + std::to_string(*answer.devices_per_host) +
         " devices: " + (known ? "" : "up to ") +
         bytes_text(static_cast<double>(host[2]) * devices);
}

}  // namespace

std::string range_text(const Seconds& seconds) {
  const auto text = [](double each) {
    return cell_text(Duration{each}, kPlainStyle);
  };
  return text(seconds.estimate) + " (" + text(seconds.lower) + " to " +
         text(seconds.upper) + ")";
}

void add_inference(const MemoryAnswer& answer, Mode mode, TimeTables tables,
                   Report& report) {
  const InferenceTimes& times = *answer.inference;
  const auto add = [&](const char* key, const std::optional<StepTime>& time) {
    report.summary.emplace_back(
        key, time ? Cell(duration_bracket(time->total)) : Cell());
  };
  const std::optional<StepTime>& first = times.first_token;
  const std::optional<StepTime>& next = times.next_token;
  const bool decodes = mode == Mode::Decode;
  if (!decodes || first) add("time_to_first_token", first);
  if (decodes) add("time_per_output_token", next);
  const std::optional<StepTime>& shown = decodes ? next : first;
  if (!shown) {
    report.notes.push_back("no time: " + times.untimed);
    return;
  }
  const double rate = shown->tokens_per_second();
  report.summary.emplace_back("tokens_per_second", Ratio{rate});
  report.summary.emplace_back("limited_by", shown->limited_by);
  report.summary.emplace_back("calibrated", Names{times.calibrated});
  if (first) {
    report.closing.push_back("the first token takes " +
                             range_text(first->total));
  }
  if (next) {
    report.closing.push_back("a token takes " + range_text(next->total));
  }
  report.closing.back() += ": " + count_text(std::llround(rate)) + " tokens/s";
  add_limits(*shown, times.calibrated, report);
  if (const auto& full = answer.full_batch) {
    const double most = full->next_token.tokens_per_second();
    add("full_batch_time_per_output_token", full->next_token);
    report.summary.emplace_back("full_batch", Count{full->sequences});
    report.summary.emplace_back("full_batch_tokens_per_second", Ratio{most});
    report.closing.push_back("with " + plural(full->sequences, "sequence") +
                             " (the most that fit), " +
                             range_text(full->next_token.total) + ": " +
                             count_text(std::llround(most)) + " tokens/s");
  }
  report.notes.push_back(times.workload);
  if (tables == TimeTables::Shown) {
    add_time_tables(*shown, decodes ? "token" : "first token", report);
  }
}

std::string step_fit_text(const StepAnswer& answer, const Fit& fit,
                          const DeviceLimit& limit) {
  return fit_text(fit, limit) + (answer.left_out.empty() ? "" : " (text only)");
}

std::vector<std::pair<std::string, Cell>> step_summary(
    const StepAnswer& answer) {
  const MemoryBracket& of = answer.bracket;
  std::vector<std::pair<std::string, Cell>> summary = {
      {"memory_bracket", byte_bracket(of.total)},
      {"memory_bracket_from", std::string(bracket_source_name(answer.from))}};
  if (of.offloads) summary.emplace_back("host_bracket", byte_bracket(of.host));
  if (answer.reserved) {
    summary.emplace_back("memory_reserved",
                         byte_bracket(answer.reserved->total));
  }
  if (answer.time) {
    const StepTime& time = *answer.time;
    summary.emplace_back("step_time", duration_bracket(time.total));
    summary.emplace_back("tokens_per_second", Ratio{time.tokens_per_second()});
    summary.emplace_back("mfu", Percent{time.mfu});
    summary.emplace_back("limited_by", time.limited_by);
    summary.emplace_back("calibrated", Names{answer.calibrated});
  } else if (!answer.untimed.empty()) {
    summary.emplace_back("step_time", Cell{});
  }
  return summary;
}

void add_step_text(const StepAnswer& answer, Report& report) {
  if (answer.bracket.offloads) report.notes.push_back(host_text(answer));
  if (answer.time) {
    report.closing.push_back(time_text(*answer.time, answer.devices));
    add_limits(*answer.time, answer.calibrated, report);
  } else if (!answer.untimed.empty()) {
    report.notes.push_back("no step time: " + answer.untimed);
  }
}

void add_step(const StepAnswer& answer, const Budget& budget, const Fit& fit,
              Report& report) {
  const MemoryBracket& bracket = answer.bracket;
  append(report.summary, step_summary(answer));
  add_bracket_tables(bracket, report);
  if (bracket.stages.size() > 1) report.tables.push_back(stages_table(bracket));
  if (answer.reserved) add_reserved_tables(*answer.reserved, report);
  if (!bracket.widened.empty()) {
    report.tables.push_back(widened_table(bracket));
  }
  report.tables.push_back(alive_table(bracket));
  if (answer.time) add_time_tables(*answer.time, "step", report);
  report.notes.push_back(answer.workload);
  const bool crossed =
      std::ranges::any_of(bracket.rows, [](const BracketRow& row) {
        return row.bytes[1] < row.bytes[0] || row.bytes[2] < row.bytes[1];
      });
  if (crossed) {
    report.notes.push_back(
        "each column is taken at its own peak: a category may shrink from "
        "column to column, but the total does not");
  }
  if (budget.limit) {
    std::string each = stage_limits_text(*budget.limit);
    if (!each.empty()) report.notes.push_back(std::move(each));
    report.closing.push_back(step_fit_text(answer, fit, *budget.limit));
  }
  add_step_text(answer, report);
  if (answer.reserved) {
    std::string text = reserved_text(*answer.reserved, bracket, budget.limit);
    if (!text.empty()) report.notes.push_back(std::move(text));
  }
}

}  // namespace shardplan::cli
