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

template <typename Number>
std::string category_id(Number category) {
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
    const auto letters = static_cast<size_t>(Int128{c.bytes[i]} * kBarWidth /
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

// Returns the capacity that a fit is checked against: bytes, or "the devices of
// every stage" if their capacities differ.
std::string capacity_text(const Fit& fit, const DeviceLimit& limit) {
  return limit.of_stages.empty() ? bytes_text(*fit.usable)
                                 : std::string("the devices of every stage");
}

// Returns a note on libraries that cast frozen weights, which is not counted;
// "" for other libraries.
std::string frozen_note(ZeroStyle style) {
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

// Returns what the optimizer keeps for each group of parameters: for one group
// only if it is not obvious.
std::vector<std::string> optimizer_notes(const Budget& budget,
                                         const StateOptions& state) {
  std::vector<std::string> notes;
  for (size_t group = 0; group < budget.groups.size(); ++group) {
    const Budget::TrainedGroup& of = budget.groups[group];
    const Optimizer optimizer = optimizer_of(state, group);
    const bool is_muon = optimizer == Optimizer::Muon;
    const std::string moments =
        "one moment for " +
        (of.matrices == 1 ? "1 matrix"
                          : count_text(of.matrices) + " matrices") +
        " and adamw's two for the other " + count_text(of.others);
    if (!state.groups.empty()) {
      notes.push_back("group " + std::to_string(group) + ", " +
                      (group == 0
                           ? "the rest"
                           : in_backticks(state.groups[group - 1].pattern)) +
                      ": " + std::string(optimizer_name(optimizer)) + " for " +
                      plural(of.matrices + of.others, "parameter") + ", " +
                      count_text(of.elements) + " elements" +
                      (is_muon ? ": " + moments : ""));
    } else if (is_muon) {
      notes.push_back("muon keeps " + moments);
    }
  }
  return notes;
}

}  // namespace

Table breakdown_table(const Session& session, const Budget& budget,
                      bool whole) {
  const BudgetClass& fullest = budget.classes.front();
  const auto most = static_cast<double>(std::max<int64_t>(fullest.total, 1));
  std::vector<Row> rows;
  const auto add = [&](std::string category, int64_t bytes, Cell share = "") {
    rows.push_back({std::move(category), ByteSize{bytes}, std::move(share)});
  };
  for (size_t i = 0; i < kCategories; ++i) {
    const int64_t bytes = fullest.bytes[i];
    if (bytes == 0 && i > 0) continue;
    // The step's table has the bars of a whole step.
    add(title_of(i), bytes,
        whole ? Cell(Bar{static_cast<double>(bytes) / most}) : Cell(""));
  }
  add("total", fullest.total, whole ? limit_text(budget) : "");
  if (budget.limit && whole) {
    add(budget.fits() ? "headroom" : "over by",
        budget.fits() ? budget.headroom : -budget.headroom);
  }
  if (fullest.host > 0) add("in host memory", fullest.host);
  if (budget.classes.size() > 1) {
    add("on the least-loaded device", budget.classes.back().total);
  }
  add("parameters without replication",
      ceil_div(session.model.manifest.total_bytes(),
               session.plan.mesh.devices()));
  Table table = {
      "breakdown",
      "Memory per device",
      {left("category", ""), right("bytes_per_device", ""), left("share", "")},
      rows_of(std::move(rows)),
      Audience::People};
  table.show_header = false;
  return table;
}

Table device_class_table(const Budget& budget) {
  const std::span<const BudgetClass> all = budget.classes;
  const int64_t most = all.front().total;
  return table_of(
      "device_classes", "Device classes: " + legend(budget),
      all.size() < 2 ? all.first(0) : all,
      {{elastic("class"), [](auto& c) { return text_cell(c.label); }},
       {right("devices"), [](auto& c) { return Count{c.devices}; }},
       {right("bytes_per_device", "per device"),
        [](auto& c) { return ByteSize{c.total}; }},
       {left("shares", ""), [=](auto& c) { return stacked_bar(c, most); }}},
      Audience::People);
}

Table memory_rows(const Budget& budget) {
  std::vector<Row> rows;
  for (size_t i = 0; i < budget.classes.size(); ++i) {
    const BudgetClass& of = budget.classes[i];
    for (size_t category = 0; category < kCategories; ++category) {
      rows.push_back({Count{static_cast<int64_t>(i)}, of.label,
                      Count{of.devices}, category_id(category),
                      ByteSize{of.bytes[category]}});
    }
  }
  return {"memory",
          "",
          {left("class"), left("label"), left("devices"), left("category"),
           left("bytes_per_device")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

Table memory_totals(const Budget& budget) {
  std::vector<Row> rows;
  for (size_t i = 0; i < kCategories; ++i) {
    const CategoryTotal& total = budget.totals[i];
    rows.push_back({category_id(i), wide_bytes(total.on_devices),
                    wide_bytes(total.with_replicas),
                    wide_bytes(total.padding)});
  }
  return {"memory_totals",
          "",
          {left("category"), left("stored_bytes"), left("replicated_bytes"),
           left("padding_bytes")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

Table state_table(const Budget& budget, const StateOptions& state,
                  bool for_people) {
  const bool has_groups = !state.groups.empty();
  // Frozen parameters have no optimizer.
  const auto optimizer = [&state](const LeafSum& sum) {
    return sum.group ? optimizer_of(state, *sum.group) : Optimizer::None;
  };
  return table_of(
      for_people ? "state_for_people" : "state", "Training state",
      budget.leaves,
      {{left("role"), [](auto& sum) { return text_cell(sum.role); }},
       {left("category"), [](auto& sum) { return category_id(sum.kind); },
        !for_people},
       {right("group"),
        [](auto& sum) {
          return sum.group ? Cell(Count{static_cast<int64_t>(*sum.group)})
                           : Cell();
        },
        has_groups},
       {left("optimizer"),
        [&](auto& sum) { return text_cell(optimizer_name(optimizer(sum))); },
        has_groups},
       {left("dtype"),
        [](auto& sum) { return text_cell(dtype_name(sum.dtype)); }},
       {right("tensors"), [](auto& sum) { return Count{sum.tensors}; }},
       {right("logical_bytes", "bytes"),
        [](auto& sum) { return wide_bytes(sum.logical); }},
       {right("bytes_per_device", "per device"),
        [](auto& sum) { return ByteSize{sum.bytes_per_device}; }},
       {right("padding_bytes", "padding"),
        [](auto& sum) { return wide_bytes(sum.padding); }},
       // The notes tell people what ZeRO could not shard.
       {right("unsharded_bytes_per_device"),
        [](auto& sum) { return ByteSize{sum.unsharded}; }, !for_people}},
      audience_of(for_people));
}

Table gathered_table(const Budget& budget, bool for_people) {
  std::vector<GatheredClass> shown = budget.gathered;
  if (for_people) {
    std::erase_if(shown, [](const auto& c) { return c.gathered <= 0; });
  }
  return table_of(for_people ? "gathered" : "gathered_layers",
                  "Gathered layers", shown,
                  {{elastic("layer"), &GatheredClass::label},
                   {right("layers"), [](auto& c) { return Count{c.groups}; }},
                   {right("sharded_bytes_per_device", "sharded"),
                    [](auto& c) { return ByteSize{c.sharded}; }},
                   {right("gathered_bytes_per_device", "gathered"),
                    [](auto& c) { return ByteSize{c.gathered}; }}},
                  audience_of(for_people));
}

Table stages_table(const Budget& budget) {
  std::vector<Row> rows;
  const size_t stages = budget.stages ? budget.stages->ranges.size() : 0;
  for (size_t i = 0; i < stages; ++i) {
    const auto& [begin, end] = budget.stages->ranges[i];
    rows.push_back({Count{static_cast<int64_t>(i)}, budget.stage_labels[i],
                    Count{begin}, Count{end - begin}});
  }
  return {"stages",
          "",
          {left("stage"), left("label"), left("first_layer"), left("layers")},
          rows_of(std::move(rows)),
          Audience::Programs};
}

std::vector<std::pair<std::string, Cell>> fit_summary(const Fit& fit) {
  return {{"memory_needed", ByteSize{fit.needed}},
          {"memory_limit", optional_cell<ByteSize>(fit.usable)},
          {"headroom", optional_cell<ByteSize>(fit.headroom)},
          {"fits", optional_cell<YesNo>(fit.fits)}};
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
  const Fit& fit = answer.fit;
  std::string text = has_cache ? "weights and KV cache: "
                     : trains  ? "training state: "
                               : "weights: ";
  text += fit.will_fit() ? "fits " : "does not fit ";
  text += capacity_text(fit, *answer.budget.limit);
  if (fit.will_fit()) text += ", " + bytes_text(*fit.headroom) + " free";
  if (mode != Mode::Train && has_cache) return text;
  text += mode == Mode::Train ? "; activations are not counted"
                              : "; the KV cache is not counted";
  return text + " (add `--batch` and `--seq`)";
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

Table training_table(const Budget& budget) {
  const auto row = [](const char* part, const Budget::Part& of) {
    return Row{part, Count{of.parameters}, Count{of.elements},
               ByteSize{of.bytes}};
  };
  return {
      "training",
      "",
      {left("part"), left("parameters"), left("elements"), left("bytes")},
      rows_of({row("trained", budget.trained), row("frozen", budget.frozen)}),
      Audience::Programs};
}

std::vector<std::string> budget_notes(const Context& context,
                                      const MemoryAnswer& answer) {
  const Budget& budget = answer.budget;
  const StateOptions& state = answer.options.state;
  std::vector<std::string> lines;
  if (answer.names_trained) {
    lines.push_back(training_note(budget.trained, budget.frozen));
    std::string casts = frozen_note(state.zero_style);
    if (budget.frozen.parameters > 0 && !casts.empty()) {
      lines.push_back(std::move(casts));
    }
  }
  if (state.optimizer != Optimizer::None) {
    if (budget.untrained > 0) {
      lines.push_back(plural(budget.untrained, "parameter") + ", " +
                      bytes_text(budget.untrained_bytes) +
                      " in total, without a floating-point dtype: not counted "
                      "in gradients or optimizer state");
    }
    for (std::string& note : optimizer_notes(budget, state)) {
      lines.push_back(std::move(note));
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
  if (context.options.command == "analyze" && state.zero == 3) {
    lines.emplace_back(
        "efficiency, replication and savings describe the specs, without ZeRO");
  }
  if (context.options.planning.mode != Mode::Train && !answer.options.kv) {
    lines.push_back("the KV cache is not counted: `--seq` is not given");
  }
  return lines;
}

}  // namespace shardplan::cli
