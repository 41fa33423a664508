// SPDX-License-Identifier: Apache-2.0
// Finds the hooks of a graph's parameters by the rules of a plan.
#include "spmd/hooked_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/views.h"
#include "spmd/propagate.h"

namespace shardplan {
namespace {

// The experts of a layer are one module whose parameters are stacks. Entries
// for the stacks shard these, and the entry for the module says what its hooks
// do.
constexpr std::string_view kExperts = ".experts.";
// A name below a module that no plan has an entry for.
constexpr std::string_view kSomeParameter = ".hooked";

constexpr ModuleHook kNone = {.task = ModuleHook::Task::None};

class HooksOfPlan {
 public:
  HooksOfPlan(const Graph& graph, const Manifest& manifest, const Plan& plan,
              const FindRule& rule_of)
      : graph_(graph), plan_(plan), rule_of_(rule_of) {
    for (size_t i = 0; i < manifest.size(); ++i) {
      numbers_.emplace(manifest.name(i), i);
    }
  }

  HookedWalk walk() {
    const size_t values = graph_.values.size();
    hooked_.ranks = plan_.mesh.size_of(plan_.hook_axis);
    if (hooked_.ranks == 1) {
      return {.layouts = PerValue<HookedLayout>(values)};
    }
    hooked_.cut.assign(values, -1);
    hooked_.packed.assign(values, false);
    hooked_.hook.assign(values, kNone);
    hooked_.stray.assign(values, false);
    hooked_.around.assign(values, {});
    hooked_.tied_head = hook_of_module("lm_head");
    hooked_.experts.assign(graph_.regions.size(), kNone);
    for (const ValueId v : graph_.values.ids()) {
      const Value& value = graph_.values[v];
      const auto found = numbers_.find(value.parameter);
      if (value.kind != Value::Kind::Parameter || found == numbers_.end()) {
        continue;
      }
      const Placement& placement = plan_.of(found->second);
      for (size_t d = 0; d < placement.spec.dims.size(); ++d) {
        if (!contains(placement.spec.dims[d], plan_.hook_axis)) continue;
        hooked_.cut[v] = static_cast<int>(d);
        if (value.shape[d] % hooked_.ranks == 0) continue;
        return {.unknown = in_backticks(value.parameter) +
                           " does not divide into equal parts"};
      }
      if (placement.rule > 0) apply_rule(v, placement.rule);
    }
    for (size_t r = 0; r < graph_.regions.size(); ++r) {
      if (graph_.regions[r].kind == Region::Kind::Experts) {
        hooked_.experts[r] = hook_of_experts(graph_.regions[r]);
      }
    }
    return walk_hooked(graph_, hooked_);
  }

 private:
  // Returns the hook that the entry for a module gives.
  const ModuleHook& hook_of_module(std::string_view module) {
    auto known = modules_.find(module);
    if (known == modules_.end()) {
      const int rule = rule_below(module, kSomeParameter);
      known = modules_.emplace(module, rule == 0 ? kNone : rule_at(rule).hook)
                  .first;
    }
    return known->second;
  }
  int rule_below(std::string_view module, std::string_view name) const {
    return rule_of_(std::string(module) + std::string(name));
  }
  const PlanRule& rule_at(int number) const {
    return nth(plan_.rules, number - 1);
  }

  static std::optional<std::string_view> experts_module(
      std::string_view parameter) {
    const size_t at = parameter.find(kExperts);
    if (at == parameter.npos) return std::nullopt;
    return parameter.substr(0, at + kExperts.size() - 1);
  }
  static std::string_view module_of(std::string_view name) {
    const size_t dot = name.rfind('.');
    return name.substr(0, dot == name.npos ? 0 : dot);
  }

  static bool reads_shards(const ModuleHook& hook) {
    return hook.task == ModuleHook::Task::ReadShards ||
           hook.task == ModuleHook::Task::SumExperts ||
           hook.task == ModuleHook::Task::OwnExperts || !hook.is_known();
  }

  void apply_rule(ValueId v, int rule) {
    const std::string& name = graph_.values[v].parameter;
    const auto experts = experts_module(name);
    const std::string_view module = experts.value_or(module_of(name));
    hooked_.packed[v] = rule_at(rule).shards_parts;
    // An entry for the parameter itself only shards it.
    const bool is_own_entry =
        !rule_at(rule).deal.empty() ||
        rule_below(name, kSomeParameter) == rule ||
        (experts && (rule_below(module, ".gate_up_proj") == rule ||
                     rule_below(module, ".down_proj") == rule));
    if (is_own_entry) {
      hooked_.stray[v] =
          hooked_.cut[v] >= 0 && !reads_shards(hook_of_module(module));
    } else if (!experts) {
      hooked_.hook[v] = rule_at(rule).hook;
    } else if (rule_below(module, kSomeParameter) != rule) {
      // Unless the module's own entry leaves the parameter whole, experts are
      // modules of their own, as before transformers 5: how often their hooks
      // run depends on the tokens.
      modules_[std::string(module)] = ModuleHook();
    }
    add_containers(v, module);
  }

  void add_containers(ValueId v, std::string_view module) {
    for (std::string_view around = module_of(module); !around.empty();
         around = module_of(around)) {
      const ModuleHook& hook = hook_of_module(around);
      if (hook.is_known() && hook.input_layout == HookLayout::AsIs) continue;
      const auto [known, is_new] = containers_.try_emplace(
          std::string(around), static_cast<int>(hooked_.containers.size()));
      if (is_new) hooked_.containers.push_back(hook);
      auto& all = hooked_.around[v];
      all.insert(all.begin(), known->second);
    }
  }

  ModuleHook hook_of_experts(const Region& region) {
    for (const NodeId n : region.nodes) {
      for (const ValueId v : graph_.nodes[n].operands) {
        if (const auto hook = hook_around(v)) return *hook;
      }
    }
    return kNone;
  }

  // Returns the hook of the experts that a weight, or a part of it, belongs to.
  std::optional<ModuleHook> hook_around(ValueId v) {
    const Value& value = graph_.values[v];
    if (!value.is_weight) return std::nullopt;
    if (value.kind == Value::Kind::Parameter) {
      const auto module = experts_module(value.parameter);
      return module ? std::optional(hook_of_module(*module)) : std::nullopt;
    }
    for (const ValueId each : graph_.nodes[value.node].operands) {
      if (const auto hook = hook_around(each)) return hook;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const Plan& plan_;
  const FindRule& rule_of_;
  HookedPlan hooked_;
  std::map<std::string_view, size_t> numbers_;
  std::map<std::string, ModuleHook, std::less<>> modules_;
  std::map<std::string, int, std::less<>> containers_;
};

}  // namespace

HookedWalk walk_hooks(const Graph& graph, const Manifest& manifest,
                      const Plan& plan, const FindRule& rule_of) {
  if (plan.hook_axis.empty()) {
    return {.unknown = "the plan does not name styles over one axis"};
  }
  return HooksOfPlan(graph, manifest, plan, rule_of).walk();
}

int64_t last_number_named(const Plan& plan) {
  int64_t last = -1;
  for (const PlanRule& rule : plan.rules) {
    const std::string& text = rule.pattern;
    for (size_t at = text.find("\\."); at != text.npos;
         at = text.find("\\.", at + 2)) {
      size_t end = at + 2;
      int64_t number = 0;
      while (end < text.size() && end < at + 11 && is_digit(text[end])) {
        number = 10 * number + (text[end++] - '0');
      }
      const bool is_part = end > at + 2 && text.compare(end, 2, "\\.") == 0;
      if (is_part) last = std::max(last, number);
    }
  }
  return last;
}

bool use_hook_layouts(const Graph& graph, const Mesh& mesh,
                      const AxisName& axis,
                      const PerValue<HookedLayout>& layouts,
                      WantedLayouts& wanted) {
  if (!mesh.views().empty()) return false;
  const PerValue<std::vector<bool>> batch = find_batch_dims(graph);
  AxisNames of_batch;
  for (const ValueId v : graph.values.ids()) {
    if (graph.values[v].kind != Value::Kind::Input || !wanted[v]) continue;
    const auto& dims = wanted[v]->spec.dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) continue;
      if (!batch[v][d] || contains(dims[d], axis)) return false;
      of_batch = dims[d];
    }
  }
  const int64_t parts = shard_count(mesh, of_batch);
  WantedLayouts updated = wanted;
  for (const ValueId v : graph.values.ids()) {
    const Value& value = graph.values[v];
    const HookedLayout& hooked = layouts[v];
    if (value.kind != Value::Kind::Result || value.is_weight || hooked.packed ||
        hooked.partial) {
      continue;
    }
    Layout layout = replicated(value.shape.size());
    for (size_t d = 0; d < value.shape.size(); ++d) {
      if (!batch[v][d]) continue;
      if (value.shape[d] % parts != 0) return false;
      layout.spec.dims[d] = of_batch;
      break;
    }
    if (hooked.cut >= 0) {
      AxisNames& axes = nth(layout.spec.dims, hooked.cut);
      if (!axes.empty()) return false;
      if (mesh.size_of(axis) > 1) axes = {axis};
    }
    updated[v] = std::move(layout);
  }
  wanted = std::move(updated);
  return true;
}

}  // namespace shardplan
