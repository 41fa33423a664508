// SPDX-License-Identifier: Apache-2.0
#include "sim/activations.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "core/partition_axis.h"
#include "core/views.h"
#include "model/units.h"
#include "resolve/correct.h"
#include "resolve/match.h"
#include "spmd/hooked_plan.h"
#include "spmd/shard_mapped.h"

namespace shardplan {
namespace {

// The source of a layout that a graph's own labels ask for.
constexpr const char* kLabels = "axes";

// A value that is not sharded as requested, and how often over all layers.
struct Departure {
  ValueId value;  // the first one
  Correction correction;
  Span where;
  std::string requested;  // the spec and where it comes from
  bool of_labels = false;
  int64_t count = 1;
};

void append(AxisNames& axes, const AxisNames& more) {
  axes.insert(axes.end(), more.begin(), more.end());
}

AxisNames axes_of_fields(const PartitionAxis& table) {
  AxisNames axes;
  for (const auto& field : table) {
    if (field) append(axes, field->axes);
  }
  return axes;
}

class Placer {
 public:
  Placer(const Graph& graph, const Manifest& manifest, const Plan& plan,
         const RuleSet& rules, const NameReading& reading, Diagnostics& diags)
      : graph_(graph),
        manifest_(manifest),
        plan_(plan),
        rules_(rules),
        vocabulary_(rules, plan.mesh, reading),
        declared_(rules.declared_axes),
        diags_(diags),
        placed_{plan.mesh, {}, {}, {}, false} {
    declare_defaults();
    find_experts();
    placed_.wanted.resize(graph.values.size());
    placed_.from.resize(graph.values.size());
    for (size_t i = 0; i < manifest.size(); ++i) {
      parameters_.emplace(manifest.name(i), i);
    }
  }

  std::optional<PlacedValues> run() {
    auto mesh = sub_axes(plan_.mesh);
    if (!mesh) {
      report_no_sub_axes();
      return std::nullopt;
    }
    placed_.mesh = *std::move(mesh);
    if (!match_activations()) return std::nullopt;
    bool fine = true;
    for (const ValueId v : graph_.values.ids()) {
      fine &= graph_.values[v].kind == Value::Kind::Parameter ? parameter(v)
                                                              : activation(v);
    }
    report_departures();
    report_overruled();
    if (!fine ||
        !check_shard_maps(graph_, plan_.mesh, rules_.declared_axes, diags_)) {
      return std::nullopt;
    }
    if (plan_.run_as == RunAs::Hooks) apply_hooks();
    return std::move(placed_);
  }

 private:
  // Declares the axes that labels such as BATCH stand for by default. Nobody
  // asked for them, so a mesh that has only such axes may lack some. A mesh
  // with an axis of another name may mean that one instead, so what is not
  // sharded then is reported; so is an axis that the graph itself names.
  void declare_defaults() {
    if (rules_.partition_axis) return;
    const AxisNames defaults = axes_of_fields(default_partition_axis());
    for (const Axis& axis : plan_.mesh.axes()) {
      if (!contains(defaults, axis.name)) return;
    }
    for (const Value& value : graph_.values) {
      for (const std::string& name : value.axes) {
        if (contains(defaults, name)) return;
      }
    }
    append(declared_, defaults);
  }

  void apply_hooks() {
    RuleSet patterns;
    for (const PlanRule& rule : plan_.rules) {
      patterns.rules.emplace_back().pattern = rule.pattern;
    }
    Diagnostics none;
    const auto matcher =
        Matcher::compile(patterns, manifest_.names_are_plain(), none);
    if (!matcher) {
      placed_.hooked = HookedWalk();
      placed_.hooked->unknown = "the plan's patterns cannot be compiled";
      return;
    }
    std::vector<int> found;
    placed_.hooked =
        walk_hooks(graph_, manifest_, plan_, [&](std::string_view name) {
          matcher->find(name, found);
          return found.empty() ? 0 : found.front() + 1;
        });
    placed_.hook_layouts =
        placed_.hooked->is_right() &&
        use_hook_layouts(graph_, placed_.mesh, plan_.hook_axis,
                         placed_.hooked->layouts, placed_.wanted);
  }

  void report_no_sub_axes() {
    auto problem = diags_.error(
        Code::InvalidMesh, {},
        "the mesh and its views divide the devices in incompatible ways, so no "
        "program can convert between them");
    problem.fact("the mesh is " + mesh_text(plan_.mesh));
    for (const MeshView& view : plan_.mesh.views()) {
      problem.fact("view `" + view.name + "` is " + axes_text(view.axes));
    }
    problem.help(
        "order the view's axes so that the product of its leading sizes "
        "divides that of the mesh, or is a multiple of it");
  }

  void place(ValueId v, const PartitionSpec& spec, std::string from) {
    placed_.wanted[v] =
        layout_of(placed_.mesh, spec, graph_.values[v].shape.size());
    placed_.from[v] = std::move(from);
  }

  bool parameter(ValueId v) {
    const Value& value = graph_.values[v];
    const auto found = parameters_.find(value.parameter);
    // Buffers are not parameters: no rule is for them, and every device has
    // them.
    if (found == parameters_.end() &&
        find_named(manifest_.buffers(), value.parameter) != nullptr) {
      place(v, {}, "a buffer");
      return true;
    }
    if (found == parameters_.end()) {
      std::vector<std::string> names;
      for (size_t i = 0; i < manifest_.size(); ++i) {
        names.emplace_back(manifest_.name(i));
      }
      suggest(diags_.error(Code::InvalidGraph, value.where,
                           "the model has no parameter " +
                               in_backticks(value.parameter)),
              value.parameter, names,
              "`name:` must be the parameter's name in the model");
      return false;
    }
    const Placement& placement = plan_.of(found->second);
    if (placement.dealt) return refuse_dealt(value.parameter);
    const Layout layout =
        layout_of(placed_.mesh, placement.spec, value.shape.size());
    AxisNames gathered;
    for (const AxisName& axis : axes_in(placement.spec)) {
      if (is_gathered_axis(axis)) {
        append(gathered, parts_of(placed_.mesh, axis));
      }
    }
    for (size_t dim = 0; dim < value.shape.size(); ++dim) {
      const AxisNames uneven =
          uneven_axes(placed_.mesh, layout.spec.dims[dim], value.shape[dim]);
      const bool is_gathered = std::ranges::all_of(
          uneven,
          [&](const AxisName& axis) { return contains(gathered, axis); });
      if (is_gathered && placement.stored_dims.empty()) continue;
      diags_
          .error(Code::Usage, {},
                 "`simulate` cannot run shards of different sizes: " +
                     in_backticks(value.parameter))
          .fact(
              "dimension " + std::to_string(dim) + " of " +
              shape_text(value.shape) + " is split into " +
              std::to_string(shard_count(placed_.mesh, layout.spec.dims[dim])))
          .help(
              "pass `--on-indivisible drop` or `prefix` for equal shards; "
              "declared padding cannot be simulated");
      return false;
    }
    std::string from = "plan";
    if (placement.rule > 0) {
      const PlanRule& by = nth(plan_.rules, placement.rule - 1);
      from = by.file + ":" + std::to_string(by.line);
    }
    place(v, placement.spec, std::move(from));
    return true;
  }

  // Reports experts that are dealt out one by one and cannot run. Every device
  // runs the same operations, so dealt experts run as a stack that is sharded
  // over them (evaluate/stacked_experts.h).
  bool refuse_dealt(const std::string& name) {
    diags_
        .error(Code::Usage, {},
               "the experts of " + in_backticks(name) +
                   " cannot be run as a stack: their layers differ, or their "
                   "forward pass is not supported")
        .fact(
            "it is placed whole on one device, so other devices do not have it")
        .help(
            "all experts of a layer must have one type and be placed by one "
            "rule");
    return false;
  }

  // Returns the spec that a constraint node asks for; null for other values.
  const PartitionSpec* constraint_of(const Value& value) const {
    if (!value.node) return nullptr;
    const GraphNode& node = graph_.nodes[value.node];
    if (!node.op->is_constraint) return nullptr;
    return &std::get<PartitionSpec>(node.attributes.find("spec")->second);
  }

  // Records the rule that matches a value whose spec the graph gives itself.
  void note_overruled(ValueId v) {
    const Value& value = graph_.values[v];
    const PartitionSpec* own = constraint_of(value);
    if (own == nullptr && value.spec) own = &*value.spec;
    if (own == nullptr || rule_of_[v] < 0) return;
    const Rule& rule = nth(rules_.activations, rule_of_[v]);
    if (rule.shipped || rule.spec == *own) return;
    overruled_[rule_of_[v]].push_back(v);
  }

  void report_overruled() {
    for (const auto& [number, values] : overruled_) {
      const Rule& rule = nth(rules_.activations, number);
      const Value& first = graph_.values[values.front()];
      const PartitionSpec* own = constraint_of(first);
      if (own == nullptr) own = &*first.spec;
      std::string who = "`" + first.name + "`";
      if (values.size() > 1) {
        who += " and " + count_text(static_cast<int64_t>(values.size()) - 1) +
               " more";
      }
      diags_
          .report(Code::UnusedActivationRule, Severity::Note, rule.where,
                  "activation rule " + in_backticks(rule.pattern) +
                      " does not decide how " + who +
                      (values.size() > 1 ? " are" : " is") +
                      " sharded: the graph gives its own spec")
          .label(first.where, "`" + first.name + "` gets its spec here")
          .fact("the rule says " + spec_text(rule.spec) + "; the graph says " +
                spec_text(*own))
          .help(
              "remove the spec from the graph, or exclude the value from the "
              "rule");
    }
  }

  bool activation(ValueId v) {
    const Value& value = graph_.values[v];
    note_overruled(v);
    if (const PartitionSpec* spec = constraint_of(value)) {
      read(v, *spec, graph_.nodes[value.node].where, "constraint",
           rules_.declared_axes);
    } else if (value.spec) {
      read(v, *value.spec, value.where, "graph", rules_.declared_axes);
    } else if (rule_of_[v] >= 0) {
      const Rule& rule = nth(rules_.activations, rule_of_[v]);
      const std::string place =
          rule.where ? rule.where.file->name() + ":" +
                           std::to_string(
                               rule.where.file->position(rule.where.begin).line)
                     : "activations";
      read(v, rule.spec, rule.spec_where, place, rules_.declared_axes);
    } else if (is_placed_by_view(v)) {
      return true;
    } else if (value.labelled) {
      PartitionSpec labels;
      for (const std::string& label : value.axes) {
        labels.dims.push_back(label.empty() ? AxisNames{} : AxisNames{label});
      }
      read(v, labels, value.where, kLabels, declared_);
    } else if (value.kind == Value::Kind::Input) {
      place(v, {}, "no spec; replicated");
    }
    return true;
  }

  // Finds the values between where tokens are sent to experts and where answers
  // come back, if there are views to place them in.
  void find_experts() {
    experts_.resize(graph_.values.size(), nullptr);
    if (plan_.mesh.views().empty()) return;
    for (const Region& region : graph_.regions) {
      if (region.kind != Region::Kind::Experts) continue;
      for (const NodeId node : region.nodes) {
        if (graph_.nodes[node].op->exchange == TokenExchange::FromExperts) {
          continue;
        }
        experts_[graph_.nodes[node].result] = &region;
      }
    }
  }

  // Places a value of experts as their view shards it: experts over the view's
  // axes for experts, the batch over its other axes, except those that shard
  // the weights of each expert and are not gathered for use. So tokens go to
  // their experts, and weights never go to tokens, whatever the sizes of a run.
  //
  // What experts compute stays there: labels name only axes of the mesh, and a
  // batch sharded over the same devices would call the tokens back. Returns
  // false if no view has the value's experts.
  bool is_placed_by_view(ValueId v) {
    const Region* const region = experts_[v];
    if (region == nullptr) return false;
    std::string view;
    AxisNames of_experts;
    AxisNames of_weights;
    for (const NodeId node : region->nodes) {
      for (const ValueId operand : graph_.nodes[node].operands) {
        const Value& weight = graph_.values[operand];
        const auto found = parameters_.find(weight.parameter);
        if (!weight.is_weight || found == parameters_.end()) continue;
        const Placement& placement = plan_.of(found->second);
        if (placement.view.empty() || weight.shape.size() < 2 ||
            weight.shape.front() != region->experts ||
            placement.spec.dims.empty()) {
          continue;
        }
        view = placement.view;
        of_experts = placement.spec.dims.front();
        for (size_t dim = 1; dim < placement.spec.dims.size(); ++dim) {
          append(of_weights, placement.spec.dims[dim]);
        }
      }
    }
    if (view.empty() || of_experts.empty()) return false;
    const GraphNode& node = graph_.nodes[graph_.values[v].node];
    if (node.op->exchange != TokenExchange::ToExperts) return true;
    const AxisNames batch = axes_of_label("BATCH");
    const AxisNames sequence = axes_of_label("LENGTH");
    AxisNames parts;
    for (const Axis& axis : plan_.mesh.axes_of(view)) {
      const bool of_mesh = plan_.mesh.has({}, axis.name);
      const bool cuts_tokens =
          of_mesh
              ? contains(batch, axis.name) || contains(sequence, axis.name)
              : is_gathered_axis(axis.name) || !contains(of_weights, axis.name);
      if (!cuts_tokens || contains(of_experts, axis.name)) continue;
      append(parts, parts_of(placed_.mesh, axis.name));
    }
    const Shape& shape = graph_.values[v].shape;
    Layout layout = layout_of(placed_.mesh, {{of_experts}}, shape.size());
    const int64_t groups = integer_of(node.attributes, "groups", 1);
    AxisNames of_sequence;
    for (const AxisName& axis : sequence) {
      append(of_sequence, parts_of(placed_.mesh, axis));
    }
    const auto cut = [&](size_t dim, int64_t size, const AxisName& part) {
      AxisNames& axes = layout.spec.dims[dim];
      const int64_t left = size / shard_count(placed_.mesh, axes);
      const int64_t shards = placed_.mesh.size_of(part);
      if (left == 0 || left % shards != 0) return false;
      axes.push_back(part);
      return true;
    };
    // [experts, batch.., places, features]: a part of the sequence shards the
    // groups of places; any other shards the first batch dimension that it
    // divides.
    for (const AxisName& part : parts) {
      if (placed_.mesh.size_of(part) == 1) continue;
      const size_t places = shape.size() - 2;
      if (contains(of_sequence, part) && cut(places, groups, part)) continue;
      for (size_t dim = 1; dim < places; ++dim) {
        if (cut(dim, shape[dim], part)) break;
      }
    }
    placed_.from[v] = "view `" + view + "`";
    placed_.wanted[v] = std::move(layout);
    return true;
  }

  AxisNames axes_of_label(const char* label) const {
    return axes_in(vocabulary_.of({{{label}}}, 1).spec);
  }

  // Resolves names to mesh axes, corrects the spec, and records each
  // correction.
  void read(ValueId v, const PartitionSpec& written, Span where,
            const std::string& from, const AxisNames& declared) {
    const Value& value = graph_.values[v];
    ResolvedNames names_meant = vocabulary_.of(written, value.shape.size());
    if (from == kLabels && !where) gather_tokens(value, names_meant.spec);
    CorrectedSpec corrected = correct(names_meant.spec, value.shape, plan_.mesh,
                                      declared, OnIndivisible::Drop);
    std::vector<Correction> all = names_meant.corrections;
    all.insert(all.end(), corrected.corrections.begin(),
               corrected.corrections.end());
    for (const Correction& c : all) {
      Departure departure{v, c, where, spec_text(written) + " (" + from + ")",
                          from == kLabels};
      const auto same = std::ranges::find_if(
          departures_,
          [&](const Departure& each) { return is_repeated(each, departure); });
      if (same == departures_.end()) {
        departures_.push_back(std::move(departure));
      } else {
        ++same->count;
      }
    }
    place(v, corrected.spec, from);
  }

  // Leaves tokens unsharded over an axis that shards their features: Megatron's
  // sequence parallelism gathers tokens for products that are sharded over the
  // same axis. In a user's graph, such labels contradict one another.
  static void gather_tokens(const Value& value, PartitionSpec& spec) {
    const size_t rank = std::min(value.axes.size(), spec.dims.size());
    for (size_t dim = 0; dim < rank; ++dim) {
      const std::string_view label = value.axes[dim];
      if (label != "LENGTH" && label != "QUERY_LENGTH") continue;
      erase_if(spec.dims[dim], [&](const AxisName& axis) {
        return std::any_of(spec.dims.begin() + static_cast<ptrdiff_t>(dim) + 1,
                           spec.dims.end(), [&](const AxisNames& later) {
                             return contains(later, axis);
                           });
      });
    }
  }

  // Returns whether both are the same departure in different layers.
  bool is_repeated(const Departure& a, const Departure& b) const {
    const Value& first = graph_.values[a.value];
    const Value& second = graph_.values[b.value];
    return a.correction.code == b.correction.code &&
           a.correction.dim == b.correction.dim &&
           a.correction.reason == b.correction.reason &&
           a.requested == b.requested && a.where.file == b.where.file &&
           a.where.begin == b.where.begin && first.shape == second.shape &&
           folded_name(first.name) == folded_name(second.name);
  }

  void report_departures() {
    for (const Departure& each : departures_) {
      const Value& value = graph_.values[each.value];
      auto problem =
          diags_
              .report(each.correction.code, each.where,
                      "`" + value.name + "` is not sharded as requested: " +
                          each.correction.reason)
              .fact("`" + value.name + "` " + shape_text(value.shape) + " as " +
                    each.requested);
      if (each.count > 1) {
        problem
            .fact(count_text(each.count) + " occurrences of `" +
                  folded_name(value.name) + "`")
            .findings(each.count);
      }
      problem.help("the activation stays unsharded in dimension " +
                   std::to_string(each.correction.dim));
      if (each.of_labels && each.correction.code == Code::UnknownAxis) {
        problem.help(
            "map the graph's labels to axes with `partition_axis` in the "
            "rules");
      }
    }
  }

  // Finds the first activation rule that matches each value's name. Rules do
  // not apply to the steps on the way to a value (graph/composites.h).
  bool match_activations() {
    rule_of_.assign(graph_.values.size(), -1);
    if (rules_.activations.empty()) return true;
    const auto matcher = compile_activations(rules_, diags_);
    if (!matcher) return false;
    std::vector<int64_t> uses(rules_.activations.size());
    std::vector<int> found;
    for (const ValueId v : graph_.values.ids()) {
      const Value& value = graph_.values[v];
      if (value.kind == Value::Kind::Parameter || value.is_step()) {
        continue;
      }
      matcher->find(value.name, found);
      for (const int rule : found) ++nth(uses, rule);
      if (!found.empty()) rule_of_[v] = found.front();
    }
    for (size_t r = 0; r < uses.size(); ++r) {
      const Rule& rule = rules_.activations[r];
      if (uses[r] > 0 || rule.shipped) continue;
      diags_
          .report(Code::UnusedActivationRule, rule.where,
                  "activation rule " + in_backticks(rule.pattern) +
                      " matches no value in the graph")
          .help(values_text());
    }
    return true;
  }

  std::string values_text() const {
    constexpr size_t kShown = 6;
    std::string text = "the graph's values are ";
    size_t shown = 0;
    for (const Value& value : graph_.values) {
      if (value.kind == Value::Kind::Parameter || value.is_step()) {
        continue;
      }
      if (++shown > kShown) return text + ", ..";
      text += (shown > 1 ? ", `" : "`") + value.name + "`";
    }
    return text;
  }

  const Graph& graph_;
  const Manifest& manifest_;
  const Plan& plan_;
  const RuleSet& rules_;
  Vocabulary vocabulary_;
  AxisNames declared_;  // for labels
  Diagnostics& diags_;
  std::unordered_map<std::string_view, size_t> parameters_;
  PerValue<int> rule_of_;            // 0-based; -1: none
  PerValue<const Region*> experts_;  // the experts that compute it; null: none
  std::vector<Departure> departures_;
  std::map<int, std::vector<ValueId>> overruled_;  // by rule
  PlacedValues placed_;
};

}  // namespace

RuleSet with_assumed_axes(const RuleSet& rules, const Mesh& mesh,
                          const AxisNames& known) {
  RuleSet changed = rules;
  if (changed.partition_axis) return changed;
  PartitionAxis table = default_partition_axis();
  const auto set = [&](std::string_view name, const auto& is_called_so) {
    auto& field = table[*find_partition_field(name)];
    AxisNames own;
    for (const Axis& axis : mesh.axes()) {
      if (is_called_so(axis.name.text())) own.push_back(axis.name);
    }
    const bool other = std::ranges::any_of(own, [&](const AxisName& axis) {
      return !field || !contains(field->axes, axis);
    });
    if (other) field = AxisValue{own, own.size() != 1};
  };
  set("batch_axis", is_gathered_axis);
  set("tensor_parallel_axis", is_tensor_axis);
  AxisNames names = known;
  append(names, axes_of_fields(table));
  Diagnostics quiet;
  changed.partition_axis = resolve_partition_axis(table, quiet);
  const bool all_known =
      std::ranges::all_of(mesh.axes(), [&](const Axis& axis) {
        return axis.size == 1 || contains(names, axis.name) ||
               is_pipeline_axis(axis.name.text());
      });
  if (all_known) append(changed.declared_axes, names);
  return changed;
}

std::optional<PlacedValues> place_values(const Graph& graph,
                                         const Manifest& manifest,
                                         const Plan& plan, const RuleSet& rules,
                                         const NameReading& reading,
                                         Diagnostics& diags) {
  return Placer(graph, manifest, plan, rules, reading, diags).run();
}

}  // namespace shardplan
