// SPDX-License-Identifier: Apache-2.0
#include "report/html/headline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "report/html/page_data.h"
#include "report/table_text.h"

namespace shardplan {
namespace {

// Returns the value of a key of the summary; null if it has another type or
// does not exist.
template <typename Kind>
const Kind* value_of(const Report& report, std::string_view key) {
  for (const auto& [name, cell] : report.summary) {
    if (name == key) return std::get_if<Kind>(&cell);
  }
  return nullptr;
}

bool has_key(const Report& report, std::string_view key) {
  return std::ranges::any_of(
      report.summary, [&](const auto& entry) { return entry.first == key; });
}

int64_t count_of(const Report& report, std::string_view key) {
  const auto* count = value_of<Count>(report, key);
  return count == nullptr ? 0 : count->value;
}

// Returns "72.4 GiB", or "46.7 GiB to 177 GiB" for a bracket.
std::string need_text(const Report& report) {
  const auto* bracket = value_of<ByteBracket>(report, "memory_bracket");
  if (bracket != nullptr && bracket->lower < bracket->upper) {
    return bytes_text(bracket->lower) + " to " + bytes_text(bracket->upper);
  }
  const auto* needed = value_of<ByteSize>(report, "memory_needed");
  return needed == nullptr ? "" : bytes_text(needed->value);
}

std::optional<Answer> fit_answer(const Report& report) {
  if (!has_key(report, "fits")) return std::nullopt;
  const auto* fits = value_of<YesNo>(report, "fits");
  const auto* limit = value_of<ByteSize>(report, "memory_limit");
  const std::string need = need_text(report);
  if (limit == nullptr || need.empty()) {
    if (fits == nullptr) return std::nullopt;
    if (!fits->value) return Answer{"Nothing is certain to fit.", Tone::Bad};
    const auto* mesh = value_of<MeshCell>(report, "mesh");
    const std::string plan =
        mesh == nullptr ? "A plan fits" : mesh_text(mesh->mesh) + " fits";
    return Answer{plan + (need.empty() ? "." : " in " + need + " per device."),
                  Tone::Good};
  }
  const std::string rest =
      ": a device needs " + need + " and has " + bytes_text(limit->value) + ".";
  if (fits == nullptr) return Answer{"May not fit" + rest, Tone::Doubtful};
  return fits->value ? Answer{"Fits" + rest, Tone::Good}
                     : Answer{"Does not fit" + rest, Tone::Bad};
}

std::optional<Answer> run_answer(const Report& report) {
  const auto* verdict = value_of<std::string>(report, "verdict");
  if (verdict == nullptr) return std::nullopt;
  if (*verdict == "ok") {
    return Answer{"The sharded run computes what the unsharded one computes.",
                  Tone::Good};
  }
  if (*verdict == "mismatch") {
    return Answer{"The sharded run computes something else.", Tone::Bad};
  }
  return Answer{"The run is inconclusive.", Tone::Doubtful};
}

std::optional<Answer> targets_answer(const Report& report) {
  if (!has_key(report, "targets")) return std::nullopt;
  const int64_t targets = count_of(report, "targets");
  const int64_t failed = count_of(report, "failed");
  if (failed > 0) {
    return Answer{count_text(failed) + " of " + plural(targets, "target") +
                      (failed == 1 ? " fails." : " fail."),
                  Tone::Bad};
  }
  return Answer{targets == 1 ? "The target passes."
                             : "All " + count_text(targets) + " targets pass.",
                Tone::Good};
}

// Returns what two plans or two sets of rules do not have in common.
std::optional<Answer> changes_answer(const Report& report) {
  if (has_key(report, "lost_axes")) {
    const int64_t changes = count_of(report, "changes");
    const int64_t lost = count_of(report, "lost_axes");
    if (changes == 0) return Answer{"No rule changed.", Tone::Good};
    std::string text = plural(changes, "change");
    if (lost > 0) {
      text += ", " + count_text(lost) +
              (lost == 1 ? " of which loses axes" : " of which lose axes");
    }
    return Answer{text + ".", count_of(report, "failed") > 0 ? Tone::Bad
                              : lost > 0                     ? Tone::Doubtful
                                                             : Tone::Plain};
  }
  const auto* before = value_of<ByteSize>(report, "memory_per_device_before");
  const auto* after = value_of<ByteSize>(report, "memory_per_device_after");
  if (before == nullptr || after == nullptr) return std::nullopt;
  const int64_t changes = count_of(report, "changed") +
                          count_of(report, "added") +
                          count_of(report, "removed");
  if (changes == 0) {
    return Answer{"Both plans place all parameters alike.", Tone::Good};
  }
  return Answer{plural(changes, "parameter") +
                    (changes == 1 ? " differs" : " differ") +
                    ": a device holds " + bytes_text(before->value) +
                    " before and " + bytes_text(after->value) + " after.",
                Tone::Plain};
}

// Returns how many configurations of a sweep fit.
std::optional<Answer> sweep_answer(const Report& report) {
  const auto* fitting = value_of<Count>(report, "fitting");
  if (fitting == nullptr) return std::nullopt;
  return Answer{count_text(fitting->value) + " of " +
                    plural(count_of(report, "points"), "configuration") +
                    (fitting->value == 1 ? " fits." : " fit."),
                fitting->value > 0 ? Tone::Good : Tone::Bad};
}

// Returns "A step takes 5.32 s", with its range.
std::optional<Answer> time_answer(const Report& report) {
  constexpr std::array<std::pair<const char*, const char*>, 3> kTimes = {
      {{"step_time", "A step takes "},
       {"time_per_output_token", "A token takes "},
       {"time_to_first_token", "The first token takes "}}};
  for (const auto& [key, begin] : kTimes) {
    const auto* time = value_of<DurationBracket>(report, key);
    if (time == nullptr) continue;
    return Answer{begin + seconds_text(time->estimate, "µ") + " (" +
                      seconds_text(time->lower, "µ") + " to " +
                      seconds_text(time->upper, "µ") + ").",
                  Tone::Plain};
  }
  return std::nullopt;
}

std::optional<Answer> findings_answer(const Report& report) {
  if (report.diagnostics == nullptr) return std::nullopt;
  const int64_t errors = report.diagnostics->count(Severity::Error);
  const int64_t warnings = report.diagnostics->count(Severity::Warning);
  if (errors + warnings == 0) {
    // Other commands look for no problems; a sweep has them in its rows.
    if (!has_key(report, "errors") || has_key(report, "points")) {
      return std::nullopt;
    }
    return Answer{"No problems found.", Tone::Good};
  }
  std::vector<std::string> parts;
  if (errors > 0) parts.push_back(plural(errors, "error"));
  if (warnings > 0) parts.push_back(plural(warnings, "warning"));
  return Answer{joined(parts, ", ") + ".",
                errors > 0 ? Tone::Bad : Tone::Doubtful};
}

}  // namespace

std::vector<Answer> answers_of(const Report& report) {
  std::vector<Answer> answers;
  for (auto* answer : {run_answer, targets_answer, changes_answer, sweep_answer,
                       fit_answer, time_answer, findings_answer}) {
    if (auto found = answer(report)) answers.push_back(*std::move(found));
  }
  return answers;
}

std::vector<KeyNumber> key_numbers_of(const Report& report,
                                      const Style& style) {
  constexpr std::array<std::pair<const char*, const char*>, 25> kNumbers = {
      {{"devices", "devices"},
       {"mesh", "mesh"},
       {"mesh_before", "mesh before"},
       {"mesh_after", "mesh after"},
       {"base", "before"},
       {"head", "after"},
       {"total_parameters", "elements"},
       {"total_bytes", "model size"},
       {"memory_bracket", "memory per device"},
       {"memory_needed", "memory needed"},
       {"memory_limit", "limit"},
       {"headroom", "headroom"},
       {"step_time", "step time"},
       {"time_to_first_token", "time to first token"},
       {"time_per_output_token", "time per token"},
       {"tokens_per_second", "tokens per second"},
       {"mfu", "MFU"},
       {"limited_by", "limited by"},
       {"efficiency", "memory efficiency"},
       {"replicated_fraction", "replicated"},
       {"considered", "plans considered"},
       {"gap", "gap to the bound"},
       {"points", "configurations"},
       {"structural_error", "structural error"},
       {"error_amplification", "error amplification"}}};
  std::vector<KeyNumber> numbers;
  for (const auto& [key, name] : kNumbers) {
    const auto found = std::ranges::find(report.summary, key,
                                         &std::pair<std::string, Cell>::first);
    if (found == report.summary.end()) continue;
    const Cell& cell = found->second;
    const std::string_view of = key;
    // The bracket says more.
    const bool is_known = of == "memory_needed" &&
                          value_of<ByteBracket>(report, "memory_bracket");
    const bool is_of_rules = of == "efficiency" || of == "replicated_fraction";
    if (is_known || (is_of_rules && !named_table(report)) ||
        std::holds_alternative<std::monostate>(cell))
      continue;
    KeyNumber& number = numbers.emplace_back();
    number.name = name;
    if (const auto* bytes = std::get_if<ByteBracket>(&cell)) {
      number.value = bytes_text(bytes->estimate);
      number.range =
          bytes_text(bytes->lower) + " to " + bytes_text(bytes->upper);
    } else if (const auto* time = std::get_if<DurationBracket>(&cell)) {
      number.value = seconds_text(time->estimate, "µ");
      number.range = seconds_text(time->lower, "µ") + " to " +
                     seconds_text(time->upper, "µ");
    } else if (const auto* ratio = std::get_if<Ratio>(&cell)) {
      const bool is_fraction = of == "efficiency" || of == "mfu" ||
                               of == "replicated_fraction" || of == "gap";
      number.value = of == "tokens_per_second"
                         ? count_text(std::llround(ratio->value))
                     : is_fraction ? percent_text(ratio->value)
                                   : cell_text(cell, style);
    } else if (of == "total_parameters") {
      number.value = short_count_text(count_of(report, key));
    } else if (const auto* mesh = std::get_if<MeshCell>(&cell)) {
      for (const Axis& axis : mesh->mesh.axes()) {
        number.value += (number.value.empty() ? "" : " ") + axis.name + "=" +
                        std::to_string(axis.size);
      }
    } else {
      number.value = cell_text(cell, style);
    }
  }
  return numbers;
}

}  // namespace shardplan
