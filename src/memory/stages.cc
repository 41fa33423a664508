// SPDX-License-Identifier: Apache-2.0
#include "memory/stages.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/tensor_name.h"

namespace shardplan {
namespace {

constexpr std::string_view kSeparators = "/.";

std::vector<std::string_view> components_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end =
        std::min(name.find_first_of(kSeparators, begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Names of output projections onto the vocabulary: Hugging Face, Flax, MaxText,
// torchtitan, GPT-NeoX, Megatron.
constexpr std::array<std::string_view, 7> kHeads = {
    "lm_head", "output",       "embed_out", "logits_dense",
    "head",    "output_layer", "unembed"};
// Embeddings of GPT-2 and GGUF, whose names do not contain "embed".
constexpr std::array<std::string_view, 4> kTables = {"wte", "wpe", "token_embd",
                                                     "position_embd"};

// Words in the names of embeddings that are not of tokens, and of modules
// beside an embedding.
constexpr std::array<std::string_view, 6> kOtherTables = {
    "wpe", "pos", "norm", "patch", "type", "rotary"};

// Returns whether a group that is an embedding embeds tokens.
bool is_token_table(std::string_view name) {
  return std::ranges::none_of(kOtherTables, [&](std::string_view word) {
    return contains(name, word);
  });
}

GroupPlace place_of(const std::vector<std::string_view>& parts) {
  const auto any_is = [&](const auto& words) {
    return std::ranges::find_first_of(parts, words) != parts.end();
  };
  if (any_is(kHeads)) return GroupPlace::Head;
  const auto any_contains = [&](std::string_view word) {
    return std::ranges::any_of(
        parts, [&](std::string_view part) { return contains(part, word); });
  };
  if (any_contains("embed") || any_is(kTables)) {
    return GroupPlace::Embedding;
  }
  if (any_contains("norm") || any_contains("ln_f")) return GroupPlace::Norm;
  return GroupPlace::Unknown;
}

// Returns the name up to the module that a parameter outside the layers belongs
// to.
std::string_view module_name(std::string_view name) {
  const std::string_view module = split_name(name).module;
  if (module.empty()) return name;
  return name.substr(0, to_size(module.data() - name.data()) + module.size());
}

// Returns whether a group called a head has its own matrix onto the vocabulary.
// A bias, a norm, and a square matrix of a module inside a head before the
// embedding (BERT's `lm_head.dense`) are no such matrix.
bool projects(const Manifest& manifest, const LayerGroup& head) {
  const size_t last = head.name.find_last_of(kSeparators);
  const std::string_view module =
      std::string_view(head.name).substr(last + 1);  // npos + 1: the whole name
  const bool is_head = contains(kHeads, module);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const Shape& shape = manifest.type(i).shape;
    const bool inside = name.starts_with(head.name) &&
                        (name.size() == head.name.size() ||
                         contains(kSeparators, name[head.name.size()]));
    if (inside && shape.size() > 1 && (is_head || shape[0] != shape[1])) {
      return true;
    }
  }
  return false;
}

// Returns whether there are layers that predict further tokens (Megatron's
// `mtp.layers.0`, Qwen3-Next's) and no embedding of their own.
bool embeds_further_tokens(const Manifest& manifest) {
  bool any = false;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    if (!contains(name, "mtp")) continue;
    const auto parts = components_of(name);
    const auto further = std::ranges::find_if(parts, [](std::string_view part) {
      return part == "mtp" || part.starts_with("mtp_");
    });
    if (further == parts.end()) continue;
    any = true;
    if (place_of({further, parts.end()}) == GroupPlace::Embedding) return false;
  }
  return any;
}

class GroupCollector {
 public:
  GroupCollector(const Manifest& manifest, std::span<const uint32_t> kind_of)
      : manifest_(manifest), kind_of_(kind_of) {}

  LayerGroups collect() {
    layers_ = numbered_layers(manifest_);
    if (std::ranges::none_of(layers_.stacks, [](const LayerStack& stack) {
          return stack.layers > 1;
        })) {
      hints_ = layout_hints(manifest_);
    }
    result_.group_of.reserve(manifest_.size());
    for (size_t i = 0; i < manifest_.size(); ++i) add(i);
    find_forms();
    result_.stacks = std::move(layers_.stacks);
    result_.has_head =
        std::ranges::any_of(result_.groups, [&](const LayerGroup& group) {
          return group.place == GroupPlace::Head && projects(manifest_, group);
        });
    result_.embeds_further_tokens = embeds_further_tokens(manifest_);
    return std::move(result_);
  }

 private:
  struct Members {
    std::map<uint32_t, int64_t> counts;
    std::string label;
    std::optional<StackedLayers> stacked;
  };

  // Returns how the layers of a tensor without a number are stacked, if they
  // are.
  std::optional<StackedLayers> stacking_of(std::string_view stack) const {
    const auto evidence = hints_.stacks.find(stack);
    if (stack.empty() || evidence == hints_.stacks.end()) return std::nullopt;
    return stacked_layers(evidence->second, manifest_.facts.layers);
  }

  void add(size_t parameter) {
    const std::string_view name = manifest_.name(parameter);
    const auto& [stack, number, end] = layers_.of[parameter];
    const std::string_view layer =
        stack >= 0 ? name.substr(0, end) : std::string_view();
    // Most names belong to the same layer as the name before.
    if (layer.empty() || layer != last_layer_) {
      last_group_ = find_group(parameter);
      last_layer_ = layer;
    }
    ++members_[last_group_].counts[kind_of_[parameter]];
    result_.group_of.push_back(static_cast<uint32_t>(last_group_));
  }

  // Returns the number of the parameter's group, which may be new.
  size_t find_group(size_t parameter) {
    const std::string_view name = manifest_.name(parameter);
    const auto& [stack, number, end] = layers_.of[parameter];
    LayerGroup group;
    Members members;
    if (stack >= 0) {
      group.name = name.substr(0, end);
      group.stack = stack;
      group.number = number;
      members.label = nth(layers_.stacks, stack).prefix + "*";
    } else if (const auto stacked = stacking_of(stack_of(name))) {
      group.name = stack_of(name);
      members.stacked = stacked;
      members.label = group.name;
    } else {
      group.name = module_name(name);
      members.label = group.name;
      if (!in_other_tower(name)) {
        const auto parts = components_of(name);
        group.place = place_of(parts);
        group.is_token_embedding =
            group.place == GroupPlace::Embedding && is_token_table(group.name);
      }
    }
    const std::string key = (members.stacked ? "*" : "") + group.name;
    const auto [entry, is_new] =
        group_of_.try_emplace(key, result_.groups.size());
    if (is_new) {
      group.first = parameter;
      result_.groups.push_back(std::move(group));
      members_.push_back(std::move(members));
    }
    return entry->second;
  }

  void find_forms() {
    std::map<std::pair<std::string, std::map<uint32_t, int64_t>>, uint32_t>
        known;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Members& members = members_[i];
      const auto [entry, is_new] =
          known.try_emplace({members.label, members.counts},
                            static_cast<uint32_t>(result_.forms.size()));
      if (is_new) {
        GroupForm form;
        form.label = members.label;
        if (members.stacked) {
          form.stacked_dim = static_cast<int>(members.stacked->dim);
          form.layers = members.stacked->layers;
        }
        for (const auto& [kind, count] : members.counts) {
          form.members.push_back({kind, count});
        }
        result_.forms.push_back(std::move(form));
      }
      ++result_.forms[entry->second].groups;
      result_.groups[i].form = entry->second;
    }
  }

  const Manifest& manifest_;
  std::span<const uint32_t> kind_of_;
  LayerGroups result_;
  std::vector<Members> members_;  // per group
  NumberedLayers layers_;
  std::unordered_map<std::string, size_t> group_of_;
  std::string_view last_layer_;
  size_t last_group_ = 0;
  LayoutHints hints_;  // only if layers may be stacked
};

std::string stacks_text(const LayerGroups& groups) {
  if (groups.stacks.empty()) return "no name has a number";
  return joined_of(groups.stacks, ", ", [](const LayerStack& stack) {
    return "`" + stack.prefix + "*` has " + plural(stack.layers, "layer");
  });
}

// Returns the stack of layers that the pipeline splits. If there are several,
// the facts decide.
std::optional<int64_t> main_stack(const Manifest& manifest,
                                  const LayerGroups& groups,
                                  Diagnostics& diags) {
  const auto facts = manifest.facts.layers;
  std::vector<int64_t> fitting;
  for (size_t i = 0; i < groups.stacks.size(); ++i) {
    if (groups.stacks.size() == 1 || groups.stacks[i].layers == facts) {
      fitting.push_back(static_cast<int64_t>(i));
    }
  }
  if (fitting.size() != 1) {
    auto report = diags.error(Code::Usage, {},
                              "`--stages` cannot find the layers of the model");
    report.fact(stacks_text(groups));
    if (facts) report.fact("the facts say " + plural(*facts, "layer"));
    report.help("add the fact `layers`, or leave out `--stages`");
    return report;
  }
  const LayerStack& stack = nth(groups.stacks, fitting.front());
  if (facts && stack.layers < *facts) {
    return diags
        .error(Code::Usage, {}, "the model has fewer layers than its facts say")
        .fact(stacks_text(groups))
        .fact("the facts say " + plural(*facts, "layer"))
        .help("correct the fact `layers`, or add what is missing");
  }
  return fitting.front();
}

// Returns the number of layers that are stacked in single tensors, if there are
// any. Sets `good` to false if a stack is not sharded over the axis.
std::optional<int64_t> layers_in_stacks(const LayerGroups& groups,
                                        const std::vector<bool>& cut_by_axis,
                                        const Stages& stages, bool& good,
                                        Diagnostics& diags) {
  std::optional<int64_t> layers;
  for (const LayerGroup& group : groups.groups) {
    const GroupForm& form = groups.forms[group.form];
    if (!form.is_stacked()) continue;
    layers = layers.value_or(0) + form.layers;
    const bool all_cut = std::ranges::all_of(
        form.members,
        [&](const auto& member) { return cut_by_axis[member.kind]; });
    if (all_cut) continue;
    good = false;
    diags
        .error(Code::Usage, {},
               "the stacked layers of " + in_backticks(group.name) +
                   " are not sharded over `" + stages.axis + "`")
        .fact("each of their tensors holds all " +
              plural(form.layers, "layer") + " along dimension " +
              std::to_string(form.stacked_dim))
        .help("shard that dimension over `" + stages.axis + "` in the rules");
  }
  return layers;
}

// Returns the layers per stage, after checking them.
std::optional<std::vector<int64_t>> layer_counts(const Stages& stages,
                                                 int64_t count, int64_t layers,
                                                 Diagnostics& diags) {
  const auto size = to_size(count);
  if (stages.layers.empty()) {
    if (count > layers) {
      return diags
          .error(Code::Usage, {},
                 "axis `" + stages.axis + "` has " + plural(count, "stage") +
                     ", but the model has only " + plural(layers, "layer"))
          .help("make the axis smaller, or set the layers of each stage");
    }
    std::vector<int64_t> counts(size, layers / count);
    for (int64_t i = 0; i < layers % count; ++i) ++nth(counts, i);
    return counts;
  }
  const int64_t sum =
      std::accumulate(stages.layers.begin(), stages.layers.end(), int64_t{0});
  if (stages.layers.size() == size && sum == layers) return stages.layers;
  auto report = diags.error(
      Code::Usage, {}, "`--stages` does not place every layer exactly once");
  if (stages.layers.size() != size) {
    report.fact("axis `" + stages.axis + "` has " + plural(count, "stage") +
                "; " + plural(std::ssize(stages.layers), "layer count") +
                " given");
  }
  const auto number_text = [](int64_t number) {
    return std::to_string(number);
  };
  report.fact(joined_of(stages.layers, " + ", number_text) + " = " +
              std::to_string(sum) + "; the model has " +
              plural(layers, "layer"));
  report.help("give one layer count per stage, summing to the model's layers");
  return report;
}

int64_t stage_of_layer(const StagePlan& plan, int64_t layer) {
  for (size_t i = 0; i < plan.ranges.size(); ++i) {
    if (layer < plan.ranges[i].second) return static_cast<int64_t>(i);
  }
  return plan.stages - 1;
}

void place_groups(StagePlan& plan, const LayerGroups& groups, int64_t stack) {
  // The layers' ranks by number: 0, 1, .., even if the numbers begin elsewhere.
  std::map<int64_t, int64_t> ranks;
  size_t first_layer = SIZE_MAX;
  for (const LayerGroup& group : groups.groups) {
    if (group.stack != stack) continue;
    ranks.emplace(group.number, 0);
    first_layer = std::min(first_layer, group.first);
  }
  for (int64_t next = 0; auto& [number, rank] : ranks) rank = next++;
  plan.has_head = groups.has_head;
  const int64_t last = plan.stages - 1;
  const bool is_on_last =
      last > 0 && (!groups.has_head || groups.embeds_further_tokens);
  for (const LayerGroup& group : groups.groups) {
    std::vector<int64_t> on;
    if (groups.forms[group.form].is_stacked()) {
      // Its spec shards it.
    } else if (group.stack == stack && stack >= 0) {
      on = {stage_of_layer(plan, ranks.at(group.number))};
    } else if (group.place == GroupPlace::Embedding) {
      on = {0};
      if (group.is_token_embedding && is_on_last) {
        on.push_back(last);
        plan.tied = group.name;
      }
    } else if (group.place == GroupPlace::Unknown) {
      on = {group.first < first_layer ? 0 : last};
    } else {
      on = {last};
    }
    plan.stages_of.push_back(std::move(on));
  }
}

// Returns, per placement, whether its spec names the axis.
std::vector<bool> cut_by(const Plan& plan, const AxisName& axis) {
  std::vector<bool> cut;
  for (const Placement& placement : plan.placements) {
    cut.push_back(contains(axes_in(placement.spec), axis));
  }
  return cut;
}

}  // namespace

LayerGroups layer_groups(const Manifest& manifest,
                         std::span<const uint32_t> kind_of) {
  return GroupCollector(manifest, kind_of).collect();
}

std::vector<int64_t> StagePlan::layers_of_stages() const {
  std::vector<int64_t> counts;
  for (const auto& [begin, end] : ranges) counts.push_back(end - begin);
  return counts;
}

std::optional<StagePlan> plan_stages(const Manifest& manifest, const Mesh& mesh,
                                     const LayerGroups& groups,
                                     const std::vector<bool>& cut_by_axis,
                                     const Stages& stages, Diagnostics& diags) {
  const auto axis = mesh.find(stages.axis);
  if (!axis) {
    return diags
        .error(Code::Usage, {},
               "`--stages` names axis `" + stages.axis +
                   "`, which the mesh does not have")
        .fact("the mesh is " + mesh_text(mesh));
  }
  StagePlan plan;
  plan.axis = *axis;
  plan.stages = mesh.all_axes()[*axis].size;
  bool good = true;
  int64_t stack = -1;
  auto layers = layers_in_stacks(groups, cut_by_axis, stages, good, diags);
  if (!good) return std::nullopt;
  if (!layers) {
    const auto main = main_stack(manifest, groups, diags);
    if (!main) return std::nullopt;
    stack = *main;
    const int64_t named = nth(groups.stacks, stack).layers;
    layers = manifest.facts.layers.value_or(named);
    plan.extra_layers = named - *layers;
  }
  plan.layers = *layers;
  const auto counts = layer_counts(stages, plan.stages, plan.layers, diags);
  if (!counts) return std::nullopt;
  int64_t begin = 0;
  for (const int64_t count : *counts) {
    plan.ranges.emplace_back(begin, begin + count);
    begin += count;
  }
  plan.named = !stages.layers.empty();
  plan.uneven = !plan.named && plan.layers % plan.stages != 0;
  place_groups(plan, groups, stack);
  return plan;
}

std::optional<StagePlan> stages_of_plan(const Manifest& manifest,
                                        const Plan& plan,
                                        const LayerGroups& groups,
                                        const Stages& stages,
                                        Diagnostics& diags) {
  return plan_stages(manifest, plan.mesh, groups, cut_by(plan, stages.axis),
                     stages, diags);
}

std::shared_ptr<const ParameterStages> parameter_stages(
    const Manifest& manifest, const Plan& plan, const LayerGroups& groups,
    const Stages& stages) {
  Diagnostics known;  // reported when the stages are budgeted
  const auto made = stages_of_plan(manifest, plan, groups, stages, known);
  if (!made) return nullptr;
  auto result = std::make_shared<ParameterStages>();
  result->axis = stages.axis;
  result->stages = made->stages;
  result->of.resize(manifest.size());
  result->uneven = made->uneven;
  result->layers = made->layers_of_stages();
  const std::vector<bool> cut = cut_by(plan, stages.axis);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::vector<int64_t>& on = made->stages_of[groups.group_of[i]];
    if (on.empty() || cut[plan.placement_of[i]]) continue;
    result->of[i].first = static_cast<int32_t>(on[0]);
    if (on.size() > 1) result->of[i].second = static_cast<int32_t>(on[1]);
  }
  return result;
}

std::string stage_label(const StagePlan& plan, const LayerGroups& groups,
                        int64_t stage) {
  bool embedding = false;
  bool head = false;
  for (size_t i = 0; i < groups.groups.size(); ++i) {
    const LayerGroup& group = groups.groups[i];
    const std::vector<int64_t>& on = plan.stages_of[i];
    if (!contains(on, stage)) continue;
    embedding |= group.place == GroupPlace::Embedding;
    head |= group.place == GroupPlace::Head;
  }
  std::string text = "stage " + std::to_string(stage) + ":";
  if (embedding && stage == 0) text += " embedding,";
  const auto [begin, end] = nth(plan.ranges, stage);
  if (end == begin) {
    text += " no layers";
  } else if (end == begin + 1) {
    text += " layer " + std::to_string(begin);
  } else {
    text += " layers " + std::to_string(begin) + "-" + std::to_string(end - 1);
  }
  if (stage == plan.stages - 1 && plan.extra_layers > 0) {
    text += " and " + std::to_string(plan.extra_layers) + " more";
  }
  if (head) text += ", head";
  if (embedding && stage > 0) {
    text += plan.has_head ? ", embedding" : ", tied embedding";
  }
  return text;
}

}  // namespace shardplan
