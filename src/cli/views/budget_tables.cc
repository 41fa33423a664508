// SPDX-License-Identifier: Apache-2.0
#include "cli/views/budget_tables.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "cli/options.h"
#include "cli/views/columns.h"
#include "core/types.h"

namespace shardplan::cli {
namespace {

// The letters of the stacked bars, in the order of Category.
constexpr std::string_view kLetters = "PGMOLKSFR";
constexpr int kBarWidth = 24;

// The bytes of all devices together may exceed 63 bits; those of one device
// never do.
Cell wide_bytes(Int128 bytes) {
  if (bytes <= INT64_MAX) return ByteSize{static_cast<int64_t>(bytes)};
  return MeanBytes{static_cast<double>(bytes)};
}

std::string category_id(size_t category) {
  return std::string(category_name(static_cast<Category>(category)));
}

std::string title_of(size_t category) {
  return std::string(category_title(static_cast<Category>(category)));
}

// Returns "of 79.6 GiB on h100-sxm (57.0 %)".
std::string limit_text(const Budget& budget) {
  if (!budget.limit) return "";
  const auto needed = static_cast<double>(budget.classes.front().total);
  const auto usable = static_cast<double>(budget.limit->usable);
  std::string text = "of " + bytes_text(budget.limit->usable);
  if (budget.limit->name != "--memory") text += " on " + budget.limit->name;
  return text + " (" + percent_text(needed / usable) + ")";
}

// Returns a bar of kBarWidth letters for a device that holds `most` bytes, the
// total of the fullest class. Every category present has at least one letter.
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
    if (budget.totals[i].on_devices == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(1, kLetters[i]) + " " +
            title_of(i);
  }
  return text;
}

std::string kind_name(StateKind kind) {
  return category_id(static_cast<size_t>(kind));
}

// Returns the capacity that a fit is checked against: bytes, or "the devices of
// every stage" if their capacities differ.
std::string capacity_text(const Fit& fit, const DeviceLimit& limit) {
  return limit.of_stages.empty() ? bytes_text(*fit.usable)
                                 : std::string("the devices of every stage");
}

}  // namespace

Table breakdown_table(const Session& session, const Budget& budget,
                      bool whole) {
  Table table = {
      "breakdown",
      "Memory per device",
      {left("category", ""), right("bytes_per_device", ""), left("share", "")}};
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
  rows.push_back({std::string("total"), ByteSize{fullest.total},
                  whole ? limit_text(budget) : std::string()});
  if (budget.limit && whole) {
    rows.push_back(
        {std::string(budget.fits() ? "headroom" : "over by"),
         ByteSize{budget.fits() ? budget.headroom : -budget.headroom},
         std::string()});
  }
  if (fullest.host > 0) {
    rows.push_back(
        {std::string("in host memory"), ByteSize{fullest.host}, std::string()});
  }
  if (budget.classes.size() > 1) {
    rows.push_back({std::string("on the least-loaded device"),
                    ByteSize{budget.classes.back().total}, std::string()});
  }
  rows.push_back({std::string("parameters without replication"),
                  ByteSize{ceil_div(session.model.manifest.total_bytes(),
                                    session.plan.mesh.devices())},
                  std::string()});
  table.rows = rows_of(std::move(rows));
  return table;
}

Table device_class_table(const Budget& budget) {
  const ColumnsOf<BudgetClass> columns = {
      {{"class", "class", Align::Left, true},
       [](auto& c) { return c.label.empty() ? Cell() : Cell(c.label); }},
      {right("devices"), [](auto& c) { return Count{c.devices}; }},
      {right("bytes_per_device", "per device"),
       [](auto& c) { return ByteSize{c.total}; }},
      {left("shares", ""),
       [&budget](auto& c) {
         return stacked_bar(c, budget.classes.front().total);
       }},
  };
  const std::span<const BudgetClass> all = budget.classes;
  return table_of("device_classes", "Device classes: " + legend(budget),
                  columns, all.size() < 2 ? all.first(0) : all,
                  Audience::People);
}

Table memory_rows(const Budget& budget) {
  struct Share {
    const BudgetClass& of;
    size_t number;  // of the device class
    size_t category;
  };
  const ColumnsOf<Share> columns = {
      {left("class"),
       [](auto& s) { return Count{static_cast<int64_t>(s.number)}; }},
      {left("label"), [](auto& s) { return s.of.label; }},
      {right("devices"), [](auto& s) { return Count{s.of.devices}; }},
      {left("category"), [](auto& s) { return category_id(s.category); }},
      {right("bytes_per_device", "per device"),
       [](auto& s) { return ByteSize{s.of.bytes[s.category]}; }},
  };
  std::vector<Share> shares;
  for (size_t i = 0; i < budget.classes.size(); ++i) {
    for (size_t category = 0; category < kCategories; ++category) {
      shares.push_back({budget.classes[i], i, category});
    }
  }
  return table_of("memory", "Memory by class and category", columns, shares,
                  Audience::Programs);
}

Table memory_totals(const Budget& budget) {
  const ColumnsOf<size_t> columns = {
      {left("category"), category_id},
      {right("stored_bytes", "stored"),
       [&budget](size_t i) { return wide_bytes(budget.totals[i].on_devices); }},
      {right("replicated_bytes", "replicas x logical"),
       [&budget](size_t i) {
         return wide_bytes(budget.totals[i].with_replicas);
       }},
      {right("padding_bytes", "padding"),
       [&budget](size_t i) { return wide_bytes(budget.totals[i].padding); }},
  };
  return table_of("memory_totals", "Memory over all devices", columns,
                  numbers_below(kCategories), Audience::Programs);
}

namespace {

// Returns the optimizer's name, "adamw"; "none" for frozen parameters.
std::string optimizer_text(const StateOptions& state, const LeafSum& sum) {
  return std::string(optimizer_name(sum.group ? optimizer_of(state, *sum.group)
                                              : Optimizer::None));
}

}  // namespace

Table state_table(const Budget& budget, const StateOptions& state,
                  bool for_people) {
  ColumnsOf<LeafSum> columns = {
      {left("role"), [](auto& sum) { return std::string(sum.role); }},
      {left("category"), [](auto& sum) { return kind_name(sum.kind); }},
      {left("dtype"),
       [](auto& sum) { return std::string(dtype_name(sum.dtype)); }},
      {right("tensors"), [](auto& sum) { return Count{sum.tensors}; }},
      {right("logical_bytes", "bytes"),
       [](auto& sum) { return wide_bytes(sum.logical); }},
      {right("bytes_per_device", "per device"),
       [](auto& sum) { return ByteSize{sum.bytes_per_device}; }},
      {right("padding_bytes", "padding"),
       [](auto& sum) { return wide_bytes(sum.padding); }},
      {right("unsharded_bytes_per_device", "not sharded by ZeRO"),
       [](auto& sum) { return ByteSize{sum.unsharded}; }},
  };
  if (!state.groups.empty()) {
    columns.insert(columns.begin() + 2,
                   {right("group"), [](auto& sum) {
                      return sum.group
                                 ? Cell{Count{static_cast<int64_t>(*sum.group)}}
                                 : Cell{};
                    }});
    columns.insert(columns.begin() + 3,
                   {left("optimizer"), [&state](auto& sum) {
                      return optimizer_text(state, sum);
                    }});
  }
  if (for_people) {  // the notes say what ZeRO could not shard
    std::erase_if(columns, [](const auto& each) {
      return each.column.id == "category" ||
             each.column.id == "unsharded_bytes_per_device";
    });
  }
  return table_of(for_people ? "state_for_people" : "state", "Training state",
                  columns, budget.leaves, audience_of(for_people));
}

Table gathered_table(const Budget& budget, bool for_people) {
  const ColumnsOf<GatheredClass> columns = {
      {{"layer", "layer", Align::Left, true}, [](auto& c) { return c.label; }},
      {right("layers"), [](auto& c) { return Count{c.groups}; }},
      {right("sharded_bytes_per_device", "sharded"),
       [](auto& c) { return ByteSize{c.sharded}; }},
      {right("gathered_bytes_per_device", "gathered"),
       [](auto& c) { return ByteSize{c.gathered}; }},
  };
  std::vector<GatheredClass> shown = budget.gathered;
  if (for_people) {
    std::erase_if(shown, [](const auto& c) { return c.gathered <= 0; });
  }
  return table_of(for_people ? "gathered" : "gathered_layers",
                  "Gathered layers", columns, shown, audience_of(for_people));
}

Table stages_table(const Budget& budget) {
  const auto range_of = [&budget](size_t i) -> const auto& {
    return budget.stages->ranges[i];
  };
  const ColumnsOf<size_t> columns = {
      {right("stage"), [](size_t i) { return Count{static_cast<int64_t>(i)}; }},
      {left("label"), [&budget](size_t i) { return budget.stage_labels[i]; }},
      {right("first_layer"),
       [range_of](size_t i) { return Count{range_of(i).first}; }},
      {right("layers"),
       [range_of](size_t i) {
         return Count{range_of(i).second - range_of(i).first};
       }},
  };
  const size_t stages = budget.stages ? budget.stages->ranges.size() : 0;
  return table_of("stages", "Stages", columns, numbers_below(stages),
                  Audience::Programs);
}

Cell headroom_cell(const Fit& fit) {
  return fit.headroom ? Cell(ByteSize{*fit.headroom}) : Cell();
}

Cell fits_cell(const Fit& fit) {
  return fit.fits ? Cell(YesNo{*fit.fits}) : Cell();
}

std::vector<std::pair<std::string, Cell>> fit_summary(const Fit& fit) {
  return {{"memory_needed", ByteSize{fit.needed}},
          {"memory_limit", fit.usable ? Cell(ByteSize{*fit.usable}) : Cell()},
          {"headroom", headroom_cell(fit)},
          {"fits", fits_cell(fit)}};
}

std::string fit_text(const Fit& fit, const DeviceLimit& limit) {
  const std::string of = capacity_text(fit, limit);
  if (fit.will_fit()) {
    return "fits " + of + ": at least " + bytes_text(*fit.headroom) + " free";
  }
  if (fit.may_fit()) {
    return "may not fit " + of + ": it needs up to " + bytes_text(fit.needed);
  }
  return "does not fit " + of;
}

std::string state_fit_text(const MemoryAnswer& answer, Mode mode) {
  const bool has_cache = answer.options.kv.has_value();
  const bool trains = answer.options.state.optimizer != Optimizer::None;
  const std::string what = has_cache ? "weights and KV cache: "
                           : trains  ? "training state: "
                                     : "weights: ";
  std::string missing;
  if (mode == Mode::Train) {
    missing = "activations are not counted";
  } else if (!has_cache) {
    missing = "the KV cache is not counted";
  }
  if (!missing.empty()) {
    missing = "; " + missing + " (add `--batch` and `--seq`)";
  }
  const Fit& fit = answer.fit;
  const std::string usable = capacity_text(fit, *answer.budget.limit);
  return what +
         (fit.will_fit()
              ? "fits " + usable + ", " + bytes_text(*fit.headroom) + " free"
              : "does not fit " + usable) +
         missing;
}

std::string training_note(const Budget::Part& trained,
                          const Budget::Part& frozen) {
  if (frozen.parameters == 0) {
    return "all " + plural(trained.parameters, "parameter") +
           " are trained: " + count_text(trained.elements) + " elements, " +
           bytes_text(trained.bytes);
  }
  return count_text(trained.parameters) + " of " +
         plural(trained.parameters + frozen.parameters, "parameter") +
         (trained.parameters == 1 ? " is trained: " : " are trained: ") +
         count_text(trained.elements) + " of " +
         count_text(trained.elements + frozen.elements) + " elements, " +
         bytes_text(trained.bytes) + " of " +
         bytes_text(trained.bytes + frozen.bytes) +
         "; the others are frozen, without gradients or optimizer state";
}

// Returns a note on libraries that cast frozen weights, which is not counted;
// "" for other libraries.
std::string_view frozen_note(ZeroStyle style) {
  switch (style) {
    case ZeroStyle::Fsdp2:
      return "frozen weights are counted in their own dtype, as `fully_shard` "
             "keeps them; Accelerate 1.6 to 1.12 casts all of them to float32 "
             "under mixed precision";
    case ZeroStyle::DeepSpeed:
      return "frozen weights are counted in their own dtype; DeepSpeed casts "
             "float32 ones to its 16-bit dtype if one is enabled";
    case ZeroStyle::Jax:
    case ZeroStyle::Megatron:
      break;
  }
  return "";
}

Table training_table(const Budget& budget) {
  return {
      "training",
      "Trained and frozen",
      {left("part"), right("parameters"), right("elements"), right("bytes")},
      [&budget](const RowSink& sink) {
        const auto add = [&](const char* name, const Budget::Part& part) {
          sink(Row{std::string(name), Count{part.parameters},
                   Count{part.elements}, ByteSize{part.bytes}});
        };
        add("trained", budget.trained);
        add("frozen", budget.frozen);
      },
      Audience::Programs};
}

std::vector<std::string> budget_notes(const Context& context,
                                      const MemoryAnswer& answer) {
  const Budget& budget = answer.budget;
  const StateOptions& state = answer.options.state;
  std::vector<std::string> lines;
  const bool trains = state.optimizer != Optimizer::None;
  if (answer.names_trained) {
    lines.push_back(training_note(budget.trained, budget.frozen));
    const std::string_view casts = frozen_note(state.zero_style);
    if (budget.frozen.parameters > 0 && !casts.empty()) {
      lines.emplace_back(casts);
    }
  }
  if (trains && budget.untrained > 0) {
    lines.push_back(plural(budget.untrained, "parameter") + ", " +
                    bytes_text(budget.untrained_bytes) +
                    " in total, without a floating-point dtype: not counted in "
                    "gradients or optimizer state");
  }
  for (size_t group = 0; trains && group < budget.groups.size(); ++group) {
    const Budget::TrainedGroup& of = budget.groups[group];
    const Optimizer optimizer = optimizer_of(state, group);
    const std::string moments =
        "one moment for " +
        (of.matrices == 1 ? "1 matrix"
                          : count_text(of.matrices) + " matrices") +
        " and adamw's two for the other " + count_text(of.others);
    if (!state.groups.empty()) {
      lines.push_back("group " + std::to_string(group) + ", " +
                      (group == 0
                           ? "the rest"
                           : in_backticks(state.groups[group - 1].pattern)) +
                      ": " + std::string(optimizer_name(optimizer)) + " for " +
                      plural(of.matrices + of.others, "parameter") + ", " +
                      count_text(of.elements) + " elements" +
                      (optimizer == Optimizer::Muon ? ": " + moments : ""));
    } else if (optimizer == Optimizer::Muon) {
      lines.push_back("muon keeps " + moments);
    }
  }
  int64_t unsharded = 0;
  for (const LeafSum& sum : budget.leaves) unsharded += sum.unsharded;
  if (unsharded > 0) {
    lines.push_back(bytes_text(unsharded) +
                    " per device stay unsharded, since ZeRO's axes divide none "
                    "of their dimensions");
  }
  if (budget.stages && !budget.stages->tied.empty()) {
    lines.push_back((budget.stages->has_head
                         ? "multi-token prediction layers share the embedding: "
                         : "the output head is tied: ") +
                    in_backticks(budget.stages->tied) +
                    " is on both the first and the last stage");
  }
  const bool analyzes = context.options.command == "analyze";
  if (analyzes && state.zero == 3) {
    lines.emplace_back(
        "efficiency, replication and savings describe the specs, without ZeRO");
  }
  if (context.options.planning.mode != Mode::Train && !answer.options.kv) {
    lines.push_back("the KV cache is not counted: `--seq` is not given");
  }
  return lines;
}

namespace {

std::string kind_text(const KvLayer& layer) {
  std::string text =
      layer.window > 0 ? "window " + count_text(layer.window) : "all tokens";
  if (layer.every > 1) text = "one per " + count_text(layer.every) + " tokens";
  if (layer.source != 0) text = "encoder tokens";
  if (layer.latent > 0) text += ", latent";
  if (!layer.name.empty()) text += ", " + std::string(layer.name);
  return text;
}

// Returns the bytes of one token in all layers of the kind together.
int64_t token_bytes(const KvKind& kind, KvShare share, DType dtype) {
  share.sequences = 1;
  share.tokens = 1;
  return kv_bytes(share, dtype).value_or(0) * kind.layers;
}

// A row of the KV cache's table: a kind of layer, or the extra memory of one
// layer during prefill.
struct KvRow {
  const KvKind* kind = nullptr;  // null: the row of prefill
  KvShare share;
  int64_t prefill_bytes = 0;
};

// Returns "over tp=8, sp=2" or "unsharded".
std::string over_text(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const AxisName& axis : axes) {
    text += (text.empty() ? "over " : ", ") + axis + "=" +
            std::to_string(mesh.size_of(axis));
  }
  return text.empty() ? "unsharded" : text;
}

}  // namespace

Table kv_table(const Mesh& mesh, const std::vector<KvLayer>& layers,
               const KvAxes& axes, const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  const int64_t groups =
      mesh.devices() / (sharding.heads * sharding.batch * sharding.sequence);
  const std::vector<KvKind> kinds = kv_kinds(layers);
  std::vector<KvRow> subjects;
  for (const KvKind& kind : kinds) {
    subjects.push_back({&kind, kv_share(kind.layer, sharding, request)});
  }
  const int64_t prefill =
      kv_prefill_bytes(layers, sharding, request).value_or(0);
  if (prefill > 0) subjects.push_back({nullptr, {}, prefill});
  // Cells of layer kinds only; of_heads() also leaves out latents, which belong
  // to no head.
  const auto of_kind = [](auto cell) {
    return [cell](const KvRow& row) {
      return row.kind == nullptr ? Cell() : Cell(cell(row));
    };
  };
  const auto of_heads = [](auto cell) {
    return [cell](const KvRow& row) {
      return row.kind == nullptr || row.kind->layer.latent > 0
                 ? Cell()
                 : Cell(cell(row));
    };
  };
  const ColumnsOf<KvRow> columns = {
      {left("kind", "cached per layer"),
       [](auto& row) {
         return row.kind == nullptr ? std::string("one layer, before windowing")
                                    : kind_text(row.kind->layer);
       }},
      {right("layers"),
       [](auto& row) {
         return Count{row.kind == nullptr ? 1 : row.kind->layers};
       }},
      {right("kv_heads", "KV heads"),
       of_heads([](const KvRow& row) { return Count{row.kind->layer.heads}; })},
      {right("heads_per_device", "local heads"),
       of_heads([](const KvRow& row) { return Count{row.share.heads}; })},
      {right("copies"), of_kind([groups](const KvRow& row) {
         return Count{groups * row.share.copies};
       })},
      {right("sequences_per_device", "seqs"),
       of_kind([](const KvRow& row) { return Count{row.share.sequences}; })},
      {right("tokens"),
       of_kind([](const KvRow& row) { return Count{row.share.tokens}; })},
      {right("bytes_per_token", "per token"),
       of_kind([&request](const KvRow& row) {
         return ByteSize{token_bytes(*row.kind, row.share, request.dtype)};
       })},
      {right("bytes_per_device", "per device"),
       [&request](auto& row) {
         if (row.kind == nullptr) return ByteSize{row.prefill_bytes};
         return ByteSize{kv_bytes(row.share, request.dtype).value_or(0) *
                         row.kind->layers};
       }},
  };
  Table table = table_of("kv_cache", "KV cache", columns, subjects);
  if (subjects.size() > 1) {
    Row footer(table.columns.size());
    footer.back() =
        ByteSize{kv_bytes_per_device(layers, sharding, request).value_or(0)};
    table.footer = std::move(footer);
  }
  return table;
}

namespace {

// Returns how many layers store a state of that name.
int64_t layers_with(const LayerStates& state, std::string_view name) {
  return std::ranges::count_if(state.layers, [&](uint32_t kind) {
    const std::vector<CachedTensor>& cached = state.kinds[kind].cached;
    return std::ranges::any_of(cached, [&](const CachedTensor& k) {
      return k.per == CachedTensor::Per::Sequence && k.name == name;
    });
  });
}

// Returns sum + layers * each, or INT64_MAX on overflow.
int64_t plus(int64_t sum, int64_t layers, std::optional<int64_t> each) {
  const auto all = each ? checked_mul(*each, layers) : std::nullopt;
  const auto both = all ? checked_add(sum, *all) : std::nullopt;
  return both.value_or(INT64_MAX);
}

}  // namespace

Table recurrent_table(const Mesh& mesh, const Facts& facts, const KvAxes& axes,
                      const KvRequest& request) {
  std::vector<KvLayer> layers =
      kv_layers(facts).value_or(std::vector<KvLayer>());
  std::erase_if(layers, [](const KvLayer& l) { return !is_recurrent(l); });
  const KvSharding sharding = kv_sharding(mesh, axes);
  // The states of one name and dtype, summed over their layers. The parts of a
  // state are sharded separately.
  struct Named {
    std::string name;
    DType dtype = DType::F32;
    int64_t layers = 0;
    int64_t elements = 0;  // per sequence
    int64_t bytes = 0;     // per sequence
    int64_t here = 0;
    int64_t sequences = 0;
  };
  std::vector<Named> states;
  for (const KvKind& kind : kv_kinds(layers)) {
    const KvLayer& layer = kind.layer;
    const DType dtype = layer.dtype.value_or(request.dtype);
    auto one = std::ranges::find_if(states, [&](const Named& s) {
      return s.name == layer.name && s.dtype == dtype;
    });
    if (one == states.end()) {
      one = states.insert(states.end(), {std::string(layer.name), dtype,
                                         layers_with(facts.state, layer.name)});
    }
    // The budget was computed first, so these totals do not overflow.
    const KvShare share = kv_share(layer, sharding, request);
    KvShare whole = kv_share(layer, {}, {});
    whole.sequences = 1;
    one->elements =
        plus(one->elements, kind.layers, checked_mul(whole.heads, whole.width));
    one->bytes = plus(one->bytes, kind.layers, kv_bytes(whole, dtype));
    one->here = plus(one->here, kind.layers, kv_bytes(share, dtype));
    one->sequences = share.sequences;
  }
  const ColumnsOf<Named> columns = {
      {left("state"), [](auto& s) { return s.name; }},
      {left("dtype"), [](auto& s) { return std::string(dtype_name(s.dtype)); }},
      {right("layers"), [](auto& s) { return Count{s.layers}; }},
      {right("elements_per_sequence", "elements"),
       [](auto& s) { return Count{s.elements}; }},
      {right("bytes_per_sequence", "per sequence"),
       [](auto& s) { return ByteSize{s.bytes}; }},
      {right("sequences_per_device", "seqs"),
       [](auto& s) { return Count{s.sequences}; }},
      {right("bytes_per_device", "per device"),
       [](auto& s) { return ByteSize{s.here}; }},
  };
  Table table = table_of("recurrent_state", "Recurrent state", columns, states);
  if (states.size() > 1) {
    int64_t here = 0;
    for (const Named& state : states) here = plus(here, 1, state.here);
    Row footer(table.columns.size());
    footer.back() = ByteSize{here};
    table.footer = std::move(footer);
  }
  return table;
}

std::string recurrent_note(const Mesh& mesh, const KvAxes& axes) {
  return "recurrent states, one per sequence: state " +
         over_text(mesh, axes.states) + " (" + axes.states_from + "), batch " +
         over_text(mesh, axes.batch);
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
  if (request.block > 1) line += ", pages of " + plural(request.block, "token");
  line += ": heads " + over_text(mesh, axes.heads) + " (" + axes.heads_from +
          "), batch " + over_text(mesh, axes.batch) + ", context " +
          over_text(mesh, axes.sequence);
  std::vector<std::string> notes = {std::move(line)};
  const bool has_heads = std::ranges::any_of(
      layers, [](const KvLayer& layer) { return layer.latent == 0; });
  const int64_t cut = sharding.heads * sharding.batch * sharding.sequence;
  if (has_heads && axes.heads.empty() && cut < mesh.devices()) {
    notes.emplace_back(
        "every device that works on a sequence caches all its KV heads; if the "
        "engine shards them, name the axes with --kv-axes");
  }
  if (!layers.empty() && !has_heads) {
    notes.emplace_back(
        "the cache is counted as the latent, which all heads share; an engine "
        "that caches expanded keys and values needs more");
  }
  return notes;
}

}  // namespace shardplan::cli
