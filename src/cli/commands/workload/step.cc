// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/workload/step.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/words.h"
#include "cli/views/budget_tables.h"
#include "cost/step_time.h"
#include "report/table_text.h"

namespace shardplan::cli {
namespace {

Cell bytes_cell(int64_t bytes) { return ByteSize{bytes}; }

Table bracket_table(const MemoryBracket& bracket, bool for_people) {
  Table table = {for_people ? "memory_bracket_for_people" : "memory_bracket",
                 "Training step memory, on the fullest device",
                 {{"category", for_people ? "" : "category"},
                  right("lower", "at least"),
                  right("estimate"),
                  right("upper", "at most")}};
  table.audience = for_people ? Audience::People : Audience::Programs;
  table.rows = [&bracket, for_people](const RowSink& sink) {
    for (const BracketRow& row : bracket.rows) {
      if (for_people && row.bytes[2] == 0) continue;
      sink(Row{for_people ? row.title : row.category, bytes_cell(row.bytes[0]),
               bytes_cell(row.bytes[1]), bytes_cell(row.bytes[2])});
    }
  };
  if (for_people) {
    table.footer =
        Row{std::string("total"), bytes_cell(bracket.lower()),
            bytes_cell(bracket.estimate()), bytes_cell(bracket.upper())};
  }
  return table;
}

Table widened_table(const MemoryBracket& bracket) {
  return {"widened",
          "Sources of uncertainty, at the upper end's peak",
          {{"cause", "", Align::Left, true}, right("bytes")},
          [&bracket](const RowSink& sink) {
            for (const Widening& row : bracket.widened) {
              sink(Row{row.cause, bytes_cell(row.bytes)});
            }
          }};
}

Table alive_table(const MemoryBracket& bracket) {
  Table table;
  table.id = "alive";
  table.title = "Live at peak (estimate): " + bracket.moment +
                (bracket.device.empty() ? "" : " on " + bracket.device);
  table.columns = {{"value", "value", Align::Left, true},
                   left("from"),
                   right("bytes_per_device", "per device")};
  table.rows = [&bracket](const RowSink& sink) {
    for (const AliveRow& row : bracket.alive) {
      sink(Row{row.value, std::string(row.saved ? "forward" : "backward"),
               bytes_cell(row.bytes)});
    }
  };
  return table;
}

Table stages_table(const MemoryBracket& bracket) {
  return {"stage_brackets",
          "Training step memory, by stage",
          {right("stage"), left("class"), right("lower", "at least"),
           right("estimate"), right("upper", "at most")},
          [&bracket](const RowSink& sink) {
            for (const StageBracket& row : bracket.stages) {
              sink(Row{Count{row.stage}, row.device, bytes_cell(row.total[0]),
                       bytes_cell(row.total[1]), bytes_cell(row.total[2])});
            }
          }};
}

Table reserved_table(const ReservedMemory& reserved, bool for_people) {
  Table table;
  table.id = for_people ? "memory_reserved_for_people" : "memory_reserved";
  table.title = "Memory in use, with allocator and runtime overhead";
  table.columns = {{"category", for_people ? "" : "category"},
                   right("lower", "at least"),
                   right("estimate"),
                   right("upper", "at most")};
  if (!for_people) table.columns.push_back(left("source"));
  table.audience = for_people ? Audience::People : Audience::Programs;
  table.rows = [&reserved, for_people](const RowSink& sink) {
    for (const ReservedRow& row : reserved.rows) {
      Row cells = {for_people ? row.title : row.category,
                   bytes_cell(row.bytes[0]), bytes_cell(row.bytes[1]),
                   bytes_cell(row.bytes[2])};
      if (!for_people) {
        cells.push_back(row.source.empty() ? Cell{} : Cell{row.source});
      }
      sink(cells);
    }
  };
  if (for_people) {
    table.footer =
        Row{std::string("total"), bytes_cell(reserved.total[0]),
            bytes_cell(reserved.total[1]), bytes_cell(reserved.total[2])};
  }
  return table;
}

// `what` is "step", "token" or "first token".
std::string per_text(std::string_view what) {
  return what == "first token" ? "to first token" : "per " + std::string(what);
}

Table time_table(const StepTime& time, std::string_view what, bool for_people) {
  Table table;
  table.id = for_people ? "step_time_for_people" : "step_time";
  table.title = "Time " + per_text(what) + ", on the slowest device";
  table.columns = {{"part", for_people ? "" : "part"},
                   right("lower", "at least"),
                   right("estimate"),
                   right("upper", "at most"),
                   right("exposed"),
                   left("basis")};
  if (!for_people) table.columns.push_back(left("source"));
  table.audience = for_people ? Audience::People : Audience::Programs;
  table.rows = [&time, for_people](const RowSink& sink) {
    for (const StepTimePart& row : time.parts) {
      Row cells = {row.part,
                   Duration{row.seconds.lower},
                   Duration{row.seconds.estimate},
                   Duration{row.seconds.upper},
                   Duration{row.exposed},
                   std::string(basis_name(row.basis))};
      if (!for_people) {
        cells.push_back(row.source.empty() ? Cell{} : Cell{row.source});
      }
      sink(cells);
    }
  };
  if (for_people) {
    table.footer = Row{std::string(what),
                       Duration{time.total.lower},
                       Duration{time.total.estimate},
                       Duration{time.total.upper},
                       std::monostate{},
                       std::monostate{}};
  }
  return table;
}

// Formats "5.32 s (2.27 s to 18.2 s)".
std::string seconds_text(const Seconds& seconds) {
  Style style;
  style.unicode = false;
  const auto text = [&](double each) {
    return cell_text(Duration{each}, style);
  };
  return text(seconds.estimate) + " (" + text(seconds.lower) + " to " +
         text(seconds.upper) + ")";
}

// Returns "a step takes 5.32 s (2.27 s to 18.2 s): 49,399 tokens/s, ..."
std::string time_text(const StepTime& time, int64_t devices) {
  Style style;
  style.unicode = false;
  const double rate = time.tokens_per_second();
  return "a step takes " + seconds_text(time.total) + ": " +
         count_text(std::llround(rate)) + " tokens/s, " +
         count_text(std::llround(rate / static_cast<double>(devices))) +
         " per device, MFU " + cell_text(Percent{time.mfu}, style);
}

Table collectives_table(const StepTime& time, std::string_view what) {
  Table table;
  table.id = "step_collectives";
  table.title = "Communication per device, " + per_text(what);
  table.columns = {left("kind"),
                   left("axis"),
                   left("link"),
                   {"where", "where", Align::Left, true},
                   left("direction"),
                   right("count"),
                   right("bytes_per_device", "per device"),
                   right("seconds", "time"),
                   right("exposed")};
  table.rows = [&time](const RowSink& sink) {
    for (const StepCollective& row : time.collectives) {
      std::vector<std::string> axes(row.axes.begin(), row.axes.end());
      sink(Row{std::string(collective_name(row.kind)), joined(axes, ",", ","),
               row.link, row.where,
               std::string(kDirectionNames[static_cast<size_t>(row.direction)]),
               Count{static_cast<int64_t>(row.count)},
               ByteSize{static_cast<int64_t>(row.bytes_per_device)},
               Duration{row.seconds}, Duration{row.exposed}});
    }
  };
  return table;
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

void add_time_tables(const StepTime& time, std::string_view what,
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
    report.notes.push_back("links: " + joined(time.links, "; ", "; "));
  }
}

}  // namespace

void add_inference(const MemoryAnswer& answer, Mode mode, TimeTables tables,
                   Report& report) {
  const InferenceTimes& times = *answer.inference;
  const auto add = [&](std::string key, const StepTime* time) {
    if (time == nullptr) {
      report.summary.emplace_back(std::move(key), Cell{});
      return;
    }
    report.summary.emplace_back(
        std::move(key), DurationBracket{time->total.lower, time->total.estimate,
                                        time->total.upper});
  };
  const StepTime* const first =
      times.first_token ? &*times.first_token : nullptr;
  const StepTime* const next = times.next_token ? &*times.next_token : nullptr;
  const bool decodes = mode == Mode::Decode;
  if (!decodes || first != nullptr) add("time_to_first_token", first);
  if (decodes) add("time_per_output_token", next);
  const StepTime* const shown = decodes ? next : first;
  if (shown == nullptr) {
    report.notes.push_back("no time: " + times.untimed);
    return;
  }
  const double rate = shown->tokens_per_second();
  report.summary.emplace_back("tokens_per_second", Ratio{rate});
  report.summary.emplace_back("limited_by", shown->limited_by);
  report.summary.emplace_back("calibrated", Names{times.calibrated});
  if (first != nullptr) {
    report.closing.push_back("the first token takes " +
                             seconds_text(first->total));
  }
  if (next != nullptr) {
    report.closing.push_back("a token takes " + seconds_text(next->total));
  }
  report.closing.back() += ": " + count_text(std::llround(rate)) + " tokens/s";
  add_limits(*shown, times.calibrated, report);
  if (const auto& full = answer.full_batch) {
    const double most = full->next_token.tokens_per_second();
    add("full_batch_time_per_output_token", &full->next_token);
    report.summary.emplace_back("full_batch", Count{full->sequences});
    report.summary.emplace_back("full_batch_tokens_per_second", Ratio{most});
    report.closing.push_back("with " + plural(full->sequences, "sequence") +
                             " (the most that fit), " +
                             seconds_text(full->next_token.total) + ": " +
                             count_text(std::llround(most)) + " tokens/s");
  }
  report.notes.push_back(times.workload);
  if (tables == TimeTables::Shown) {
    add_time_tables(*shown, decodes ? "token" : "first token", report);
  }
}

std::string step_fit_text(const StepAnswer& answer, const Fit& fit,
                          const DeviceLimit& limit) {
  return fit_text(fit, limit) +
         (answer.left_out.empty() ? "" : " (text only)");
}

std::vector<std::pair<std::string, Cell>> step_summary(
    const StepAnswer& answer) {
  const MemoryBracket& of = answer.bracket;
  std::vector<std::pair<std::string, Cell>> summary = {
      {"memory_bracket", ByteBracket{of.lower(), of.estimate(), of.upper()}},
      {"memory_bracket_from", std::string(bracket_source_name(answer.from))}};
  if (of.offloads) {
    summary.emplace_back("host_bracket",
                         ByteBracket{of.host[0], of.host[1], of.host[2]});
  }
  if (answer.reserved) {
    const auto& total = answer.reserved->total;
    summary.emplace_back("memory_reserved",
                         ByteBracket{total[0], total[1], total[2]});
  }
  if (answer.time) {
    const StepTime& time = *answer.time;
    summary.emplace_back("step_time",
                         DurationBracket{time.total.lower, time.total.estimate,
                                         time.total.upper});
    summary.emplace_back("tokens_per_second", Ratio{time.tokens_per_second()});
    summary.emplace_back("mfu", Percent{time.mfu});
    summary.emplace_back("limited_by", time.limited_by);
    summary.emplace_back("calibrated", Names{answer.calibrated});
  } else if (!answer.untimed.empty()) {
    summary.emplace_back("step_time", Cell{});
  }
  return summary;
}

// Returns "in host memory, per device: 11.2 GiB; per host with 8 devices: 89.8
// GiB".
std::string host_text(const StepAnswer& answer) {
  const std::array<int64_t, kSavingModes>& host = answer.bracket.host;
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
  for (auto& entry : step_summary(answer)) {
    report.summary.push_back(std::move(entry));
  }
  report.tables.push_back(bracket_table(bracket, true));
  report.tables.push_back(bracket_table(bracket, false));
  if (bracket.stages.size() > 1) report.tables.push_back(stages_table(bracket));
  if (answer.reserved) {
    report.tables.push_back(reserved_table(*answer.reserved, true));
    report.tables.push_back(reserved_table(*answer.reserved, false));
  }
  if (!bracket.widened.empty()) {
    report.tables.push_back(widened_table(bracket));
  }
  report.tables.push_back(alive_table(bracket));
  if (answer.time) {
    add_time_tables(*answer.time, "step", report);
  }
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
