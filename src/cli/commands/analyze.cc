// SPDX-License-Identifier: Apache-2.0
// `shardplan analyze MODEL`: bytes per device, and what they consist of.
#include <algorithm>
#include <utility>

#include "cli/commands.h"
#include "cli/commands/workload/residual.h"
#include "cli/commands/workload/step.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/views/budget_tables.h"
#include "cli/views/engine/tables.h"
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
  const auto total = session.model.manifest.total_bytes();
  const int64_t even = ceil_div(total, session.plan.mesh.devices());
  const auto most =
      static_cast<double>(std::max<int64_t>({session.memory.max, even, 1}));
  Table table = {
      "parameters",
      "Memory per device",
      {left("state", ""), right("bytes_per_device", ""), left("share", "")}};
  table.show_header = false;
  table.audience = Audience::People;
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
  table.rows = rows_of(std::move(rows));
  return table;
}

Table devices_table(const Session& session) {
  return {"devices",
          "Device classes",
          {right("devices"), right("bytes_per_device", "per device")},
          [&session](const RowSink& sink) {
            for (const DeviceClass& c : session.memory.classes) {
              sink(Row{Count{c.devices}, ByteSize{c.bytes}});
            }
          },
          session.memory.classes.size() > 1 ? Audience::Everyone
                                            : Audience::Programs};
}

Table imbalance_table(const Session& session) {
  const Imbalance measures = imbalance(session.memory);
  return {
      "imbalance",
      "Imbalance",
      {left("measure"), right("value")},
      rows_of(
          {{std::string("total_variation"), Ratio{measures.total_variation}},
           {std::string("total_distance"), Ratio{measures.total_distance}},
           {std::string("chi_square"), Ratio{measures.chi_square}},
           {std::string("kl_divergence"), Ratio{measures.kl_divergence}}}),
      session.memory.classes.size() > 1 ? Audience::Everyone
                                        : Audience::Programs};
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
      {{"parameter", "parameter", Align::Left, true},
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
          {{key, key, Align::Left, true},
           right("tensors"),
           right("elements"),
           right("bytes"),
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
  for (Table table : {memory_rows(budget), memory_totals(budget),
                      state_table(budget, state, false),
                      gathered_table(budget, false), stages_table(budget)}) {
    report.tables.push_back(std::move(table));
  }
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
  const bool recurs = std::erase_if(*layers, is_recurrent) > 0;
  if (!layers->empty() || !recurs) {
    report.tables.push_back(kv_table(mesh, *layers, axes, *options.kv));
    if (aside) report.tables.back().audience = Audience::Programs;
    for (std::string& line : kv_notes(mesh, *layers, axes, *options.kv)) {
      if (!aside) report.notes.push_back(std::move(line));
    }
  }
  if (recurs) {
    report.tables.push_back(
        recurrent_table(mesh, session.model.manifest.facts, axes, *options.kv));
    if (aside) report.tables.back().audience = Audience::Programs;
    if (!aside) report.notes.push_back(recurrent_note(mesh, axes));
  }
  if (!answer.headroom) return;
  report.closing.push_back(kv_fit_note(*answer.headroom, *options.kv));
  const auto cell = [](const std::optional<int64_t>& most) {
    return most ? Cell(Count{*most}) : Cell();
  };
  report.summary.emplace_back("largest_batch", cell(answer.headroom->batch));
  report.summary.emplace_back("longest_context",
                              cell(answer.headroom->context));
}

void add_remarks_of_rules(Report& report, const Session& session) {
  for (std::string& line : correction_notes(session)) {
    report.closing.push_back(std::move(line));
  }
  add_declared(session, report);
}

// Hides the tables about rules from people if an engine shards the model.
void set_rules_aside(Report& report) {
  std::erase_if(report.tables, [](const Table& table) {
    return table.audience == Audience::People;
  });
  for (Table& table : report.tables) table.audience = Audience::Programs;
}

void add_serving(Report& report, const Serving& serving) {
  add_engine_summary(serving, report.summary);
  for (Table& table : engine_tables(serving)) {
    report.tables.push_back(std::move(table));
  }
  for (std::string& line : engine_notes(serving)) {
    report.notes.push_back(std::move(line));
  }
}

}  // namespace

Exit run_analyze(Context& context) {
  const Options& options = context.options;
  const MemoryQuestion question = {options.planning, options.memory,
                                   options.workload, options.engine};
  const std::optional<Session> opened =
      open_session(options.planning, options.memory, context.host,
                   context.diags, context.progress);
  if (!opened) return Exit::CouldNotRun;
  const Session& session = *opened;
  std::optional<MemoryAnswer> answer;
  if (check_question(question, context.diags)) {
    answer = answer_memory(question, session, Headroom::Find, context.host,
                           context.diags);
  }
  if (!answer) {
    return finish_incomplete(context, plan_report(context, session, "analyze"));
  }
  const MeasuredStep& measured = options.measured;
  if (measured.any() && !can_compare(measured, *answer, context.diags)) {
    return finish_incomplete(context, plan_report(context, session, "analyze"));
  }
  const auto& step = answer->step;
  const auto& serving = answer->serving;
  Report report;
  report.command = "analyze";
  report.diagnostics = &context.diags;
  report.summary = summary_of(context, session);
  for (auto& entry : fit_summary(answer->fit)) {
    report.summary.push_back(std::move(entry));
  }
  report.headline = {headline_of(session, context.options.output.exact)};
  if (!serving) report.headline.push_back(efficiency_line(session));
  add_budget(report, context, session, *answer, !step);
  if (step) add_step(*step, answer->budget, answer->fit, report);
  if (measured.any()) add_residual(measured, *step, report, context.diags);
  add_cache(report, session, *answer, serving.has_value());
  report.tables.push_back(devices_table(session));
  report.tables.push_back(imbalance_table(session));
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
  for (Table table : {placements_table(session), corrections_table(session),
                      rules_table(session)}) {
    report.tables.push_back(std::move(table));
  }
  if (serving) {
    set_rules_aside(report);
    add_serving(report, *serving);
  } else {
    add_remarks_of_rules(report, session);
  }
  if (answer->inference) {
    add_inference(*answer, options.planning.mode, TimeTables::Shown, report);
  }
  add_topology(context, report);
  for (std::string& line : budget_notes(context, *answer)) {
    report.notes.push_back(std::move(line));
  }
  return finish(context, std::move(report));
}

}  // namespace shardplan::cli
