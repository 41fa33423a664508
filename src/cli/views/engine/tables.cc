// SPDX-License-Identifier: Apache-2.0
#include "cli/views/engine/tables.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/views/columns.h"

namespace shardplan::cli {
namespace {

std::string share_text(const Serving& serving) {
  const bool of_total = serving.engine->share == MemoryShare::OfTotal;
  return fmt::format("{:.4g} of {}{}", serving.settings.share,
                     bytes_text(serving.device.usable),
                     of_total ? "" : ", less what is used before");
}

// In the order of MemoryPart.
constexpr std::array<std::string_view, 3> kMemoryPartText = {
    "", ", outside the share", ", before"};

// One row of the memory table.
struct MemoryRow {
  std::string category;
  std::string kind;
  std::string title;
  Bracket bytes;
  std::string source;
};

// Returns "Marlin, Humming": the kernels that store weights in their own form.
std::string kernels_text(const RankWeights& weights) {
  std::vector<std::string> names;
  for (const RankWeights::KernelUse& use : weights.kernels) {
    const std::string name(kernel_name(*use.row));
    if (use.bytes != 0 && !contains(names, name)) names.push_back(name);
  }
  return joined(names, ", ");
}

std::vector<MemoryRow> memory_rows_of(const Serving& serving) {
  std::vector<MemoryRow> rows;
  const auto add_exact = [&](std::string_view category, const char* kind,
                             std::string title, int64_t bytes,
                             std::string source = "") {
    rows.push_back({std::string(category),
                    kind,
                    std::move(title),
                    {bytes, bytes, bytes},
                    std::move(source)});
  };
  rows.push_back({"share", "share",
                  std::string(serving.engine->title) + "'s share",
                  serving.share_bytes, share_text(serving)});
  const ServedStage& stage = serving.stage();
  const RankWeights& weights = stage.weights;
  for (size_t i = 0; i < kWeightParts; ++i) {
    if (weights.bytes[i] == 0) continue;
    const auto part = static_cast<WeightPart>(i);
    add_exact(weight_part_name(part), "weights",
              "weights: " + std::string(weight_part_title(part)),
              weights.bytes[i],
              part == WeightPart::Kernels ? kernels_text(weights) : "");
  }
  if (weights.draft > 0) {
    add_exact("draft", "weights",
              "weights: draft " + in_backticks(serving.draft), weights.draft);
  }
  add_exact("weights", "total", "weights", weights.total);
  for (const MemoryPart part :
       {MemoryPart::InShare, MemoryPart::Rest, MemoryPart::Before}) {
    for (const Overhead& row : serving.overheads) {
      if (row.part != part) continue;
      rows.push_back({row.name, std::string(memory_part_name(part)),
                      row.title + std::string(nth(kMemoryPartText, part)),
                      row.bytes, row.source});
    }
  }
  rows.push_back(
      {"cache", "cache", "available for the cache", stage.available, ""});
  return rows;
}

Table memory_table_of(const Serving& serving, bool for_people) {
  std::string title = std::string(serving.engine->title) + " memory per device";
  const std::string& stage = serving.stage().label;
  if (!stage.empty()) title += ", " + stage;
  return table_of(
      for_people ? "engine_memory_shown" : "engine_memory", std::move(title),
      memory_rows_of(serving),
      {{left("what", ""), &MemoryRow::title, for_people},
       {left("category"), &MemoryRow::category, !for_people},
       {left("kind"), &MemoryRow::kind, !for_people},
       {right("lower", "at least"),
        [](auto& r) { return ByteSize{r.bytes.lower}; }},
       {right("estimate"), [](auto& r) { return ByteSize{r.bytes.estimate}; }},
       {right("upper", "at most"),
        [](auto& r) { return ByteSize{r.bytes.upper}; }},
       {left("source"), [](auto& r) { return Prose{r.source}; }, !for_people}},
      audience_of(for_people));
}

Table cache_table(const Serving& serving) {
  return {"engine_cache",
          "Cache capacity",
          {left("end", ""), right("bytes"), right("block", "tokens per page"),
           right("blocks"), right("sequence_blocks", "blocks per sequence"),
           right("tokens"), right("states"), right("sequences")},
          [&serving](const RowSink& sink) {
            const ServedStage& stage = serving.stage();
            const std::array<int64_t, 3> bytes = {stage.available.lower,
                                                  stage.available.estimate,
                                                  stage.available.upper};
            for (size_t end = 0; end < kBracketEnds.size(); ++end) {
              const auto& pool = stage.pools[end];
              if (!pool) continue;
              sink(Row{std::string(kBracketEnds[end]), ByteSize{bytes[end]},
                       Count{pool->block}, Count{pool->blocks},
                       Count{pool->sequence_blocks}, Count{pool->tokens},
                       pool->states > 0 ? Cell(Count{pool->states}) : Cell(),
                       Ratio{pool->sequences}});
            }
          }};
}

Table stages_of(const Serving& serving) {
  return table_of(
      "engine_stages", "Pipeline stages", serving.stages,
      {{elastic("stage"), [](auto& s) { return text_cell(s.label); }},
       {right("weights"), [](auto& s) { return ByteSize{s.weights.total}; }},
       {right("cache"), [](auto& s) { return ByteSize{s.available.estimate}; }},
       {right("sequences"),
        [](auto& s) {
          const auto& pool = s.pools[1];
          return pool ? Cell(Ratio{pool->sequences}) : Cell();
        }}},
      serving.stages.size() > 1 ? Audience::Everyone : Audience::Programs);
}

// Degrees of one kind with the same verdict and reasons, which share a row.
struct ShownDegrees {
  std::string of;
  std::string others;  // the degrees that they are combined with
  std::vector<int64_t> degrees;
  bool legal = true;
  std::vector<std::string> reasons;
};

std::vector<ShownDegrees> shown_degrees(const Serving& serving) {
  std::vector<ShownDegrees> rows;
  for (const DegreeVerdict& v : serving.verdicts) {
    const std::string of(degree_name(v.of));
    const std::string others =
        others_text(serving.mesh, v.of, serving.has_experts());
    const auto found = std::ranges::find_if(rows, [&](const auto& row) {
      return row.of == of && row.legal == v.legal && row.reasons == v.reasons;
    });
    if (found == rows.end()) {
      rows.push_back({of, others, {v.degree}, v.legal, v.reasons});
    } else {
      found->degrees.push_back(v.degree);
    }
  }
  return rows;
}

Table shown_degrees_table(const Serving& serving) {
  Column reasons = elastic("reasons", "");
  reasons.below = true;
  Table table = table_of(
      "engine_degrees_shown",
      "Degrees at which " + std::string(serving.engine->title) +
          " runs the model",
      shown_degrees(serving),
      {{left("of", ""), &ShownDegrees::of},
       {left("legal", ""),
        [](auto& d) { return d.legal ? "runs at" : "not at"; }},
       {left("degrees", ""),
        [](auto& d) {
          const std::string text = list_text(d.degrees, d.degrees.size());
          if (d.others.empty()) return text;
          return text + (d.others.starts_with("without") ? " " : " with ") +
                 d.others;
        }},
       {reasons, [](auto& d) { return Prose{joined(d.reasons, "; ")}; }}},
      Audience::People);
  table.show_header = false;
  return table;
}

Table degrees_table(const Serving& serving) {
  return table_of(
      "engine_degrees", "", serving.verdicts,
      {{left("of"), [](auto& v) { return text_cell(degree_name(v.of)); }},
       {left("degree"), [](auto& v) { return Count{v.degree}; }},
       {left("legal"), [](auto& v) { return YesNo{v.legal}; }},
       {left("asked"), [](auto& v) { return YesNo{v.asked}; }},
       {left("reasons"), [](auto& v) { return Names{v.reasons}; }}},
      Audience::Programs);
}

std::string tokens_line(const Serving& serving, const CachePool& pool) {
  std::string line = fmt::format(
      "{}: about {} tokens of cache, {:.2f} sequences of {} tokens at once",
      serving.engine->title, count_text(pool.tokens), pool.sequences,
      count_text(serving.seq));
  line += fmt::format(" (from {:.2f} to {:.2f})", serving.group_sequences(0),
                      serving.group_sequences(2));
  if (serving.mesh.dp > 1) {
    line += fmt::format(", in each of {} groups", serving.mesh.dp);
  }
  return line;
}

// Returns the note that sequences beyond the engine's limit per step wait, even
// if the cache has room for them.
std::string waiting_line(const Serving& serving) {
  const int64_t most = serving.settings.sequences;
  return fmt::format(
      "{} of {} sequences {}wait: {} runs {} at once (`--max-seqs`)",
      count_text(serving.sequences_of_group() - most),
      count_text(serving.sequences_of_group()),
      serving.mesh.dp > 1 ? "in the fullest group " : "", serving.engine->title,
      count_text(most));
}

// Returns the views in which the engine shards weights differently from
// attention.
std::vector<MeshView> views_of(const Serving& serving) {
  const bool has_experts =
      std::ranges::any_of(serving.stages, [](const ServedStage& stage) {
        return nth(stage.weights.bytes, WeightPart::Experts) > 0;
      });
  return other_views(serving.layout, has_experts);
}

std::string settings_line(const Serving& serving) {
  const EngineDefaults& s = serving.settings;
  std::string line =
      fmt::format("{} {}: `--{} {:.4g}`{}, steps of {} tokens and {} sequences",
                  serving.engine->title, serving.engine->version,
                  serving.engine->share_flag, s.share,
                  serving.share_is_default ? " by default" : "",
                  count_text(s.batched_tokens), count_text(s.sequences));
  if (!serving.draft.empty()) line += ", draft " + in_backticks(serving.draft);
  const auto& pool = serving.stage().pools[1];
  if (pool && pool->block > 1) {
    line += fmt::format(", pages of {} tokens", count_text(pool->block));
  }
  for (const MeshView& view : views_of(serving)) {
    line += ", " + view.name + " " + axes_text(view.axes);
  }
  return line;
}

}  // namespace

std::vector<Table> engine_tables(const Serving& serving) {
  return {memory_table_of(serving, true), memory_table_of(serving, false),
          cache_table(serving),           stages_of(serving),
          shown_degrees_table(serving),   degrees_table(serving)};
}

void add_engine_summary(const Serving& serving, SummaryEntries& summary) {
  const ServedStage& stage = serving.stage();
  const auto& pool = stage.pools[1];
  const bool runs = pool && serving.problems.empty();
  std::vector<int64_t> legal;
  for (const DegreeVerdict& v : serving.verdicts) {
    if (v.of == DegreeOf::Tensor && v.legal) legal.push_back(v.degree);
  }
  SummaryEntries entries = {
      {"engine", std::string(serving.engine->name)},
      {"engine_version", std::string(serving.engine->version)},
      {"engine_starts",
       YesNo{serving.problems.empty() && serving.missing_at_start == 0}},
      {"engine_weights", ByteSize{stage.weights.total}},
      {"engine_cache", ByteSize{stage.available.estimate}},
      {"engine_tokens", runs ? Cell(Count{pool->tokens}) : Cell()},
      {"engine_sequences", runs ? Cell(Ratio{pool->sequences}) : Cell()},
      {"engine_tp_degrees", Numbers{legal}}};
  std::ranges::move(entries, std::back_inserter(summary));
  for (auto& [key, value] : summary) {
    if (key == "views") value = ViewsCell{views_of(serving)};
  }
}

std::vector<std::string> engine_notes(const Serving& serving) {
  std::vector<std::string> notes = {settings_line(serving)};
  // Nobody needs its capacity if the engine does not start.
  if (!serving.problems.empty()) return notes;
  // SGLang raises its own default with the size of its cache.
  const bool fixed = serving.engine->pool == PoolKind::Blocks ||
                     serving.settings.sequences < kSglangSequences;
  if (fixed && serving.sequences_of_group() > serving.settings.sequences) {
    notes.push_back(waiting_line(serving));
  }
  const ServedStage& stage = serving.stage();
  if (stage.pools[1]) {
    notes.push_back(tokens_line(serving, *stage.pools[1]));
  } else if (!serving.uncounted.empty()) {
    notes.push_back("not counted: " + serving.uncounted);
  } else if (serving.without_cache) {
    notes.emplace_back("no layer caches anything: sequences are not limited");
  }
  for (const std::string& remark : serving.remarks) {
    notes.push_back(std::string(serving.engine->title) + ": " + remark);
  }
  const RankWeights& weights = stage.weights;
  if (weights.vocab_padding > 0) {
    notes.push_back("vocabulary padding: " + bytes_text(weights.vocab_padding) +
                    " per device");
  }
  if (weights.kv_copies > 0) {
    notes.push_back("replicated KV projections: " +
                    bytes_text(weights.kv_copies) + " per device");
  }
  if (weights.not_loaded > 0) {
    notes.push_back("multi-token prediction layers are not loaded: " +
                    bytes_text(weights.not_loaded) + " in total");
  }
  return notes;
}

}  // namespace shardplan::cli
