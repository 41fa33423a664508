// SPDX-License-Identifier: Apache-2.0
// Writes saved plans; plan_reader.cc reads them.
//
//   {"schema":"shardplan.plan/1",
//   "model":"config.json",
//   "mesh":[["fsdp",16],["tp",8]],
//   ...
//   "placements":[
//   {"dtype":"bf16","shape":[8,8],"rule":1,"requested":["tp"],"spec":["tp",null]}
//   ],
//   "parameters":[
//   ["wte.weight",0]
//   ]}
//
// Each placement and each parameter has its own line, so that plans can be
// compared and merged as text.
#include "io/plan/plan_file.h"

#include <string>
#include <type_traits>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr size_t kFlush = size_t{1} << 16U;

class PlanWriter {
 public:
  PlanWriter(const Manifest& manifest, const Plan& plan,
             const std::function<bool(std::string_view)>& sink)
      : manifest_(manifest), plan_(plan), sink_(sink) {}

  bool write() {
    out_ = "{\"schema\":";
    value(kPlanSchema);
    line("model", manifest_.title);
    line("name", manifest_.model_name);
    line("format", manifest_.format);
    line("facts", manifest_.facts);
    line("mesh", plan_.mesh.axes());
    if (!plan_.mesh.views().empty()) line("views", plan_.mesh.views());
    line("on_indivisible", policy_name(plan_.on_indivisible));
    line("strict", plan_.strict);
    line("declared_axes", plan_.declared_axes);
    if (!plan_.other_names.empty()) line("other_names", plan_.other_names);
    if (plan_.run_as == RunAs::Hooks) {
      line("run_as", kRunByHooks);
      if (!plan_.hook_axis.empty()) line("hook_axis", plan_.hook_axis);
    }
    if (plan_.declarations.any()) {
      line("declare", declaration_texts(plan_.declarations));
    }
    lines("rules", plan_.rules);
    lines("placements", plan_.placements);
    line_key("parameters");
    out_ += '[';
    for (size_t i = 0; i < manifest_.size(); ++i) {
      out_ += i == 0 ? "\n" : ",\n";
      pair(manifest_.name(i), plan_.placement_of[i]);
      if (!flush(kFlush)) return false;
    }
    out_ += "\n]}\n";
    return flush(0);
  }

 private:
  bool flush(size_t above) {
    if (out_.size() <= above) return true;
    const bool good = sink_(out_);
    out_.clear();
    return good;
  }

  // A key of the outermost map, on a line of its own, and its value.
  void line_key(std::string_view name) {
    out_ += ",\n";
    value(name);
    out_ += ':';
  }
  template <typename Value>
  void line(std::string_view name, const Value& of_key) {
    line_key(name);
    value(of_key);
  }
  // The same for a list with one item per line.
  template <typename Items>
  void lines(std::string_view name, const Items& items) {
    line_key(name);
    list(items, [&](const auto& item) {
      out_ += '\n';
      value(item);
    });
    out_.insert(out_.size() - 1, "\n");
  }

  // A key of any other map: `,"name":`, without the comma at its start.
  void key(std::string_view name) {
    if (out_.back() != '{') out_ += ',';
    value(name);
    out_ += ':';
  }
  template <typename Value>
  void member(std::string_view name, const Value& of_key) {
    key(name);
    value(of_key);
  }
  // The same unless the value is empty.
  template <typename Value>
  void member_if_any(std::string_view name, const Value& of_key) {
    if (!of_key.empty()) member(name, of_key);
  }

  template <typename Items, typename Item>
  void list(const Items& items, Item item) {
    bool first = true;
    out_ += '[';
    for (const auto& each : items) {
      if (!first) out_ += ',';
      first = false;
      item(each);
    }
    out_ += ']';
  }

  // Writes true or false, a number, a text, or a list of values.
  template <typename Value>
  void value(const Value& any) {
    if constexpr (std::is_same_v<Value, bool>) {
      out_ += any ? "true" : "false";
    } else if constexpr (std::is_integral_v<Value>) {
      out_ += std::to_string(any);
    } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
      append_printable_json(out_, any);
    } else {
      list(any, [&](const auto& item) { value(item); });
    }
  }

  // Writes a list of two values.
  template <typename First, typename Second>
  void pair(const First& first, const Second& second) {
    out_ += '[';
    value(first);
    out_ += ',';
    value(second);
    out_ += ']';
  }

  // Writes `["fsdp",16]`.
  void value(const Axis& axis) { pair(axis.name, axis.size); }
  void value(const MeshView& view) { pair(view.name, view.axes); }

  void value(const PartitionSpec& spec) {
    list(spec.dims, [&](const AxisNames& axes) {
      if (axes.empty()) {
        out_ += "null";
      } else if (axes.size() == 1) {
        value(axes.front());
      } else {
        value(axes);
      }
    });
  }

  void value(const Facts& facts) {
    out_ += '{';
    member("from", nth(kFactsFromNames, facts.from));
    for (const FactField& fact : kFactFields) {
      const std::optional<int64_t>& number = facts.*fact.member;
      if (number) member(fact.name, *number);
    }
    member_if_any("windows", facts.windows);
    if (!facts.state.layers.empty()) {
      key("state");
      out_ += '{';
      member("kinds", facts.state.kinds);
      member("layers", facts.state.layers);
      out_ += '}';
    }
    out_ += '}';
  }

  void value(const LayerState& state) {
    if (state.known) {
      value(state.cached);
    } else {
      out_ += "null";
    }
  }

  void value(const CachedTensor& cached) {
    out_ += '{';
    member("name", cached.name);
    member("per", nth(kCachedPerNames, cached.per));
    member("heads", cached.heads);
    member("width", cached.width);
    if (cached.tokens != 0) member("tokens", cached.tokens);
    if (cached.every != 1) member("every", cached.every);
    if (cached.columns != 1) member("columns", cached.columns);
    if (cached.dtype) member("dtype", dtype_name(*cached.dtype));
    member_if_any("label", cached.label);
    member_if_any("module", cached.module);
    out_ += '}';
  }

  void value(const ModuleHook& hook) {
    const auto layout = [&](std::string_view name, HookLayout of_hook) {
      if (of_hook != HookLayout::AsIs) {
        member(name, nth(kHookLayoutNames, of_hook));
      }
    };
    out_ += '{';
    layout("takes", hook.input_layout);
    layout("reads", hook.desired_input_layout);
    layout("gives", hook.output_layout);
    member("task", nth(kHookTaskNames, hook.task));
    if (hook.output_is_dtensor) member("gives_dtensor", true);
    out_ += '}';
  }

  void value(const PlanRule& rule) {
    out_ += '{';
    member("pattern", rule.pattern);
    member("spec", rule.spec);
    member("file", rule.file);
    member("line", rule.line);
    member("shipped", rule.shipped);
    if (rule.shards_parts) member("shards_parts", true);
    if (rule.hook.is_known()) member("hook", rule.hook);
    member_if_any("view", rule.view);
    member_if_any("deal", rule.deal);
    member("found", rule.matched);
    member("won", rule.decided);
    member("shadowed_by", rule.shadowed_by);
    out_ += '}';
  }

  void value(const Correction& correction) {
    out_ += '{';
    member("dim", correction.dim);
    member("code", code_id(correction.code));
    member("dropped", correction.dropped);
    member("reason", correction.reason);
    out_ += '}';
  }

  void value(const StoredDim& stored) {
    out_ += '{';
    member("dim", stored.dim);
    member("size", stored.size);
    member("why", stored.why);
    out_ += '}';
  }

  void value(const ExpertPlacement& dealt) {
    out_ += '{';
    member("axis", dealt.axis);
    member("experts", dealt.experts);
    if (dealt.rank >= 0) member("rank", dealt.rank);
    out_ += '}';
  }

  void value(const Placement& placement) {
    out_ += '{';
    member("dtype", dtype_name(placement.type.dtype));
    member("shape", placement.type.shape);
    key("rule");
    out_ += placement.rule == 0 ? "null" : std::to_string(placement.rule);
    key("requested");
    if (placement.requested) {
      value(*placement.requested);
    } else {
      out_ += "null";
    }
    if (placement.resolved) member("meant", *placement.resolved);
    member("spec", placement.spec);
    member("corrections", placement.corrections);
    member_if_any("stored", placement.stored_dims);
    member_if_any("view", placement.view);
    if (placement.dealt) member("dealt", *placement.dealt);
    out_ += '}';
  }

  const Manifest& manifest_;
  const Plan& plan_;
  const std::function<bool(std::string_view)>& sink_;
  std::string out_;
};

}  // namespace

bool write_plan(const Manifest& manifest, const Plan& plan,
                const std::function<bool(std::string_view)>& write) {
  return PlanWriter(manifest, plan, write).write();
}

bool is_plan(std::string_view head) {
  constexpr size_t kLooksAt = 256;
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '{') return false;
  const std::string_view start = head.substr(first, kLooksAt);
  return contains(start, "\"schema\"") &&
         contains(start, "\"" + std::string(kPlanFamily));
}

}  // namespace shardplan
