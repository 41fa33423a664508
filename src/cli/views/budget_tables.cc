// SPDX-License-Identifier: Apache-2.0
#include "cli/views/budget_tables.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "core/types.h"

namespace shardplan::cli {
namespace {

// In the order of Category: letters of the stacked bars.
constexpr std::string_view kLetters = "PGMOLKFR";
constexpr int kBarWidth = 24;

std::string amount(int64_t bytes) {
  return bytes_text(static_cast<double>(bytes));
}

ByteSize size_of(Int128 bytes) {
  return {static_cast<int64_t>(std::min<Int128>(bytes, INT64_MAX))};
}

std::string category_id(size_t category) {
  return std::string(category_name(static_cast<Category>(category)));
}

std::string title_of(size_t category) {
  return std::string(category_title(static_cast<Category>(category)));
}

// "of 79.6 GiB on h100-sxm (57.0 %)"
std::string limit_text(const Budget& budget) {
  if (!budget.limit) return "";
  const auto needed = static_cast<double>(budget.classes.front().total);
  const auto usable = static_cast<double>(budget.limit->usable);
  std::string text = "of " + amount(budget.limit->usable);
  if (budget.limit->name != "--memory") text += " on " + budget.limit->name;
  return text + " (" + percent_text(needed / usable) + ")";
}

// One letter per share of the fullest class's total; what is there has one at
// least.
std::string stacked_bar(const BudgetClass& c, int64_t most) {
  std::string bar;
  for (size_t i = 0; i < kCategories; ++i) {
    if (c.bytes[i] == 0) continue;
    const auto letters =
        static_cast<size_t>(static_cast<Int128>(c.bytes[i]) * kBarWidth /
                            std::max<int64_t>(most, 1));
    bar.append(std::max<size_t>(letters, 1), kLetters[i]);
  }
  return bar;
}

std::string legend(const Budget& budget) {
  std::string text;
  for (size_t i = 0; i < kCategories; ++i) {
    if (budget.totals[i].stored == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(1, kLetters[i]) + " " +
            title_of(i);
  }
  return text;
}

std::string kind_name(StateKind kind) {
  return category_id(static_cast<size_t>(kind));
}

}  // namespace

Table breakdown_table(const Session& session, const Budget& budget) {
  Table table;
  table.id = "breakdown";
  table.title = "Memory per device";
  table.columns = {{"category", "", Align::Left},
                   {"bytes_per_device", "", Align::Right},
                   {"share", "", Align::Left}};
  table.show_header = false;
  table.audience = Audience::People;
  const BudgetClass& fullest = budget.classes.front();
  int64_t most = std::max<int64_t>(fullest.total, 1);
  std::vector<Row> rows;
  for (size_t i = 0; i < kCategories; ++i) {
    if (fullest.bytes[i] == 0 && i > 0) continue;
    rows.push_back({title_of(i), ByteSize{fullest.bytes[i]},
                    Bar{static_cast<double>(fullest.bytes[i]) /
                        static_cast<double>(most)}});
  }
  rows.push_back(
      {std::string("total"), ByteSize{fullest.total}, limit_text(budget)});
  if (budget.limit) {
    rows.push_back(
        {std::string(budget.fits() ? "headroom" : "too much by"),
         ByteSize{budget.fits() ? budget.headroom : -budget.headroom},
         std::string()});
  }
  if (budget.classes.size() > 1) {
    rows.push_back({std::string("on the emptiest device"),
                    ByteSize{budget.classes.back().total}, std::string()});
  }
  rows.push_back({std::string("parameters if nothing repeated"),
                  ByteSize{ceil_div(session.manifest.total_bytes(),
                                    session.plan.mesh.devices())},
                  std::string()});
  table.rows = rows_of(std::move(rows));
  return table;
}

Table device_class_table(const Budget& budget) {
  Table table;
  table.id = "device_classes";
  table.title = "Classes of devices: " + legend(budget);
  table.columns = {{"class", "class", Align::Left, true},
                   {"devices", "devices", Align::Right},
                   {"bytes_per_device", "per device", Align::Right},
                   {"shares", "", Align::Left}};
  table.audience = Audience::People;
  table.rows = [&budget](const RowSink& sink) {
    if (budget.classes.size() < 2) return;
    const int64_t most = budget.classes.front().total;
    for (const BudgetClass& c : budget.classes) {
      sink(Row{c.label.empty() ? Cell() : Cell(c.label), Count{c.devices},
               ByteSize{c.total}, stacked_bar(c, most)});
    }
  };
  return table;
}

Table memory_rows(const Budget& budget) {
  Table table;
  table.id = "memory";
  table.title = "Memory by class and category";
  table.columns = {{"class", "class"},
                   {"label", "label"},
                   {"devices", "devices", Align::Right},
                   {"category", "category"},
                   {"bytes_per_device", "per device", Align::Right}};
  table.audience = Audience::Programs;
  table.rows = [&budget](const RowSink& sink) {
    for (size_t i = 0; i < budget.classes.size(); ++i) {
      const BudgetClass& c = budget.classes[i];
      for (size_t category = 0; category < kCategories; ++category) {
        sink(Row{Count{static_cast<int64_t>(i)}, c.label, Count{c.devices},
                 category_id(category), ByteSize{c.bytes[category]}});
      }
    }
  };
  return table;
}

Table memory_totals(const Budget& budget) {
  Table table;
  table.id = "memory_totals";
  table.title = "Memory over all devices";
  table.columns = {{"category", "category"},
                   {"stored_bytes", "stored", Align::Right},
                   {"replicated_bytes", "replicas x logical", Align::Right},
                   {"padding_bytes", "padding", Align::Right}};
  table.audience = Audience::Programs;
  table.rows = [&budget](const RowSink& sink) {
    for (size_t i = 0; i < kCategories; ++i) {
      const CategoryTotal& total = budget.totals[i];
      sink(Row{category_id(i), size_of(total.stored),
               size_of(total.with_replicas), size_of(total.padding)});
    }
  };
  return table;
}

Table state_table(const Budget& budget, bool for_people) {
  Table table;
  table.id = for_people ? "state_for_people" : "state";
  table.title = "Training state";
  table.columns = {
      {"role", "role"},
      {"category", "category"},
      {"dtype", "dtype"},
      {"tensors", "tensors", Align::Right},
      {"logical_bytes", "bytes", Align::Right},
      {"bytes_per_device", "per device", Align::Right},
      {"padding_bytes", "padding", Align::Right},
      {"unsharded_bytes_per_device", "not sharded by ZeRO", Align::Right}};
  table.audience = for_people ? Audience::People : Audience::Programs;
  table.rows = [&budget, for_people](const RowSink& sink) {
    for (const LeafSum& sum : budget.leaves) {
      Row row = {std::string(sum.role),
                 kind_name(sum.kind),
                 std::string(dtype_name(sum.dtype)),
                 Count{sum.tensors},
                 size_of(sum.logical),
                 ByteSize{sum.bytes_per_device},
                 size_of(sum.padding),
                 ByteSize{sum.unsharded}};
      if (for_people) {
        row.pop_back();
        row.erase(row.begin() + 1);
      }
      sink(row);
    }
  };
  if (for_people) {  // the notes say what ZeRO could not shard
    table.columns.pop_back();
    table.columns.erase(table.columns.begin() + 1);
  }
  return table;
}

Table gathered_table(const Budget& budget, bool for_people) {
  Table table;
  table.id = for_people ? "gathered" : "gathered_layers";
  table.title = "Layers as gathered for use";
  table.columns = {{"layer", "layer", Align::Left, true},
                   {"layers", "layers", Align::Right},
                   {"sharded_bytes_per_device", "sharded", Align::Right},
                   {"gathered_bytes_per_device", "gathered", Align::Right}};
  table.audience = for_people ? Audience::People : Audience::Programs;
  table.rows = [&budget, for_people](const RowSink& sink) {
    for (const GatheredClass& c : budget.gathered) {
      if (for_people && c.gathered == 0) continue;
      sink(Row{c.label, Count{c.units}, ByteSize{c.sharded},
               ByteSize{c.gathered}});
    }
  };
  return table;
}

Table stages_table(const Budget& budget) {
  Table table;
  table.id = "stages";
  table.title = "Stages";
  table.columns = {{"stage", "stage", Align::Right},
                   {"label", "label"},
                   {"first_layer", "first layer", Align::Right},
                   {"layers", "layers", Align::Right}};
  table.audience = Audience::Programs;
  table.rows = [&budget](const RowSink& sink) {
    if (!budget.stages) return;
    for (size_t i = 0; i < budget.stages->ranges.size(); ++i) {
      const auto& range = budget.stages->ranges[i];
      sink(Row{Count{static_cast<int64_t>(i)}, budget.stage_labels[i],
               Count{range.first}, Count{range.second - range.first}});
    }
  };
  return table;
}

std::vector<std::pair<std::string, Cell>> budget_summary(const Budget& budget) {
  Cell limit;
  Cell headroom;
  Cell fits;
  if (budget.limit) {
    limit = ByteSize{budget.limit->usable};
    headroom = ByteSize{budget.headroom};
    fits = YesNo{budget.fits()};
  }
  return {{"memory_needed", ByteSize{budget.classes.front().total}},
          {"memory_limit", limit},
          {"headroom", headroom},
          {"fits", fits}};
}

std::vector<std::string> budget_notes(const Context& context,
                                      const BudgetAnswer& answer) {
  const Budget& budget = answer.budget;
  const StateOptions& state = answer.input.options.state;
  std::vector<std::string> lines;
  const bool trains = state.optimizer != Optimizer::None;
  if (trains && budget.untrained > 0) {
    lines.push_back(plural(budget.untrained, "parameter") + " of " +
                    amount(budget.untrained_bytes) +
                    " in all are not of a floating-point dtype: no gradient "
                    "and no state is counted for them");
  }
  if (state.optimizer == Optimizer::Muon) {
    lines.push_back("muon keeps one moment for " +
                    (budget.trained_matrices == 1
                         ? "1 matrix"
                         : count_text(budget.trained_matrices) + " matrices") +
                    " and adamw's two for the other " +
                    count_text(budget.trained_others));
  }
  int64_t unsharded = 0;
  for (const LeafSum& sum : budget.leaves) unsharded += sum.unsharded;
  if (unsharded > 0) {
    lines.push_back(amount(unsharded) +
                    " per device stay whole, since ZeRO's axes divide none of "
                    "their dimensions");
  }
  if (budget.stages && !budget.stages->tied.empty()) {
    lines.push_back("the model has no head of its own: `" +
                    printable(budget.stages->tied) +
                    "` is on the first stage and on the last");
  }
  const bool analyzes = context.options.command == "analyze";
  if (analyzes && (budget.stages || state.zero == 3)) {
    lines.emplace_back(
        "efficiency, repetition and savings are those of the specs alone, "
        "without stages and ZeRO");
  }
  if (context.options.mode != Mode::Train && !answer.input.options.kv) {
    lines.push_back("no KV cache is counted: `--seq` is not given");
  }
  return lines;
}

namespace {

std::string kind_text(const KvLayer& layer) {
  std::string text =
      layer.window > 0 ? "window " + count_text(layer.window) : "all tokens";
  if (layer.latent > 0) text += ", latent";
  return text;
}

// Of all layers of the kind together.
int64_t token_bytes(const KvKind& kind, KvShare share, DType dtype) {
  share.sequences = 1;
  share.tokens = 1;
  return kv_bytes(share, dtype).value_or(0) * kind.layers;
}

Row kind_row(const KvKind& kind, const KvShare& share, int64_t groups,
             const KvRequest& request) {
  const bool latent = kind.layer.latent > 0;
  const int64_t bytes = kv_bytes(share, request.dtype).value_or(0);
  return {kind_text(kind.layer),
          Count{kind.layers},
          latent ? Cell() : Cell(Count{kind.layer.heads}),
          latent ? Cell() : Cell(Count{share.heads}),
          Count{groups * share.copies},
          Count{share.sequences},
          Count{share.tokens},
          ByteSize{token_bytes(kind, share, request.dtype)},
          ByteSize{bytes * kind.layers}};
}

// "tp=8, sp=2" or "whole".
std::string over_text(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const AxisName& axis : axes) {
    text += (text.empty() ? "over " : ", ") + axis + "=" +
            std::to_string(mesh.size_of(axis));
  }
  return text.empty() ? "whole" : text;
}

}  // namespace

Table kv_table(const Mesh& mesh, const std::vector<KvLayer>& layers,
               const KvAxes& axes, const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  const int64_t groups =
      mesh.devices() / (sharding.heads * sharding.batch * sharding.sequence);
  std::vector<Row> rows;
  for (const KvKind& kind : kv_kinds(layers)) {
    rows.push_back(kind_row(kind, kv_share(kind.layer, sharding, request),
                            groups, request));
  }
  const int64_t prefill =
      kv_prefill_bytes(layers, sharding, request).value_or(0);
  if (prefill > 0) {
    rows.push_back({std::string("one layer before its window cuts"), Count{1},
                    Cell(), Cell(), Cell(), Cell(), Cell(), Cell(),
                    ByteSize{prefill}});
  }
  Table table;
  table.id = "kv_cache";
  table.title = "KV cache";
  table.columns = {{"kind", "layers that cache"},
                   {"layers", "layers", Align::Right},
                   {"kv_heads", "KV heads", Align::Right},
                   {"heads_per_device", "here", Align::Right},
                   {"copies", "copies", Align::Right},
                   {"sequences_per_device", "seqs", Align::Right},
                   {"tokens", "tokens", Align::Right},
                   {"bytes_per_token", "per token", Align::Right},
                   {"bytes_per_device", "per device", Align::Right}};
  if (rows.size() > 1) {
    Row footer(table.columns.size());
    footer.back() =
        ByteSize{kv_bytes_per_device(layers, sharding, request).value_or(0)};
    table.footer = std::move(footer);
  }
  table.rows = rows_of(std::move(rows));
  return table;
}

std::string kv_fit_note(const WorkloadHeadroom& workload_headroom,
                        const KvRequest& request) {
  const auto up_to = [](const char* what, const std::optional<int64_t>& most) {
    if (!most) return "any " + std::string(what);
    return *most == 0 ? "no " + std::string(what)
                      : "up to " + std::string(what) + " " + count_text(*most);
  };
  return "fits " + up_to("batch", workload_headroom.batch) + " at context " +
         count_text(request.seq) + ", and " +
         up_to("context", workload_headroom.context) + " at batch " +
         count_text(request.batch);
}

std::vector<std::string> kv_notes(const Mesh& mesh,
                                  const std::vector<KvLayer>& layers,
                                  const KvAxes& axes,
                                  const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  std::string line = "KV cache in " + std::string(dtype_name(request.dtype));
  if (request.block > 1) {
    line += ", pages of " + plural(request.block, "token");
  }
  line += ": heads " + over_text(mesh, axes.heads) + " (" + axes.heads_from +
          "), batch " + over_text(mesh, axes.batch) + ", context " +
          over_text(mesh, axes.sequence);
  std::vector<std::string> notes = {std::move(line)};
  const bool has_heads = !layers.empty() && layers.front().latent == 0;
  const int64_t cut = sharding.heads * sharding.batch * sharding.sequence;
  if (has_heads && axes.heads.empty() && cut < mesh.devices()) {
    notes.emplace_back(
        "every device that works on a sequence caches all of its KV heads; "
        "where the engine cuts them, name the axes with --kv-axes");
  }
  if (!layers.empty() && !has_heads) {
    notes.emplace_back(
        "the latent is counted, which no head owns; an engine that caches "
        "expanded keys and values holds more");
  }
  return notes;
}

}  // namespace shardplan::cli
