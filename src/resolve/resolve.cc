// SPDX-License-Identifier: Apache-2.0
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
    const auto dim = static_cast<size_t>(unit.dim);
    const int64_t shards =
        shard_count(mesh, cutting_axes(unit, axes_of(spec, dim)));
    StoredSize stored = stored_size(unit, type.shape[dim], shards, declared);
    if (stored.why.empty()) continue;
    result.push_back({unit.dim, stored.size, std::move(stored.why)});
  }
  std::ranges::sort(result);
  return result;
}

namespace {

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
  if (use.decided == 0) {
    for (const int winner : use.winners) {
      result.shadowed_by.push_back(winner + 1);
    }
  }
  return result;
}

// The inputs of placing a parameter.
struct Placing {
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
  const bool decodes =
      dim >= 0 && dim < rank && shape[static_cast<size_t>(dim)] == 1;
  return decodes ? Mode::Decode : Mode::Train;
}

// Fills the requested spec and its meaning, for a parameter that a rule or its
// logical axes decide. Returns the view that the spec is for, in the form that
// correct() expects.
std::string ask(const Rule* rule, const AxisLabels* labels,
                const LogicalRule* dealt_by, const Placing& how,
                Placement& placement) {
  const size_t rank = placement.type.shape.size();
  ResolvedNames names_meant;
  if (rule != nullptr) {
    placement.requested = rule->spec;
    if (!rule->from_last && how.names.is_literal(rule->spec)) return rule->view;
    names_meant = how.names.of(
        rule->from_last ? aligned_to_last(*rule, rank) : rule->spec, rank,
        mode_of(*rule, placement.type.shape), rule->view);
    if (!rule->view.empty()) names_meant.view = rule->view;
  } else {
    placement.requested = spec_of_labels(*labels);
    names_meant = how.names.of_labels(*labels, dealt_by);
  }
  placement.resolved = std::move(names_meant.spec);
  placement.logical_rules = std::move(names_meant.logical_rules);
  placement.corrections = std::move(names_meant.corrections);
  return std::move(names_meant.view);
}

// Fills the spec, its corrections and the stored dimensions. The stored size of
// a dimension depends on the axes that shard it, and the axes that remain after
// correction depend on the stored size, so both are computed in turn. If they
// do not settle, nothing is stored as declared, and findings report the units
// that this splits (SP206).
void correct_as_stored(std::string_view name, const PartitionSpec& asked,
                       std::string_view view, const Placing& how,
                       Placement& placement) {
  AxisNames taken;
  if (placement.dealt) taken.push_back(placement.dealt->axis);
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
  std::move(result.corrections.begin(), result.corrections.end(),
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
    const bool is_of_view = rule.view.empty() || how.mesh.has(rule.view, axis);
    if (how.mesh.find(axis) && is_of_view) continue;
    if (how.mesh.find(axis)) {
      return refuse(Code::MixedViews, "axis `" + axis + "` is not in view `" +
                                          rule.view +
                                          "`, the view of the rule");
    }
    if (contains(how.declared_axes, axis)) return;
    return refuse(Code::UnknownAxis, "axis `" + axis + "` is unknown");
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

Placement place(std::string_view name, const TensorType& type, int rule,
                const AxisLabels* labels, const ExpertTensor& tensor,
                const Placing& how) {
  Placement placement;
  placement.type = type;
  placement.rule = rule;
  const bool small = is_small(type.shape, how.options);
  std::string view;
  AxisNames deal;
  if (rule > 0) {
    const Rule& of = how.rules.rules[static_cast<size_t>(rule) - 1];
    view = ask(&of, nullptr, nullptr, how, placement);
    if (!of.deal.empty()) deal.push_back(of.deal);
    if (!of.deal.empty() && !small) deal_out(of, tensor, how, placement);
  } else if (labels != nullptr) {
    const LogicalRule* const dealer =
        tensor.expert >= 0 ? how.names.dealer() : nullptr;
    view = ask(nullptr, labels, small ? nullptr : dealer, how, placement);
    if (dealer != nullptr) deal = dealer->axes;
    if (dealer != nullptr && !small && how.mesh.find(deal.front())) {
      placement.dealt = dealt_over(tensor, how.mesh, deal.front());
    }
  }
  PartitionSpec asked;
  if (placement.requested) {
    asked = placement.requested_spec();
  } else if (how.options.auto_unmatched) {
    AutoSpecOptions by_size;
    by_size.min_size = std::max<int64_t>(0, how.options.min_size);
    asked = auto_spec(type.shape, how.mesh, by_size);
  }
  if (placement.requested && small) {
    const auto lose = [&](size_t dim, const AxisNames& axes) {
      if (axes.empty()) return;
      placement.corrections.push_back(
          {static_cast<int>(dim), Code::SmallParameter, axes,
           plural(type.elements(), "element") +
               (type.elements() == 1 ? " is" : " are") + " fewer than " +
               std::to_string(how.options.min_size)});
    };
    for (size_t dim = 0; dim < asked.dims.size(); ++dim) {
      lose(dim, asked.dims[dim]);
    }
    if (names_no_axis(asked)) lose(0, deal);
    asked.dims.clear();
    placement.stored_dims = stored_dims(name, type, asked, how.mesh,
                                        how.options.declarations, how.known);
  } else {
    correct_as_stored(name, asked, view, how, placement);
  }
  return placement;
}

bool fits(const Placement& placement) {
  const auto elements = element_count(stored_shape(placement));
  return elements && byte_count(*elements, placement.type.dtype);
}

// Returns the logical axes that decide a parameter; null if something else
// does.
const AxisLabels* deciding_labels(const Manifest& manifest, size_t parameter,
                                  int rule, const Placing& how) {
  const bool is_scalar = manifest.type(parameter).shape.empty();
  if (rule > 0 || how.rules.logical_rules.empty() ||
      (is_scalar && how.options.strict)) {
    return nullptr;
  }
  return manifest.axes(parameter);
}

// Assigns placements. Parameters of equal type and equal rule, or equal logical
// axes, share one placement. With declarations it also depends on names, but
// not on the numbers in them; the parameter's class, of a folding by type, then
// covers both.
class Placer {
 public:
  // `classes` is null if nothing is declared.
  Placer(const Placing& how, const Folding* classes)
      : how_(how), classes_(classes) {}

  // Returns the number of the parameter's placement in the plan; no value if
  // its bytes as declared do not fit 63 bits.
  std::optional<uint32_t> number_of(const Manifest& manifest, size_t parameter,
                                    int rule, Plan& plan) {
    const uint32_t kind = classes_ != nullptr ? classes_->class_of[parameter]
                                              : manifest.type_number(parameter);
    const uint64_t key = (uint64_t{kind} << 32U) | static_cast<uint32_t>(rule);
    const AxisLabels* labels = deciding_labels(manifest, parameter, rule, how_);
    if (deals(parameter, rule, labels != nullptr)) {
      return placed(manifest, parameter, rule, labels, plan);
    }
    if (labels == nullptr) {
      const auto known = known_.find(key);
      if (known != known_.end()) return known->second;
    } else {
      const auto known = labelled_.find({key, labels});
      if (known != labelled_.end()) return known->second;
    }
    const auto number = placed(manifest, parameter, rule, labels, plan);
    if (!number) return std::nullopt;
    if (labels == nullptr) {
      known_.emplace(key, *number);
    } else {
      labelled_.emplace(std::pair(key, labels), *number);
    }
    return number;
  }

 private:
  // Returns whether the parameter may be placed whole on a rank, so that its
  // placement differs from expert to expert.
  bool deals(size_t parameter, int rule, bool by_labels) const {
    if (rule > 0) {
      return !how_.rules.rules[static_cast<size_t>(rule) - 1].deal.empty();
    }
    return by_labels && !how_.experts.empty() &&
           how_.experts[parameter].expert >= 0 &&
           how_.names.dealer() != nullptr;
  }
  // The rest of the key of a placement: whether it is placed whole, among how
  // many experts, and on which rank if these are not alike.
  using DealtKey = std::tuple<bool, int64_t, int64_t>;

  // Labels are compared by value; the pointers refer to the manifest.
  using LabelledKey = std::pair<uint64_t, const AxisLabels*>;
  struct ByLabels {
    bool operator()(const LabelledKey& a, const LabelledKey& b) const {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    }
  };

  // Returns the placement of the first parameter of a kind. Kinds that differ
  // only in names share a placement.
  std::optional<uint32_t> placed(const Manifest& manifest, size_t parameter,
                                 int rule, const AxisLabels* labels,
                                 Plan& plan) {
    static const ExpertTensor kNone;
    const ExpertTensor& expert =
        how_.experts.empty() ? kNone : how_.experts[parameter];
    Placement placement =
        place(manifest.name(parameter), manifest.type(parameter), rule, labels,
              expert, how_);
    if (!fits(placement)) return std::nullopt;
    const auto& dealt = placement.dealt;
    const auto next = static_cast<uint32_t>(plan.placements.size());
    const auto [entry, is_new] = distinct_.try_emplace(
        {manifest.type_number(parameter), rule, placement.stored_dims,
         labels == nullptr ? std::nullopt : std::optional(*labels),
         dealt ? DealtKey(true, dealt->experts, dealt->rank) : DealtKey()},
        next);
    if (is_new) {
      measure(placement, how_.mesh, how_.options.on_indivisible);
      plan.placements.push_back(std::move(placement));
    }
    return entry->second;
  }

  const Placing& how_;
  const Folding* classes_;
  std::unordered_map<uint64_t, uint32_t> known_;
  std::map<LabelledKey, uint32_t, ByLabels> labelled_;
  std::map<std::tuple<uint32_t, int, std::vector<StoredDim>,
                      std::optional<AxisLabels>, DealtKey>,
           uint32_t>
      distinct_;
};

}  // namespace

AxisNames axes_in_specs(const Plan& plan) {
  AxisNames names;
  // These are not axes: semantic and logical names, and None beside an axis.
  std::set<AxisName> known = {plan.other_names.begin(), plan.other_names.end()};
  known.insert({"", std::string(kUnconstrained)});
  const auto add = [&](const PartitionSpec& spec) {
    for (const AxisNames& axes : spec.dims) {
      for (const AxisName& axis : axes) {
        const PrefixedName parts = split_prefix(axis);
        if (parts.prefix == "logical") continue;
        if (known.emplace(parts.name).second) names.emplace_back(parts.name);
      }
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

// Reports errors in patterns that nothing is matched against yet.
static bool activations_compile(const RuleSet& rules, Diagnostics& diags) {
  return rules.activations.empty() ||
         compile_activations(rules, diags).has_value();
}

std::optional<FoundSets> find_rules(const Manifest& manifest,
                                    const RuleSet& rules,
                                    const ResolveOptions& options,
                                    Diagnostics& diags) {
  const std::optional<Matcher> matcher =
      Matcher::compile(rules, manifest.names_are_plain(), diags);
  if (!matcher || !activations_compile(rules, diags)) return std::nullopt;
  auto found = matcher->find_sets(manifest, options.jobs);
  if (found) {
    for (std::vector<int>& set : found->sets) {
      std::erase_if(set, [&](int rule) {
        return rules.rules[static_cast<size_t>(rule)].inactive;
      });
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

std::optional<Matches> match_rules(const Manifest& manifest,
                                   const RuleSet& rules,
                                   const ResolveOptions& options,
                                   Diagnostics& diags) {
  const auto found = find_rules(manifest, rules, options, diags);
  if (!found) return std::nullopt;
  return matches_of(*found, manifest, rules, options);
}

// Returns the declared axes that a spec may name on this mesh.
static AxisNames known_axes(const RuleSet& rules, const Mesh& mesh,
                            const ResolveOptions& options) {
  AxisNames axes = rules.declared_axes;
  if (options.parity) {
    erase_if(axes, [&](const AxisName& axis) { return !mesh.find(axis); });
  }
  return axes;
}

// Returns the rules as eFormer reads them: a semantic name is a semantic axis
// even if the mesh has an axis of that name. The strings of a
// `PartitionSpec(...)` are not semantic axes in eFormer.
static RuleSet as_eformer(const RuleSet& rules) {
  RuleSet result = rules;
  for (Rule& rule : result.rules) {
    const bool is_call =
        rule.spec_where && contains(rule.spec_where.text(), '(');
    if (is_call) continue;
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
static void declare_mentioned(const Vocabulary& names, Plan& plan) {
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

// `folding` is by type if anything is declared, else empty.
static std::optional<Plan> plan_by(const Manifest& manifest,
                                   const RuleSet& rules, const Matches& matches,
                                   const Mesh& mesh,
                                   const ResolveOptions& options,
                                   const UnitFacts& known,
                                   const Folding& folding, Diagnostics& diags) {
  Plan plan{mesh,
            options.on_indivisible,
            options.strict,
            known_axes(rules, mesh, options),
            {},
            {},
            {}};
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    plan.rules.push_back(plan_rule(rules.rules[i], matches.rules[i]));
  }
  plan.declarations = options.declarations;
  plan.run_as = rules.run_as;
  plan.hook_axis = rules.hook_axis;
  const Vocabulary names(rules, mesh, options.names);
  plan.other_names = names.others();
  const AxisNames declared_axes = plan.declared_axes;
  const Placing how{rules, declared_axes, mesh,           options,
                    known, names,         matches.experts};
  Placer placer(how, options.declarations.any() ? &folding : nullptr);
  plan.placement_of.reserve(manifest.size());
  for (size_t i = 0; i < manifest.size(); ++i) {
    const auto number =
        placer.number_of(manifest, i, matches.winner[i] + 1, plan);
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

static std::optional<Plan> plan_of(const Manifest& manifest,
                                   const RuleSet& written,
                                   const Matches& matches, const Mesh& mesh,
                                   const ResolveOptions& options,
                                   const UnitFacts& known,
                                   const Folding& folding, Diagnostics& diags) {
  const RuleSet rules = options.parity ? as_eformer(written) : RuleSet();
  return plan_by(manifest, options.parity ? rules : written, matches, mesh,
                 options, known, folding, diags);
}

std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Mesh& mesh, const ResolveOptions& options,
                            Diagnostics& diags) {
  const auto matches = match_rules(manifest, rules, options, diags);
  if (!matches) return std::nullopt;
  return resolve(manifest, rules, *matches, mesh, options, diags);
}

std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options, Diagnostics& diags) {
  UnitFacts known;
  Folding folding;  // by type, if names matter
  if (options.declarations.any()) {
    folding = fold_by_type(manifest);
    known = unit_facts(manifest, folding);
  }
  return plan_of(manifest, rules, matches, mesh, options, known, folding,
                 diags);
}

std::optional<Plan> resolve(const Manifest& manifest, const RuleSet& rules,
                            const Matches& matches, const Mesh& mesh,
                            const ResolveOptions& options,
                            const UnitFacts& known, Diagnostics& diags) {
  Folding folding;
  if (options.declarations.any()) folding = fold_by_type(manifest);
  return plan_of(manifest, rules, matches, mesh, options, known, folding,
                 diags);
}

namespace {

bool is_small_on(const Placement& placement) {
  return std::ranges::any_of(placement.corrections, [](const Correction& c) {
    return c.code == Code::SmallParameter;
  });
}

// Returns one rule per placement of the plan, with its requested spec.
RuleSet rules_of(const Plan& saved, const Mesh& mesh,
                 const AxisNames& declared) {
  RuleSet rules;
  rules.declared_axes = saved.declared_axes;
  rules.run_as = saved.run_as;
  rules.hook_axis = saved.hook_axis;
  for (const AxisName& axis : declared) {
    AxisNames& known = rules.declared_axes;
    if (!contains(known, axis)) known.push_back(axis);
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
      const auto by = static_cast<size_t>(placement.rule) - 1;
      rule.deal = saved.rules[by].deal;
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

// Copies corrections for unplaced logical axes; these are lost on any mesh.
void keep_lost_names(const Placement& before, Placement& placement) {
  std::vector<Correction> lost;
  for (const Correction& correction : before.corrections) {
    if (correction.code == Code::UnplacedLogicalAxis ||
        correction.code == Code::RepeatedLogicalAxis) {
      lost.push_back(correction);
    }
  }
  placement.corrections.insert(placement.corrections.begin(), lost.begin(),
                               lost.end());
}

}  // namespace

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
    const Placement& before =
        saved.placements[static_cast<size_t>(placement.rule) - 1];
    placement.rule = before.rule;
    placement.requested = before.requested;
    placement.resolved = before.resolved;
    placement.logical_rules = before.logical_rules;
    if (is_small_on(before)) {
      placement.corrections = before.corrections;
    } else {
      keep_lost_names(before, placement);
    }
  }
  plan->rules = saved.rules;
  plan->other_names = saved.other_names;
  return plan;
}

}  // namespace shardplan
