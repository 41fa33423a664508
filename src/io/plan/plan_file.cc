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

  bool write();

 private:
  void key(std::string_view name);
  void text(std::string_view value) { append_printable_json(out_, value); }
  void number(int64_t value) { out_ += std::to_string(value); }
  void boolean(bool value) { out_ += value ? "true" : "false"; }
  void names(const std::vector<std::string>& values);
  void spec(const PartitionSpec& spec);
  void facts();
  void state(const LayerStates& state);
  void cached(const CachedTensor& cached);
  void sizes(const std::vector<Axis>& axes);
  void hook(const ModuleHook& hook);
  void rule(const PlanRule& rule);
  void placement(const Placement& placement);
  void dealt(const ExpertPlacement& dealt);
  void correction(const Correction& correction);
  void stored_dim(const StoredDim& stored);
  template <typename Items, typename Item>
  void list(const Items& items, Item item);
  template <typename Items, typename Item>
  void lines(const Items& items, Item item);
  bool flush(size_t above);

  const Manifest& manifest_;
  const Plan& plan_;
  const std::function<bool(std::string_view)>& sink_;
  std::string out_;
};

// Writes `,"name":`, without the comma at the start of a map.
void PlanWriter::key(std::string_view name) {
  if (out_.empty() || out_.back() != '{') out_ += ',';
  text(name);
  out_ += ':';
}

template <typename Items, typename Item>
void PlanWriter::list(const Items& items, Item item) {
  bool first = true;
  out_ += '[';
  for (const auto& value : items) {
    if (!first) out_ += ',';
    first = false;
    item(value);
  }
  out_ += ']';
}

template <typename Items, typename Item>
void PlanWriter::lines(const Items& items, Item item) {
  list(items, [&](const auto& value) {
    out_ += '\n';
    item(value);
  });
  out_.insert(out_.size() - 1, "\n");
}

bool PlanWriter::flush(size_t above) {
  if (out_.size() <= above) return true;
  const bool good = sink_(out_);
  out_.clear();
  return good;
}

void PlanWriter::names(const std::vector<std::string>& values) {
  list(values, [&](const std::string& value) { text(value); });
}

void PlanWriter::spec(const PartitionSpec& spec) {
  list(spec.dims, [&](const AxisNames& axes) {
    if (axes.empty()) {
      out_ += "null";
    } else if (axes.size() == 1) {
      text(axes.front());
    } else {
      names(texts_of(axes));
    }
  });
}

void PlanWriter::facts() {
  const Facts& facts = manifest_.facts;
  out_ += '{';
  key("from");
  text(facts_from_name(facts.from));
  for (const FactField& fact : kFactFields) {
    const std::optional<int64_t>& value = facts.*fact.member;
    if (!value) continue;
    key(fact.name);
    number(*value);
  }
  if (!facts.windows.empty()) {
    key("windows");
    list(facts.windows, [&](int64_t window) { number(window); });
  }
  if (!facts.state.layers.empty()) {
    key("state");
    state(facts.state);
  }
  out_ += '}';
}

// Writes null for a layer whose state is unknown.
void PlanWriter::state(const LayerStates& state) {
  out_ += '{';
  key("kinds");
  list(state.kinds, [&](const LayerState& kind) {
    if (!kind.known) {
      out_ += "null";
      return;
    }
    list(kind.cached, [&](const CachedTensor& each) { cached(each); });
  });
  key("layers");
  list(state.layers, [&](uint32_t kind) { number(kind); });
  out_ += '}';
}

void PlanWriter::cached(const CachedTensor& cached) {
  out_ += '{';
  key("name");
  text(cached.name);
  key("per");
  text(kCachedPerNames.at(static_cast<size_t>(cached.per)));
  key("heads");
  number(cached.heads);
  key("width");
  number(cached.width);
  if (cached.tokens != 0) {
    key("tokens");
    number(cached.tokens);
  }
  if (cached.every != 1) {
    key("every");
    number(cached.every);
  }
  if (cached.dtype) {
    key("dtype");
    text(dtype_name(*cached.dtype));
  }
  for (const auto& [name, value] : {std::pair{"label", &cached.label},
                                    std::pair{"module", &cached.module}}) {
    if (value->empty()) continue;
    key(name);
    text(*value);
  }
  out_ += '}';
}

// Writes `[["fsdp",16],["tp",8]]`.
void PlanWriter::sizes(const std::vector<Axis>& axes) {
  list(axes, [&](const Axis& axis) {
    out_ += '[';
    text(axis.name);
    out_ += ',';
    number(axis.size);
    out_ += ']';
  });
}

void PlanWriter::hook(const ModuleHook& hook) {
  key("hook");
  out_ += '{';
  const auto layout = [&](std::string_view name, HookLayout value) {
    if (value == HookLayout::AsIs) return;
    key(name);
    text(kHookLayoutNames.at(static_cast<size_t>(value)));
  };
  layout("takes", hook.input_layout);
  layout("reads", hook.desired_input_layout);
  layout("gives", hook.output_layout);
  key("task");
  text(kHookTaskNames.at(static_cast<size_t>(hook.task)));
  if (hook.output_is_dtensor) {
    key("gives_dtensor");
    boolean(true);
  }
  out_ += '}';
}

void PlanWriter::rule(const PlanRule& rule) {
  out_ += '{';
  key("pattern");
  text(rule.pattern);
  key("spec");
  spec(rule.spec);
  key("file");
  text(rule.file);
  key("line");
  number(rule.line);
  key("shipped");
  boolean(rule.shipped);
  if (rule.shards_parts) {
    key("shards_parts");
    boolean(true);
  }
  if (rule.hook.is_known()) hook(rule.hook);
  if (!rule.view.empty()) {
    key("view");
    text(rule.view);
  }
  if (!rule.deal.empty()) {
    key("deal");
    text(rule.deal);
  }
  key("found");
  number(rule.matched);
  key("won");
  number(rule.decided);
  key("shadowed_by");
  list(rule.shadowed_by, [&](int other) { number(other); });
  out_ += '}';
}

void PlanWriter::correction(const Correction& correction) {
  out_ += '{';
  key("dim");
  number(correction.dim);
  key("code");
  text(code_id(correction.code));
  key("dropped");
  names(texts_of(correction.dropped));
  key("reason");
  text(correction.reason);
  out_ += '}';
}

void PlanWriter::stored_dim(const StoredDim& stored) {
  out_ += '{';
  key("dim");
  number(stored.dim);
  key("size");
  number(stored.size);
  key("why");
  text(stored.why);
  out_ += '}';
}

void PlanWriter::dealt(const ExpertPlacement& dealt) {
  out_ += '{';
  key("axis");
  text(dealt.axis);
  key("experts");
  number(dealt.experts);
  if (dealt.rank >= 0) {
    key("rank");
    number(dealt.rank);
  }
  out_ += '}';
}

void PlanWriter::placement(const Placement& placement) {
  out_ += '{';
  key("dtype");
  text(dtype_name(placement.type.dtype));
  key("shape");
  list(placement.type.shape, [&](int64_t size) { number(size); });
  key("rule");
  if (placement.rule == 0) {
    out_ += "null";
  } else {
    number(placement.rule);
  }
  key("requested");
  if (placement.requested) {
    spec(*placement.requested);
  } else {
    out_ += "null";
  }
  if (placement.resolved) {
    key("meant");
    spec(*placement.resolved);
  }
  key("spec");
  spec(placement.spec);
  key("corrections");
  list(placement.corrections,
       [&](const Correction& value) { correction(value); });
  if (!placement.stored_dims.empty()) {
    key("stored");
    list(placement.stored_dims, [&](const StoredDim& dim) { stored_dim(dim); });
  }
  if (!placement.view.empty()) {
    key("view");
    text(placement.view);
  }
  if (placement.dealt) {
    key("dealt");
    dealt(*placement.dealt);
  }
  out_ += '}';
}

bool PlanWriter::write() {
  const auto line_key = [&](std::string_view name) {
    out_ += ",\n";
    text(name);
    out_ += ':';
  };
  out_ = "{\"schema\":";
  text(kPlanSchema);
  line_key("model");
  text(manifest_.title);
  line_key("name");
  text(manifest_.model_name);
  line_key("format");
  text(manifest_.format);
  line_key("facts");
  facts();
  line_key("mesh");
  sizes(plan_.mesh.axes());
  if (!plan_.mesh.views().empty()) {
    line_key("views");
    list(plan_.mesh.views(), [&](const MeshView& view) {
      out_ += '[';
      text(view.name);
      out_ += ',';
      sizes(view.axes);
      out_ += ']';
    });
  }
  line_key("on_indivisible");
  text(policy_name(plan_.on_indivisible));
  line_key("strict");
  boolean(plan_.strict);
  line_key("declared_axes");
  names(texts_of(plan_.declared_axes));
  if (!plan_.other_names.empty()) {
    line_key("other_names");
    names(texts_of(plan_.other_names));
  }
  if (plan_.run_as == RunAs::Hooks) {
    line_key("run_as");
    text(kRunByHooks);
    if (!plan_.hook_axis.empty()) {
      line_key("hook_axis");
      text(plan_.hook_axis);
    }
  }
  if (plan_.declarations.any()) {
    line_key("declare");
    names(declaration_texts(plan_.declarations));
  }
  line_key("rules");
  lines(plan_.rules, [&](const PlanRule& value) { rule(value); });
  line_key("placements");
  lines(plan_.placements, [&](const Placement& value) { placement(value); });
  line_key("parameters");
  out_ += '[';
  for (size_t i = 0; i < manifest_.size(); ++i) {
    out_ += i == 0 ? "\n[" : ",\n[";
    text(manifest_.name(i));
    out_ += ',';
    number(plan_.placement_of[i]);
    out_ += ']';
    if (!flush(kFlush)) return false;
  }
  out_ += "\n]}\n";
  return flush(0);
}

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
         start.find("\"" + std::string(kPlanFamily)) != std::string_view::npos;
}

}  // namespace shardplan
