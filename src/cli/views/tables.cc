// SPDX-License-Identifier: Apache-2.0
#include "cli/views/tables.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/options.h"
#include "gate/changes.h"

namespace shardplan::cli {
namespace {

// Returns the cells of a placements row; the first is for the parameter's name.
Row placement_row(const Session& session, const Placement& p, int64_t replicas,
                  int64_t rank) {
  const PlanRule* rule = rule_of(session, p);
  return {"",
          text_cell(dtype_name(p.type.dtype)),
          Dims{p.type.shape},
          rule == nullptr ? Cell() : Cell(Count{p.rule}),
          rule == nullptr ? Cell() : Cell(rule->pattern),
          optional_cell<PartitionSpec>(p.requested),
          p.spec,
          Dims{p.local_shape},
          ByteSize{p.bytes_per_device},
          Count{p.shards},
          Count{replicas},
          text_cell(p.view),
          p.dealt ? Cell(WholePlacementCell{p.dealt->axis, rank}) : Cell()};
}

// Returns the number of rows of a placement: one, or one per rank if it puts
// whole parameters on single ranks.
int64_t ranks_of(const Placement& p) {
  return p.dealt && p.dealt->rank < 0 ? p.dealt->size : 1;
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

// Returns a table for programs: a row for each of the `items` of a parameter's
// placement, with the cells of `row_of_item` after its name.
template <typename Items, typename RowOf>
Table items_table(const Session& session, const char* id,
                  std::vector<Column> columns, Items Placement::*items,
                  RowOf row_of_item) {
  columns.insert(columns.begin(), left("parameter"));
  return {id, "", std::move(columns),
          [&session, items, row_of_item](const RowSink& sink) {
            for (size_t i = 0; i < session.model.manifest.size(); ++i) {
              const Placement& placement = session.plan.of(i);
              for (const auto& item : placement.*items) {
                Row row = row_of_item(placement, item);
                row.insert(row.begin(),
                           std::string(session.model.manifest.name(i)));
                sink(row);
              }
            }
          },
          Audience::Programs};
}

Row folded_row(std::string name, const Placement& p, int64_t count) {
  return {
      std::move(name),
      count == 1 ? "" : "×" + std::to_string(count),
      Dims{p.type.shape},
      spec_text(p.spec) + (p.dealt ? " dealt over " + p.dealt->axis : "") +
          (p.corrections.empty() ? "" : " ~"),
      ByteSize{p.bytes_per_device * most_held(p.dealt, count)},
      p.rule == 0 ? Cell(p.requested ? "axes" : "none") : Cell(Count{p.rule})};
}

// The words, after their number, for what happened to dimensions and others.
struct CorrectionPhrase {
  Code code;
  std::string_view noun;
  const char* one;
  const char* several;
};
constexpr CorrectionPhrase kCorrectionPhrases[] = {
    {Code::IndivisibleDimension, "dimension", " is not divisible by its axes",
     " are not divisible by their axes"},
    {Code::UnknownAxis, "dimension", " names an unknown axis",
     " name an unknown axis"},
    {Code::UnevenShards, "dimension",
     " is left to FSDP2, which shards dimension 0",
     " are left to FSDP2, which shards dimension 0"},
    {Code::RepeatedAxis, "dimension", " repeats an axis", " repeat an axis"},
    {Code::MixedViews, "dimension", " names an axis of another view",
     " name an axis of another view"},
    {Code::NotDealt, "parameter", " cannot be dealt out",
     " cannot be dealt out"},
    {Code::SpecLongerThanRank, "spec dimension", " exceeds the rank",
     " exceed the rank"},
    {Code::RepeatedLogicalAxis, "logical axis", " is used twice in an array",
     " are used twice in an array"},
    {Code::UnplacedLogicalAxis, "logical axis", " is not placed",
     " are not placed"}};

std::string correction_phrase(Code code, int64_t count) {
  const auto* const found =
      std::ranges::find(kCorrectionPhrases, code, &CorrectionPhrase::code);
  const CorrectionPhrase phrase =
      found != std::end(kCorrectionPhrases)
          ? *found
          : CorrectionPhrase{code, "dimension",
                             " is not sharded: the parameter is small",
                             " are not sharded: the parameter is small"};
  return plural(count, phrase.noun) +
         (count == 1 ? phrase.one : phrase.several);
}

int64_t correction_count(const Session& session) {
  int64_t count = 0;
  for (const ParameterClass& c : session.folding.classes) {
    count += c.count * std::ssize(session.plan.placements[c.kind].corrections);
  }
  return count;
}

}  // namespace

std::string views_text(const Mesh& mesh) {
  std::string text;
  for (const MeshView& view : mesh.views()) {
    text += ", " + view.name + " " + axes_text(view.axes);
  }
  return text;
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
  if (has_word("json markdown csv", context.options.output.format)) {
    summary.emplace_back("fingerprint",
                         fingerprint(session.model.manifest, session.plan));
  }
  return summary;
}

Table placements_table(const Session& session) {
  NamedRows named;
  named.rests = [&session] {
    const ParameterStages* stages = session.lint_how.stages.get();
    std::vector<Row> rows;
    for (size_t on = 0; on < (stages == nullptr ? 1 : kStagesOfParameter);
         ++on) {
      for (const Placement& p : session.plan.placements) {
        const int64_t ranks = ranks_of(p);
        for (int64_t rank = 0; rank < ranks; ++rank) {
          rows.push_back(placement_row(
              session, p, replicas_on(stages, p, on),
              p.dealt && p.dealt->rank >= 0 ? p.dealt->rank : rank));
        }
      }
    }
    return rows;
  };
  named.each = [&session](const NamedRows::Sink& sink) {
    const ParameterStages* stages = session.lint_how.stages.get();
    std::vector<size_t> first = {0};  // the first row of each placement
    for (const Placement& p : session.plan.placements) {
      first.push_back(first.back() + to_size(ranks_of(p)));
    }
    for (size_t i = 0; i < session.model.manifest.size(); ++i) {
      const std::string_view name = session.model.manifest.name(i);
      const uint32_t number = session.plan.placement_of[i];
      const auto& dealt = session.plan.placements[number].dealt;
      const bool varies = dealt && dealt->rank < 0;
      const size_t rank = varies ? to_size(rank_of(*dealt, name)) : 0;
      sink(name, first[number] + rank + stages_of(stages, i) * first.back());
    }
  };
  Table table = {"placements",
                 "",
                 {left("parameter"), left("dtype"), left("shape"), left("rule"),
                  left("pattern"), left("requested"), left("spec"),
                  left("local_shape"), left("bytes_per_device"), left("shards"),
                  left("replicas"), left("view"), left("dealt")},
                 rows_of_named(named),
                 Audience::Programs};
  table.named = std::move(named);
  return table;
}

Table corrections_table(const Session& session) {
  return items_table(
      session, "corrections",
      {left("dim"), left("code"), left("dropped"), left("reason")},
      &Placement::corrections, [](const Placement&, const Correction& c) {
        return Row{Count{c.dim}, code_id(c.code), Names{texts_of(c.dropped)},
                   Prose{c.reason}};
      });
}

Table rules_table(const Session& session) {
  return {"rules",
          "",
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
  const auto rows = [&session, expand](const RowSink& sink) {
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
  Table table = {
      "folded_placements",
      "",
      {elastic("parameter"), right("count", ""), left("shape"), left("spec"),
       right("bytes_per_device", "per device"), right("rule")},
      rows,
      Audience::People};
  table.footer = Row{{}, {}, {}, {}, ByteSize{session.memory.max}, {}};
  return table;
}

std::string dropped_text(const Correction& correction) {
  if (correction.dropped.empty()) return "cut off";
  return "dropped " + joined_of(correction.dropped, ", ", in_backticks);
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
  return items_table(
      session, "declared",
      {left("dim"), left("logical"), left("stored"), left("why")},
      &Placement::stored_dims, [](const Placement& p, const StoredDim& stored) {
        return Row{Count{stored.dim}, Count{nth(p.type.shape, stored.dim)},
                   Count{stored.size}, stored.why};
      });
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

Report plan_report(const Context& context, const Session& session) {
  Report report;
  report.summary = summary_of(context, session);
  report.tables = {placements_table(session), corrections_table(session),
                   rules_table(session)};
  add_topology(context, report);
  return report;
}

}  // namespace shardplan::cli
