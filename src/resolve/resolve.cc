// SPDX-License-Identifier: Apache-2.0
// Places each kind of parameter once: what its rule or its labels request, in
// mesh axes, corrected for the mesh.
#include "resolve/resolve.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/tensor_name.h"
#include "resolve/correct.h"
#include "resolve/dealing.h"

namespace shardplan {
namespace {

AxisNames axes_of(const PartitionSpec& spec, size_t dim) {
  return dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
}

// Returns the least multiple of `multiple` and `shards` that is >= `size`.
std::optional<int64_t> padded(int64_t size, int64_t multiple, int64_t shards) {
  const auto both = checked_mul(multiple / std::gcd(multiple, shards), shards);
  if (!both) return std::nullopt;
  return checked_mul(ceil_div(size, *both), *both);
}

std::optional<StoredDim> stored_vocab(
    std::string_view name, const TensorType& type, const PartitionSpec& spec,
    const Mesh& mesh, const Declarations& declared, const UnitFacts& known) {
  if (declared.pad_vocab == 0) return std::nullopt;
  const auto dim = vocab_dim(name, type, known.facts);
  if (!dim) return std::nullopt;
  const int64_t size = type.shape[*dim];
  const int64_t shards = shard_count(mesh, axes_of(spec, *dim));
  const auto stored = padded(size, declared.pad_vocab, shards);
  if (!stored || *stored == size) return std::nullopt;
  std::string why =
      "pad-vocab=" + std::to_string(declared.pad_vocab) + ": smallest multiple";
  if (shards > 1) why += " that " + std::to_string(shards) + " shards divide";
  return StoredDim{static_cast<int>(*dim), *stored, std::move(why)};
}

// A shape whose product exceeds 63 bits is larger than any limit.
bool is_small(const Shape& shape, const ResolveOptions& options) {
  const std::optional<int64_t> elements = element_count(shape);
  return options.strict && elements && *elements < options.min_size;
}

PlanRule plan_rule(const Rule& rule, const RuleUse& use) {
  PlanRule result;
  result.pattern = rule.pattern;
  result.spec = rule.spec;
  result.shipped = rule.shipped;
  result.shards_parts = rule.shards_parts;
  result.view = rule.view;
  result.deal = rule.deal;
  result.hook = rule.hook;
  if (rule.where) {
    result.file = rule.where.file->name();
    result.line = rule.where.file->position(rule.where.begin).line;
  }
  result.matched = use.matched;
  result.decided = use.decided;
  for (const int winner : use.winners) {
    if (use.decided == 0) result.shadowed_by.push_back(winner + 1);
  }
  return result;
}

// The inputs of placing parameters.
struct Placing {
  const Manifest& manifest;
  const RuleSet& rules;
  const AxisNames& declared_axes;
  const Mesh& mesh;
  const ResolveOptions& options;
  const UnitFacts& known;  // empty when nothing is declared
  const Vocabulary& names;
  // Per parameter; empty: no expert is placed whole.
  const std::vector<ExpertTensor>& experts;
};

// Returns the mode that the shape determines, if the rule asks for that.
std::optional<Mode> mode_of(const Rule& rule, const Shape& shape) {
  if (!rule.decode_dim) return std::nullopt;
  const auto rank = static_cast<int>(shape.size());
  const int dim =
      *rule.decode_dim < 0 ? *rule.decode_dim + rank : *rule.decode_dim;
  const bool decodes = dim >= 0 && dim < rank && nth(shape, dim) == 1;
  return decodes ? Mode::Decode : Mode::Train;
}

// Stores the meaning of the requested names. Returns the view that logical axes
// were placed over.
std::string store_meaning(ResolvedNames meant, Placement& placement) {
  placement.resolved = std::move(meant.spec);
  placement.logical_rules = std::move(meant.logical_rules);
  placement.corrections = std::move(meant.corrections);
  return std::move(meant.view);
}

// Fills the spec, its corrections and the stored dimensions. The stored size of
// a dimension depends on the axes that shard it, and the axes that remain after
// correction depend on the stored size, so both are computed in turn. If they
// do not settle, nothing is stored as declared, and findings report the units
// that this splits (SP206).
void correct_as_stored(std::string_view name, const PartitionSpec& asked,
                       std::string_view view, const Placing& how,
                       Placement& placement) {
  const AxisNames taken = dealt_axes(placement);
  const auto corrected = [&](OnIndivisible policy) {
    return correct(asked, stored_shape(placement), how.mesh, how.declared_axes,
                   policy, taken, view);
  };
  const OnIndivisible policy = how.options.on_indivisible;
  CorrectedSpec result = corrected(policy);
  if (how.options.declarations.any()) {
    PartitionSpec kept = corrected(OnIndivisible::Pad).spec;
    bool settled = false;
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds && !settled; ++round) {
      placement.stored_dims = stored_dims(name, placement.type, kept, how.mesh,
                                          how.options.declarations, how.known);
      result = corrected(policy);
      settled = result.spec == kept;
      kept = result.spec;
    }
    if (!settled) {
      placement.stored_dims.clear();
      result = corrected(policy);
    }
  }
  placement.spec = std::move(result.spec);
  std::ranges::move(result.corrections,
                    std::back_inserter(placement.corrections));
}

// Fills `dealt` as the rule requests, or adds the correction that says why not.
void deal_out(const Rule& rule, const ExpertTensor& tensor, const Placing& how,
              Placement& placement) {
  const PartitionSpec meant = how.names.of({{{rule.deal}}}, 1, {}).spec;
  const AxisNames axes = axes_in(meant);
  const auto refuse = [&](Code code, std::string reason) {
    placement.corrections.push_back({0, code, axes, std::move(reason)});
  };
  for (const AxisName& axis : axes) {
    if (!how.mesh.find(axis)) {
      if (contains(how.declared_axes, axis)) return;
      return refuse(Code::UnknownAxis, "axis `" + axis + "` is unknown");
    }
    if (rule.view.empty() || how.mesh.has(rule.view, axis)) continue;
    return refuse(Code::MixedViews, "axis `" + axis + "` is not in view `" +
                                        rule.view + "`, the view of the rule");
  }
  if (axes.size() != 1) {
    return refuse(Code::NotDealt,
                  "`deal` takes one axis, not " + std::to_string(axes.size()));
  }
  if (tensor.expert < 0) {
    return refuse(Code::NotDealt,
                  "its name has no expert number, so its rank is unknown");
  }
  placement.dealt = dealt_over(tensor, how.mesh, axes.front());
}

// `labels` are the logical axes that decide the parameter; null if something
// else does.
Placement place(size_t parameter, int rule, const AxisLabels* labels,
                const Placing& how) {
  const std::string_view name = how.manifest.name(parameter);
  const TensorType& type = how.manifest.type(parameter);
  const ExpertTensor tensor =
      how.experts.empty() ? ExpertTensor() : how.experts[parameter];
  const bool small = is_small(type.shape, how.options);
  Placement placement;
  placement.type = type;
  placement.rule = rule;
  std::string view;  // in the form that correct() expects
  AxisNames deal;
  if (rule > 0) {
    const Rule& of = nth(how.rules.rules, rule - 1);
    placement.requested = of.spec;
    view = of.view;
    if (of.from_last || !how.names.is_literal(of.spec)) {
      const size_t rank = type.shape.size();
      std::string of_names = store_meaning(
          how.names.of(of.from_last ? aligned_to_last(of, rank) : of.spec, rank,
                       mode_of(of, type.shape), of.view),
          placement);
      if (view.empty()) view = std::move(of_names);
    }
    if (!of.deal.empty()) {
      deal.push_back(of.deal);
      if (!small) deal_out(of, tensor, how, placement);
    }
  } else if (labels != nullptr) {
    const LogicalRule* const dealer =
        tensor.expert >= 0 ? how.names.dealer() : nullptr;
    placement.requested = spec_of_labels(*labels);
    view = store_meaning(how.names.of_labels(*labels, small ? nullptr : dealer),
                         placement);
    if (dealer != nullptr) {
      deal = dealer->axes;
      if (!small && how.mesh.find(deal.front())) {
        placement.dealt = dealt_over(tensor, how.mesh, deal.front());
      }
    }
  }
  PartitionSpec asked;
  if (placement.requested) {
    asked = placement.requested_spec();
  } else if (how.options.auto_unmatched) {
    asked = auto_spec(type.shape, how.mesh,
                      {.min_size = std::max<int64_t>(0, how.options.min_size)});
  }
  if (!placement.requested || !small) {
    correct_as_stored(name, asked, view, how, placement);
    return placement;
  }
  if (names_no_axis(asked)) asked.dims = {deal};
  for (size_t dim = 0; dim < asked.dims.size(); ++dim) {
    if (asked.dims[dim].empty()) continue;
    placement.corrections.push_back(
        {static_cast<int>(dim), Code::SmallParameter, asked.dims[dim],
         plural(type.elements(), "element") +
             (type.elements() == 1 ? " is" : " are") + " fewer than " +
             std::to_string(how.options.min_size)});
  }
  placement.stored_dims = stored_dims(name, type, {}, how.mesh,
                                      how.options.declarations, how.known);
  return placement;
}

// Assigns placements. Parameters of equal type and equal rule, or equal logical
// axes, share one placement. With declarations it also depends on names, but
// not on the numbers in them; the parameter's class, of a folding by type, then
// covers both.
struct Placer {
  // Labels are compared by value; the pointers refer to the manifest.
  using LabelledKey = std::pair<uint64_t, const AxisLabels*>;
  struct ByLabels {
    bool operator()(const LabelledKey& a, const LabelledKey& b) const {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    }
  };
  // Whether a parameter is placed whole, among how many experts, and on which
  // rank if these are not alike.
  using DealtKey = std::tuple<bool, int64_t, int64_t>;

  const Placing& how;
  const Folding* classes;  // null if nothing is declared
  Plan& plan;
  std::unordered_map<uint64_t, std::optional<uint32_t>> by_rule = {};
  std::map<LabelledKey, std::optional<uint32_t>, ByLabels> by_labels = {};
  std::map<std::tuple<uint32_t, int, std::vector<StoredDim>,
                      std::optional<AxisLabels>, DealtKey>,
           uint32_t>
      distinct = {};

  // Returns the number of the parameter's placement in the plan; no value if
  // its bytes as declared do not fit 63 bits.
  std::optional<uint32_t> number_of(size_t parameter, int rule) {
    const uint32_t kind = classes != nullptr
                              ? classes->class_of[parameter]
                              : how.manifest.type_number(parameter);
    const uint64_t key = (uint64_t{kind} << 32U) | static_cast<uint32_t>(rule);
    const AxisLabels* const labels = deciding_labels(parameter, rule);
    if (deals(parameter, rule, labels != nullptr)) {
      return placed(parameter, rule, labels);
    }
    std::optional<uint32_t>& number =
        labels == nullptr ? by_rule[key] : by_labels[{key, labels}];
    if (!number) number = placed(parameter, rule, labels);
    return number;
  }

  // Returns the logical axes that decide a parameter; null if something else
  // does.
  const AxisLabels* deciding_labels(size_t parameter, int rule) const {
    const bool is_scalar = how.manifest.type(parameter).shape.empty();
    if (rule > 0 || how.rules.logical_rules.empty() ||
        (is_scalar && how.options.strict)) {
      return nullptr;
    }
    return how.manifest.axes(parameter);
  }

  // Returns whether the parameter may be placed whole on a rank, so that its
  // placement differs from expert to expert.
  bool deals(size_t parameter, int rule, bool has_labels) const {
    if (rule > 0) return !nth(how.rules.rules, rule - 1).deal.empty();
    return has_labels && !how.experts.empty() &&
           how.experts[parameter].expert >= 0 && how.names.dealer() != nullptr;
  }

  // Returns the placement of the first parameter of a kind. Kinds that differ
  // only in names share a placement.
  std::optional<uint32_t> placed(size_t parameter, int rule,
                                 const AxisLabels* labels) {
    Placement placement = place(parameter, rule, labels, how);
    const auto elements = element_count(stored_shape(placement));
    if (!elements || !byte_count(*elements, placement.type.dtype)) {
      return std::nullopt;
    }
    const auto& dealt = placement.dealt;
    const auto next = static_cast<uint32_t>(plan.placements.size());
    const auto [entry, is_new] = distinct.try_emplace(
        {how.manifest.type_number(parameter), rule, placement.stored_dims,
         labels == nullptr ? std::nullopt : std::optional(*labels),
         dealt ? DealtKey(true, dealt->experts, dealt->rank) : DealtKey()},
        next);
    if (is_new) {
      measure(placement, how.mesh, how.options.on_indivisible);
      plan.placements.push_back(std::move(placement));
    }
    return entry->second;
  }
};

// Returns the rules as eFormer reads them: a semantic name is a semantic axis
// even if the mesh has an axis of that name. The strings of a
// `PartitionSpec(...)` are not semantic axes in eFormer.
RuleSet as_eformer(const RuleSet& rules) {
  RuleSet result = rules;
  for (Rule& rule : result.rules) {
    if (rule.spec_where && contains(rule.spec_where.text(), '(')) continue;
    for (AxisNames& axes : rule.spec.dims) {
      for (AxisName& name : axes) {
        const auto field = find_semantic_token(name, true);
        if (field) name = partition_fields()[*field].token;
      }
    }
  }
  return result;
}

// Declares the axes of the mesh that the rules mention outside their specs
// (activations, PartitionAxis, logical rules), so that a saved plan records
// them.
void declare_mentioned(const Vocabulary& names, Plan& plan) {
  const AxisNames mentioned = names.mentioned();
  const AxisNames in_specs = axes_in_specs(plan);
  for (const Axis& axis : plan.mesh.all_axes()) {
    if (axis.size > 1 && contains(mentioned, axis.name) &&
        !contains(in_specs, axis.name) &&
        !contains(plan.declared_axes, axis.name)) {
      plan.declared_axes.push_back(axis.name);
    }
  }
}

bool is_small_on(const Placement& placement) {
  return std::ranges::count(placement.corrections, Code::SmallParameter,
                            &Correction::code) > 0;
}

// Returns one rule per placement of the plan, with its requested spec.
RuleSet rules_of(const Plan& saved, const Mesh& mesh,
                 const AxisNames& declared) {
  RuleSet rules;
  rules.declared_axes = saved.declared_axes;
  rules.run_as = saved.run_as;
  rules.hook_axis = saved.hook_axis;
  for (const AxisName& axis : declared) {
    if (!contains(rules.declared_axes, axis)) {
      rules.declared_axes.push_back(axis);
    }
  }
  for (const Placement& placement : saved.placements) {
    Rule& rule = rules.rules.emplace_back();
    if (placement.requested && !is_small_on(placement)) {
      rule.spec = placement.requested_spec();
    }
    if (const auto view = requested_view(saved, placement);
        mesh.has_view(view)) {
      rule.view = view;
    }
    if (placement.rule > 0) {
      rule.deal = nth(saved.rules, placement.rule - 1).deal;
    } else if (placement.dealt) {
      rule.deal = placement.dealt->axis;
    }
  }
  return rules;
}

// Returns matches in which the rule of each parameter's placement decides it. A
// parameter without a requested spec was unmatched, or a scalar, and remains
// so.
Matches matches_of(const Plan& saved) {
  Matches matches;
  matches.rules.resize(saved.placements.size());
  matches.winner.reserve(saved.placement_of.size());
  for (const uint32_t number : saved.placement_of) {
    const bool asked = saved.placements[number].requested.has_value();
    matches.winner.push_back(asked ? static_cast<int32_t>(number) : -1);
  }
  return matches;
}

}  // namespace

std::vector<StoredDim> stored_dims(std::string_view name,
                                   const TensorType& type,
                                   const PartitionSpec& spec, const Mesh& mesh,
                                   const Declarations& declared,
                                   const UnitFacts& known) {
  std::vector<StoredDim> result;
  if (!declared.any()) return result;
  if (auto vocab = stored_vocab(name, type, spec, mesh, declared, known)) {
    result.push_back(*std::move(vocab));
  }
  for (const Unit& unit : units_of(name, type, known.facts, known.hints)) {
    const size_t dim = to_size(unit.dim);
    const int64_t shards =
        shard_count(mesh, cutting_axes(unit, axes_of(spec, dim)));
    StoredSize stored = stored_size(unit, type.shape[dim], shards, declared);
    if (stored.why.empty()) continue;
    result.push_back({unit.dim, stored.size, std::move(stored.why)});
  }
  std::ranges::sort(result);
  return result;
}

AxisNames axes_in_specs(const Plan& plan) {
  AxisNames names;
  // These are not axes: semantic and logical names, and None beside an axis.
  std::set<AxisName> known = {plan.other_names.begin(), plan.other_names.end()};
  known.insert({"", std::string(kUnconstrained)});
  const auto add = [&](const PartitionSpec& spec) {
    for (const AxisName& axis : axes_in(spec)) {
      const PrefixedName parts = split_prefix(axis);
      if (parts.prefix == "logical") continue;
      if (known.emplace(parts.name).second) names.emplace_back(parts.name);
    }
  };
  for (const PlanRule& rule : plan.rules) {
    add(rule.spec);
    if (!rule.deal.empty()) add({{{rule.deal}}});
  }
  for (const Placement& placement : plan.placements) {
    if (placement.requested) add(placement.requested_spec());
    if (placement.dealt) add({{{placement.dealt->axis}}});
  }
  return names;
}

std::optional<FoundSets> find_rules(const Manifest& manifest,
                                    const RuleSet& rules,
                                    const ResolveOptions& options,
                                    Diagnostics& diags) {
  const std::optional<Matcher> matcher =
      Matcher::compile(rules, manifest.names_are_plain(), diags);
  if (!matcher) return std::nullopt;
  // Nothing is matched against these yet, but errors in them are reported.
  if (!rules.activations.empty() && !compile_activations(rules, diags)) {
    return std::nullopt;
  }
  auto found = matcher->find_sets(manifest, options.jobs);
  if (found) {
    for (std::vector<int>& set : found->sets) {
      std::erase_if(set,
                    [&](int rule) { return nth(rules.rules, rule).inactive; });
    }
    return found;
  }
  return diags
      .error(Code::UnsupportedPattern, rules.rules.front().where,
             "matching these rules against the names takes too long")
      .fact(plural(std::ssize(rules.rules), "rule") + " for " +
            plural(std::ssize(manifest), "name"))
      .help(
          "use fewer rules, or patterns without large repetition counts "
          "after `.*` or similar");
}

Matches matches_of(const FoundSets& found, const Manifest& manifest,
                   const RuleSet& rules, const ResolveOptions& options) {
  Matches matches = matches_of(found, rules.rules.size(), [&](size_t i) {
    return !options.strict || !manifest.type(i).shape.empty();
  });
  if (deals_experts(rules)) {
    matches.experts = expert_tensors(manifest, found.of);
  }
  return matches;
}

std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Mesh& mesh, const ResolveOptions& options,
                            Diagnostics& diags) {
  const auto found = find_rules(manifest, rules, options, diags);
  if (!found) return std::nullopt;
  return resolve(manifest, rules, matches_of(*found, manifest, rules, options),
                 mesh, options, diags);
}

std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options, Diagnostics& diags,
                            const UnitFacts* known) {
  const bool declares = options.declarations.any();
  const Folding folding = declares ? fold_by_type(manifest) : Folding();
  UnitFacts own;
  if (declares && known == nullptr) own = unit_facts(manifest, folding);
  const RuleSet changed = options.parity ? as_eformer(rules) : RuleSet();
  const RuleSet& read = options.parity ? changed : rules;
  Plan plan{.mesh = mesh,
            .on_indivisible = options.on_indivisible,
            .strict = options.strict,
            .declared_axes = rules.declared_axes,
            .rules = {},
            .placements = {},
            .placement_of = {},
            .declarations = options.declarations,
            .run_as = rules.run_as,
            .hook_axis = rules.hook_axis};
  if (options.parity) {
    erase_if(plan.declared_axes,
             [&](const AxisName& axis) { return !mesh.find(axis); });
  }
  for (size_t i = 0; i < read.rules.size(); ++i) {
    plan.rules.push_back(plan_rule(read.rules[i], matches.rules[i]));
  }
  const Vocabulary names(read, mesh, options.names);
  plan.other_names = names.others();
  const Placing how{.manifest = manifest,
                    .rules = read,
                    .declared_axes = plan.declared_axes,
                    .mesh = mesh,
                    .options = options,
                    .known = known == nullptr ? own : *known,
                    .names = names,
                    .experts = matches.experts};
  Placer placer{how, declares ? &folding : nullptr, plan};
  plan.placement_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto number = placer.number_of(i, matches.winner[i] + 1);
    if (!number) {
      return diags.error(Code::InvalidMesh, manifest.where(i),
                         in_backticks(manifest.name(i)) +
                             " exceeds 2^63 bytes as stored by `--declare`");
    }
    plan.placement_of.push_back(*number);
  }
  declare_mentioned(names, plan);
  return plan;
}

std::optional<Plan> convert_plan(const Manifest& manifest, const Plan& saved,
                                 const Mesh& mesh,
                                 const ConvertOptions& options,
                                 Diagnostics& diags) {
  ResolveOptions how;
  how.on_indivisible = saved.on_indivisible;
  how.strict = saved.strict;
  how.declarations = saved.declarations;
  how.auto_unmatched = options.auto_unmatched;
  how.parity = options.parity;
  const RuleSet rules = rules_of(saved, mesh, options.declared_axes);
  Matches matches = matches_of(saved);
  if (!options.experts.empty()) {
    matches.experts.assign(options.experts.begin(), options.experts.end());
  } else if (deals_experts(rules)) {
    matches.experts = expert_tensors(manifest, saved.placement_of);
  }
  auto plan = resolve(manifest, rules, matches, mesh, how, diags);
  if (!plan) return std::nullopt;
  for (Placement& placement : plan->placements) {
    if (placement.rule == 0) continue;
    const Placement& before = nth(saved.placements, placement.rule - 1);
    placement.rule = before.rule;
    placement.requested = before.requested;
    placement.resolved = before.resolved;
    placement.logical_rules = before.logical_rules;
    if (is_small_on(before)) {
      placement.corrections = before.corrections;
    } else {
      // Logical axes without a place are lost on any mesh.
      std::vector<Correction>& all = placement.corrections;
      std::ranges::copy_if(before.corrections, std::inserter(all, all.begin()),
                           is_unplaced_label);
    }
  }
  plan->rules = saved.rules;
  plan->other_names = saved.other_names;
  return plan;
}

}  // namespace shardplan
