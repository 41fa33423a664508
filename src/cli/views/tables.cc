// SPDX-License-Identifier: Apache-2.0
#include "cli/views/tables.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/options.h"
#include "gate/changes.h"

namespace shardplan::cli {
namespace {

Cell spec_cell(const std::optional<PartitionSpec>& spec) {
  if (!spec) return std::monostate();
  return *spec;
}

// Returns the cells of a placements row after the parameter's name.
Row placement_row(const Session& session, const Placement& p, int64_t replicas,
                  int64_t rank) {
  const PlanRule* rule = rule_of(session, p);
  return {std::string(),
          std::string(dtype_name(p.type.dtype)),
          Dims{p.type.shape},
          rule == nullptr ? Cell() : Cell(Count{p.rule}),
          rule == nullptr ? Cell() : Cell(rule->pattern),
          spec_cell(p.requested),
          p.spec,
          Dims{p.local_shape},
          ByteSize{p.bytes_per_device},
          Count{p.shards},
          Count{replicas},
          p.view.empty() ? Cell() : Cell(p.view),
          p.dealt ? Cell(WholePlacementCell{p.dealt->axis, rank}) : Cell()};
}

}  // namespace

std::string views_text(const Mesh& mesh) {
  std::string text;
  for (const MeshView& view : mesh.views()) {
    text += ", " + view.name + " " + axes_text(view.axes);
  }
  return text;
}

namespace {

// Returns the first row of each placement. A placement that puts whole
// parameters on single ranks has a row per rank.
std::vector<size_t> first_rows(const Plan& plan) {
  std::vector<size_t> first = {0};
  for (const Placement& p : plan.placements) {
    const bool varies = p.dealt && p.dealt->rank < 0;
    first.push_back(first.back() +
                    (varies ? static_cast<size_t>(p.dealt->size) : 1));
  }
  return first;
}

// The numbers of pipeline stages that a parameter may be on: 0 stands for all
// stages, which shard it by its spec; 2 occurs for a tied embedding.
constexpr size_t kStagesOfParameter = 3;

size_t stages_of(const ParameterStages* stages, size_t parameter) {
  if (stages == nullptr || stages->is_on_all(parameter)) return 0;
  return stages->of[parameter].second < 0 ? 1 : 2;
}

int64_t replicas_on(const ParameterStages* stages, const Placement& p,
                    size_t on) {
  if (on == 0) return p.replicas;
  return p.replicas / stages->stages * static_cast<int64_t>(on);
}

std::string count_mark(int64_t count) {
  return count == 1 ? "" : "×" + std::to_string(count);
}

Row folded_row(std::string name, const Placement& p, int64_t count) {
  return {std::move(name),
          count_mark(count),
          Dims{p.type.shape},
          spec_text(p.spec) + (p.dealt ? " dealt over " + p.dealt->axis : "") +
              (p.corrections.empty() ? "" : " ~"),
          ByteSize{p.bytes_per_device * most_held(p.dealt, count)},
          p.rule == 0 ? Cell(std::string(p.requested ? "axes" : "none"))
                      : Cell(Count{p.rule})};
}

bool wants_fingerprint(const std::string& format) {
  return format == "json" || format == "markdown" || format == "csv";
}

std::string correction_phrase(Code code, int64_t count) {
  const std::string dimensions = plural(count, "dimension");
  const std::string is = count == 1 ? " is " : " are ";
  switch (code) {
    case Code::IndivisibleDimension:
      return dimensions + is + "not divisible by " +
             (count == 1 ? "its" : "their") + " axes";
    case Code::UnknownAxis:
      return dimensions + (count == 1 ? " names" : " name") +
             " an unknown axis";
    case Code::UnevenShards:
      return dimensions + is + "left to FSDP2, which shards dimension 0";
    case Code::RepeatedAxis:
      return dimensions + (count == 1 ? " repeats" : " repeat") + " an axis";
    case Code::MixedViews:
      return dimensions + (count == 1 ? " names" : " name") +
             " an axis of another view";
    case Code::NotDealt:
      return plural(count, "parameter") + " cannot be dealt out";
    case Code::SpecLongerThanRank:
      return plural(count, "spec dimension") +
             (count == 1 ? " exceeds" : " exceed") + " the rank";
    case Code::RepeatedLogicalAxis:
      return (count == 1 ? "1 logical axis"
                         : count_text(count) + " logical axes") +
             is + "used twice in an array";
    case Code::UnplacedLogicalAxis:
      return (count == 1 ? "1 logical axis"
                         : count_text(count) + " logical axes") +
             is + "not placed";
    default:
      return dimensions + is + "not sharded: the parameter is small";
  }
}

}  // namespace

int64_t correction_count(const Session& session) {
  int64_t count = 0;
  for (const ParameterClass& c : session.folding.classes) {
    count += c.count * std::ssize(session.plan.placements[c.kind].corrections);
  }
  return count;
}

std::vector<std::pair<std::string, Cell>> summary_of(const Context& context,
                                                     const Session& session) {
  const Manifest& manifest = session.model.manifest;
  const Balance& balance = session.balance;
  const DeviceMemory& memory = session.memory;
  std::vector<std::pair<std::string, Cell>> summary = {
      {"tensors", Count{std::ssize(manifest)}},
      {"sharded_tensors", Count{balance.sharded_tensors}},
      {"total_parameters", Count{manifest.total_elements()}},
      {"sharded_parameters", Count{balance.sharded_elements}},
      {"total_bytes", ByteSize{manifest.total_bytes()}},
      {"devices", Count{session.plan.mesh.devices()}},
      {"mesh", MeshCell{session.plan.mesh}},
      {"views", ViewsCell{session.plan.mesh.views()}},
      {"memory_per_device", MemoryRange{memory.max, memory.min, memory.mean}},
      {"balance_score", Ratio{balance.balance_score}},
      {"efficiency", Ratio{balance.efficiency}},
      {"replication_factor", Ratio{balance.replication_factor}},
      {"padding_bytes", ByteSize{balance.padding_bytes}},
      {"replicated_fraction", Ratio{balance.replicated_fraction}},
      {"corrections", Count{correction_count(session)}},
      {"errors", Count{context.diags.count(Severity::Error)}},
      {"warnings", Count{context.diags.count(Severity::Warning)}},
  };
  if (session.slices) {
    std::vector<Axis> crossed = session.plan.mesh.axes();
    for (size_t i = 0; i < crossed.size(); ++i) {
      crossed[i].size = session.slices->crossed[i];
    }
    summary.emplace_back("slices", MeshCell{Mesh(std::move(crossed))});
  }
  if (wants_fingerprint(context.options.output.format)) {
    summary.emplace_back("fingerprint",
                         fingerprint(session.model.manifest, session.plan));
  }
  return summary;
}

Table placements_table(const Session& session) {
  Table table = {
      "placements",
      "Placements",
      {left("parameter"), left("dtype"), left("shape"), left("rule"),
       left("pattern"), left("requested"), left("spec"), left("local_shape"),
       left("bytes_per_device", "per device"), left("shards"), left("replicas"),
       left("view"), left("dealt")}};
  table.audience = Audience::Programs;
  NamedRows named;
  named.rests = [&session] {
    const ParameterStages* stages = session.lint_how.stages.get();
    std::vector<Row> rows;
    for (size_t on = 0; on < (stages == nullptr ? 1 : kStagesOfParameter);
         ++on) {
      for (const Placement& p : session.plan.placements) {
        const bool varies = p.dealt && p.dealt->rank < 0;
        for (int64_t rank = 0; rank < (varies ? p.dealt->size : 1); ++rank) {
          rows.push_back(
              placement_row(session, p, replicas_on(stages, p, on),
                            !p.dealt || varies ? rank : p.dealt->rank));
        }
      }
    }
    return rows;
  };
  named.each = [&session](const NamedRows::Sink& sink) {
    const ParameterStages* stages = session.lint_how.stages.get();
    const std::vector<size_t> first = first_rows(session.plan);
    for (size_t i = 0; i < session.model.manifest.size(); ++i) {
      const std::string_view name = session.model.manifest.name(i);
      const uint32_t number = session.plan.placement_of[i];
      const auto& dealt = session.plan.placements[number].dealt;
      const bool varies = dealt && dealt->rank < 0;
      const int64_t rank = varies ? rank_of(*dealt, name) : 0;
      sink(name, first[number] + static_cast<size_t>(rank) +
                     stages_of(stages, i) * first.back());
    }
  };
  table.rows = rows_of_named(named);
  table.named = std::move(named);
  return table;
}

Table corrections_table(const Session& session) {
  return {"corrections",
          "Corrections",
          {left("parameter"), left("dim"), left("code"), left("dropped"),
           left("reason")},
          [&session](const RowSink& sink) {
            for (size_t i = 0; i < session.model.manifest.size(); ++i) {
              for (const Correction& c : session.plan.of(i).corrections) {
                sink(Row{std::string(session.model.manifest.name(i)),
                         Count{c.dim}, code_id(c.code),
                         Names{texts_of(c.dropped)}, Prose{c.reason}});
              }
            }
          },
          Audience::Programs};
}

Table rules_table(const Session& session) {
  return {"rules",
          "Rules",
          {left("rule"), left("pattern"), left("spec"), left("file"),
           left("line"), left("found"), left("won"), left("shadowed_by")},
          [&session](const RowSink& sink) {
            for (size_t i = 0; i < session.plan.rules.size(); ++i) {
              const PlanRule& rule = session.plan.rules[i];
              sink(Row{
                  Count{static_cast<int64_t>(i) + 1}, rule.pattern, rule.spec,
                  rule.file, Count{rule.line}, Count{rule.matched},
                  Count{rule.decided},
                  Numbers{{rule.shadowed_by.begin(), rule.shadowed_by.end()}}});
            }
          },
          Audience::Programs};
}

Table folded_placements(const Session& session, bool expand) {
  Table table = {"folded_placements",
                 "",
                 {{"parameter", "parameter", Align::Left, true},
                  right("count", ""),
                  left("shape"),
                  left("spec"),
                  right("bytes_per_device", "per device"),
                  right("rule")}};
  table.audience = Audience::People;
  table.footer =
      Row{Cell(), Cell(), Cell(), Cell(), ByteSize{session.memory.max}, Cell()};
  table.rows = [&session, expand](const RowSink& sink) {
    const auto name_of = [&](size_t i) {
      return session.model.manifest.name(i);
    };
    if (expand) {
      for (size_t i = 0; i < session.model.manifest.size(); ++i) {
        sink(folded_row(std::string(name_of(i)), session.plan.of(i), 1));
      }
      return;
    }
    const std::vector<std::string> labels =
        class_labels(session.folding, name_of);
    for (size_t i = 0; i < session.folding.classes.size(); ++i) {
      const ParameterClass& c = session.folding.classes[i];
      sink(folded_row(labels[i], session.plan.placements[c.kind], c.count));
    }
  };
  return table;
}

std::string dropped_text(const Correction& correction) {
  std::string text = correction.dropped.empty() ? "cut off" : "dropped ";
  for (size_t i = 0; i < correction.dropped.size(); ++i) {
    text += (i > 0 ? ", `" : "`") + correction.dropped[i] + "`";
  }
  return text;
}

std::string correction_reason(const Correction& correction) {
  return correction.reason + " (" + code_id(correction.code) + ")";
}

std::string size_text(int64_t bytes, bool exact) {
  return exact ? std::to_string(bytes) + " bytes" : bytes_text(bytes);
}

std::string headline_of(const Session& session, bool exact) {
  const Manifest& manifest = session.model.manifest;
  std::string mesh;
  for (const Axis& axis : session.plan.mesh.axes()) {
    mesh += " " + axis.name + "=" + std::to_string(axis.size);
  }
  mesh += views_text(session.plan.mesh);
  return manifest.title + ": " + plural(std::ssize(manifest), "parameter") +
         ", " + size_text(manifest.total_bytes(), exact) + "    mesh" + mesh +
         ": " + plural(session.plan.mesh.devices(), "device") +
         (session.slices
              ? " in " + slices_text(session.plan.mesh, *session.slices)
              : "");
}

std::string efficiency_line(const Session& session) {
  const Balance& balance = session.balance;
  std::string text =
      fmt::format("efficiency {}: replication {:.2f}×, balance {}",
                  percent_text(balance.efficiency), balance.replication_factor,
                  percent_text(balance.balance_score));
  if (balance.padding_bytes > 0) {
    text += ", padding " + bytes_text(balance.padding_bytes);
  }
  return text;
}

std::vector<std::string> correction_notes(const Session& session) {
  std::map<Code, int64_t> counts;
  for (const ParameterClass& c : session.folding.classes) {
    for (const Correction& correction :
         session.plan.placements[c.kind].corrections) {
      counts[correction.code] += c.count;
    }
  }
  std::vector<std::string> lines;
  lines.reserve(counts.size());
  for (const auto& [code, count] : counts) {
    lines.push_back("~ corrected: " + correction_phrase(code, count) + " (" +
                    code_id(code) + ")");
  }
  return lines;
}

Table declared_table(const Session& session) {
  return {"declared",
          "Stored as declared",
          {left("parameter"), left("dim"), left("logical"), left("stored"),
           left("why")},
          [&session](const RowSink& sink) {
            for (size_t i = 0; i < session.model.manifest.size(); ++i) {
              const Placement& placement = session.plan.of(i);
              for (const StoredDim& stored : placement.stored_dims) {
                const auto dim = static_cast<size_t>(stored.dim);
                sink(Row{std::string(session.model.manifest.name(i)),
                         Count{stored.dim}, Count{placement.type.shape[dim]},
                         Count{stored.size}, stored.why});
              }
            }
          },
          Audience::Programs};
}

void add_declared(const Session& session, Report& report) {
  const Plan& plan = session.plan;
  if (!plan.declarations.any()) return;
  report.tables.push_back(declared_table(session));
  std::map<std::string, int64_t> dimensions;  // by reason
  for (const ParameterClass& c : session.folding.classes) {
    for (const StoredDim& stored : plan.placements[c.kind].stored_dims) {
      dimensions[stored.why] += c.count;
    }
  }
  for (const auto& [why, count] : dimensions) {
    report.notes.push_back(plural(count, "dimension") + " stored by " + why);
  }
  for (const std::string& declared : declaration_texts(plan.declarations)) {
    const bool applies =
        std::ranges::any_of(dimensions, [&](const auto& entry) {
          return contains(entry.first, declared + ":");
        });
    if (applies) continue;
    report.notes.push_back("`" + declared +
                           "` was declared but changes no dimension here");
  }
}

void add_topology(const Context& context, Report& report) {
  const auto& topology = context.options.planning.topology;
  if (!topology) return;
  report.summary.emplace_back("topology", topology->name);
  report.notes.insert(report.notes.begin(), topology_text(*topology));
}

Report plan_report(const Context& context, const Session& session,
                   const std::string& command) {
  Report report;
  report.command = command;
  report.summary = summary_of(context, session);
  report.tables = {placements_table(session), corrections_table(session),
                   rules_table(session)};
  add_topology(context, report);
  return report;
}

}  // namespace shardplan::cli
