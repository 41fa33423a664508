// SPDX-License-Identifier: Apache-2.0
// `shardplan analyze MODEL`: bytes per device, and what they consist of.
#include <algorithm>
#include <functional>
#include <utility>

#include "cli/commands.h"
#include "cli/commands/workload/residual.h"
#include "cli/commands/workload/step.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/budget_tables.h"
#include "cli/views/columns.h"
#include "cli/views/engine/kv_tables.h"
#include "cli/views/engine/tables.h"
#include "cli/views/figures/plan_figures.h"
#include "cli/views/tables.h"
#include "resolve/device_memory.h"
#include "session/memory_request.h"
#include "session/serving.h"
#include "session/session.h"

namespace shardplan::cli {
namespace {

constexpr size_t kRowsForPeople = 12;

// Converts the bytes of one device, which always fit 63 bits.
ByteSize size_of(Int128 bytes) { return {static_cast<int64_t>(bytes)}; }

Table memory_table(const Session& session) {
  const int64_t even = ceil_div(session.model.manifest.total_bytes(),
                                session.plan.mesh.devices());
  const auto most =
      static_cast<double>(std::max<int64_t>({session.memory.max, even, 1}));
  std::vector<Row> rows;
  const auto add = [&](const char* name, int64_t bytes) {
    rows.push_back({std::string(name), ByteSize{bytes},
                    Bar{static_cast<double>(bytes) / most}});
  };
  add("parameters as planned", session.memory.max);
  if (session.memory.min != session.memory.max) {
    add("on the least-loaded device", session.memory.min);
  }
  add("without replication", even);
  return {.id = "parameters",
          .title = "Memory per device",
          .columns = {left("state", ""), right("bytes_per_device", ""),
                      left("share", "")},
          .rows = rows_of(std::move(rows)),
          .audience = Audience::People,
          .show_header = false};
}

// Adds the classes of devices and how uneven they are, for people only if there
// are several.
void add_device_tables(const DeviceMemory& memory, Report& report) {
  const Audience audience =
      memory.classes.size() > 1 ? Audience::Everyone : Audience::Programs;
  report.tables.push_back(
      table_of("devices", "Device classes", memory.classes,
               {{right("devices"), [](auto& c) { return Count{c.devices}; }},
                {right("bytes_per_device", "per device"),
                 [](auto& c) { return ByteSize{c.bytes}; }}},
               audience));
  const Imbalance measures = imbalance(memory);
  report.tables.push_back(
      {"imbalance",
       "Imbalance",
       {left("measure"), right("value")},
       rows_of({{"total_variation", Ratio{measures.total_variation}},
                {"total_distance", Ratio{measures.total_distance}},
                {"chi_square", Ratio{measures.chi_square}},
                {"kl_divergence", Ratio{measures.kl_divergence}}}),
       audience});
}

// Returns why a class is replicated, in the words of `--why`; empty if a rule
// replicates it.
std::string cause(const Session& session, const Placement& placement) {
  if (session.plan.is_unmatched(placement)) return "no rule matches";
  std::string text;
  for (const Correction& correction : placement.corrections) {
    text += (text.empty() ? "dimension " : "; dimension ") +
            std::to_string(correction.dim) + " " + dropped_text(correction) +
            ": " + correction_reason(correction);
  }
  return text;
}

// Returns the code of the first correction; "" if there is none.
std::string code_of_cause(const Session& session, const Placement& placement) {
  if (!placement.corrections.empty()) {
    return code_id(placement.corrections.front().code);
  }
  return session.plan.is_unmatched(placement)
             ? code_id(Code::UnmatchedParameter)
             : "";
}

Table repetition_table(const Session& session) {
  return {
      "repetition",
      "Replicated tensors, largest first",
      {elastic("parameter"),
       right("count", "tensors"),
       left("over"),
       right("replicas", "copies"),
       right("extra_bytes_per_device", "extra per device"),
       left("code", ""),
       {"cause", "", Align::Left, true, true}},
      [&session](const RowSink& sink) {
        const std::vector<std::string> labels = class_labels(
            session.folding,
            [&](size_t i) { return session.model.manifest.name(i); });
        for (const Repetition& r : repetitions(session.plan, session.folding,
                                               session.lint_how.stages.get())) {
          const ParameterClass& c = session.folding.classes[r.parameter_class];
          sink(Row{labels[r.parameter_class], Count{c.count},
                   Names{texts_of(r.over)}, Count{r.replicas},
                   size_of(r.extra_per_device),
                   code_of_cause(session, session.plan.placements[c.kind]),
                   Prose{cause(session, session.plan.placements[c.kind])}});
        }
      }};
}

// Returns the first rows of a table and a last row for the rest, for people.
Table shortened(const Table& full) {
  Table table = full;
  table.id += "_largest";
  table.audience = Audience::People;
  table.rows = [rows = full.rows](const RowSink& sink) {
    size_t count = 0;
    size_t columns = 0;
    rows([&](std::span<const Cell> row) {
      columns = row.size();
      if (++count <= kRowsForPeople) sink(row);
    });
    if (count > kRowsForPeople) {
      Row rest(columns);
      rest[0] =
          "and " + std::to_string(count - kRowsForPeople) + " more (--json)";
      sink(rest);
    }
  };
  return table;
}

Table axes_table(const Session& session) {
  return {
      "axes",
      "Memory saved by each mesh axis",
      {left("axis"), right("size"), right("sharded_tensors", "tensors sharded"),
       right("saved_bytes_per_device", "saved per device")},
      [&session](const RowSink& sink) {
        for (const AxisSaving& saving : axis_savings(
                 session.plan, staged_counts(session.plan.placement_of,
                                             session.plan.placements.size(),
                                             session.lint_how.stages.get()))) {
          sink(Row{saving.axis, Count{saving.size},
                   Count{saving.sharded_tensors},
                   size_of(saving.saved_per_device)});
        }
      }};
}

Table group_table(const char* id, const char* title, const char* key,
                  std::vector<GroupSum> groups) {
  return {id,
          title,
          {elastic(key), right("tensors"), right("elements"), right("bytes"),
           right("bytes_per_device", "per device")},
          [groups = std::move(groups)](const RowSink& sink) {
            for (const GroupSum& g : groups) {
              sink(Row{g.name, Count{g.tensors}, Count{g.elements},
                       ByteSize{g.bytes}, ByteSize{g.bytes_per_device}});
            }
          }};
}

void add_for_people_and_programs(Report& report, Table table) {
  report.tables.push_back(shortened(table));
  table.audience = Audience::Programs;
  report.tables.push_back(std::move(table));
}

// Adds the requested budget, or only the memory of the parameters if no budget
// is requested.
void add_budget(Report& report, const Context& context, const Session& session,
                const MemoryAnswer& answer, bool whole) {
  const Budget& budget = answer.budget;
  const StateOptions& state = answer.options.state;
  if (context.options.engine.name) {
    // The engine's tables replace this one.
  } else if (!asks_for_budget(context.options.memory,
                              context.options.planning.mode)) {
    report.tables.push_back(memory_table(session));
  } else {
    report.tables.push_back(breakdown_table(session, budget, whole));
    report.tables.push_back(device_class_table(budget));
    if (state.optimizer != Optimizer::None) {
      report.tables.push_back(state_table(budget, state, true));
    }
    report.tables.push_back(gathered_table(budget, true));
  }
  append(report.tables, {memory_rows(budget), memory_totals(budget),
                         state_table(budget, state, false),
                         gathered_table(budget, false), stages_table(budget)});
  if (answer.names_trained) {
    report.tables.push_back(training_table(budget));
  }
}

// `aside`: an engine determines how the cache is sharded, so these tables are
// for programs only.
void add_cache(Report& report, const Session& session,
               const MemoryAnswer& answer, bool aside) {
  const BudgetOptions& options = answer.options;
  auto layers = kv_layers(session.model.manifest.facts);
  if (!options.kv || !answer.kv_axes || !layers) return;
  const Mesh& mesh = session.plan.mesh;
  const KvAxes& axes = *answer.kv_axes;
  const bool recurs =
      std::erase_if(*layers, std::mem_fn(&KvLayer::recurrent)) > 0;
  const auto add = [&](Table table, std::vector<std::string> notes) {
    if (aside) table.audience = Audience::Programs;
    report.tables.push_back(std::move(table));
    if (!aside) append(report.notes, std::move(notes));
  };
  if (!layers->empty() || !recurs) {
    add(kv_table(mesh, *layers, axes, *options.kv),
        kv_notes(mesh, *layers, axes, *options.kv));
  }
  if (recurs) {
    add(recurrent_table(mesh, session.model.manifest.facts, axes, *options.kv),
        {recurrent_note(mesh, axes)});
  }
  if (!answer.headroom) return;
  report.closing.push_back(kv_fit_note(*answer.headroom, *options.kv));
  report.summary.emplace_back("largest_batch",
                              optional_cell<Count>(answer.headroom->batch));
  report.summary.emplace_back("longest_context",
                              optional_cell<Count>(answer.headroom->context));
}

// Hides the tables about rules, which an engine ignores, from people, and adds
// those of the engine.
void add_serving(Report& report, const Serving& serving) {
  std::erase_if(report.tables, [](const Table& table) {
    return table.audience == Audience::People;
  });
  for (Table& table : report.tables) {
    table.audience = Audience::Programs;
    table.named.reset();  // pages explain such tables by the rules
  }
  add_engine_summary(serving, report.summary);
  append(report.tables, engine_tables(serving));
  append(report.notes, engine_notes(serving));
}

}  // namespace

Exit run_analyze(Context& context) {
  const Options& options = context.options;
  const std::optional<Session> opened = open_session(context);
  if (!opened) return Exit::CouldNotRun;
  const Session& session = *opened;
  WorkloadRequest workload = options.workload;
  workload.step.has_curve = true;
  const MemoryQuestion question = {options.planning, options.memory, workload,
                                   options.engine};
  std::optional<MemoryAnswer> answer;
  if (check_question(question, context.diags)) {
    answer = answer_memory(question, session, Headroom::Find, context.host,
                           context.diags);
  }
  const MeasuredStep& measured = options.measured;
  if (!answer ||
      (measured.any() && !can_compare(measured, *answer, context.diags))) {
    return finish_incomplete(context, plan_report(context, session));
  }
  const auto& step = answer->step;
  const auto& serving = answer->serving;
  Report report;
  report.summary = summary_of(context, session);
  append(report.summary, fit_summary(answer->fit));
  report.headline = {headline_of(session, options.output.exact)};
  if (!serving) report.headline.push_back(efficiency_line(session));
  add_budget(report, context, session, *answer, !step);
  if (step) add_step(*step, answer->budget, answer->fit, report);
  if (measured.any()) add_residual(measured, *step, report, context.diags);
  add_cache(report, session, *answer, serving.has_value());
  add_device_tables(session.memory, report);
  add_for_people_and_programs(report, repetition_table(session));
  const ParameterStages* stages = session.lint_how.stages.get();
  report.tables.push_back(axes_table(session));
  report.tables.push_back(
      group_table("dtypes", "By dtype", "dtype",
                  by_dtype(session.plan, session.folding, stages)));
  add_for_people_and_programs(
      report, group_table("modules", "By module", "module",
                          by_module(session.plan, session.folding, stages)));
  add_for_people_and_programs(
      report, group_table("rule_bytes", "By rule", "rule",
                          by_rule(session.plan, session.folding, stages)));
  append(report.tables, {placements_table(session), corrections_table(session),
                         rules_table(session)});
  if (serving) {
    add_serving(report, *serving);
  } else {
    append(report.closing, correction_notes(session));
    add_declared(session, report);
  }
  if (answer->inference) {
    add_inference(*answer, options.planning.mode, TimeTables::Shown, report);
  }
  add_topology(context, report);
  append(report.notes, budget_notes(context, *answer));
  const bool asks = options.engine.name ||
                    asks_for_budget(options.memory, options.planning.mode);
  add_plan_figures(session, asks ? &*answer : nullptr, options.planning.mode,
                   report);
  return finish(context, std::move(report));
}

}  // namespace shardplan::cli
