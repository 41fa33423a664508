// SPDX-License-Identifier: Apache-2.0
// Reads saved plans. The reader trusts nothing that it can compute: it checks
// specs against shapes and the mesh, and recomputes sizes.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/words.h"
#include "core/facts.h"
#include "core/views.h"
#include "io/plan/plan_file.h"
#include "io/plan/plan_values.h"
#include "model/tensor_name.h"

namespace shardplan {

namespace {

using Token = JsonReader::Token;

// Keys may be in any order (tools sort them), so a first pass finds the values,
// which are then read in the order of their dependencies.
class PlanReader {
 public:
  PlanReader(SourcePtr source, Diagnostics& diags)
      : source_(std::move(source)), diags_(diags) {}

  std::optional<SavedPlan> read();

 private:
  bool find_sections();
  bool check_schema();
  // Runs `read_value` on the value of a key.
  template <typename Read>
  bool section(std::string_view key, Read read_value);
  template <typename Read>
  bool required(std::string_view key, Read read_value);

  bool read_facts(JsonReader& json);
  bool read_state(JsonReader& json);
  bool read_cached(JsonReader& json, CachedTensor& cached);
  bool read_axis(JsonReader& json, std::vector<AxisRequest>& axes);
  bool read_mesh(JsonReader& json);
  bool read_view(JsonReader& json);
  bool read_policy(JsonReader& json);
  bool read_run_as(JsonReader& json);
  bool read_placement(JsonReader& json);
  bool read_placement_key(JsonReader& json, const std::string& key,
                          Placement& placement);
  bool check_placement(JsonReader& json, Span where,
                       const Placement& placement);
  bool check_stored(JsonReader& json, Span where, const Placement& placement);
  std::string illegal(const Placement& placement) const;
  std::string illegal_deal(const Placement& placement) const;
  bool read_parameter(JsonReader& json);
  bool check_dealt();
  bool check_rules();
  bool check_names();

  SourcePtr source_;
  Diagnostics& diags_;
  std::map<std::string, Span, std::less<>> sections_;
  SavedPlan saved_{
      Manifest(),
      // read_mesh() replaces this mesh before anything is placed on it.
      {Mesh({{"none", 1}}), OnIndivisible::Drop, true, {}, {}, {}, {}}};
  Plan& plan_ = saved_.plan;
  Manifest& manifest_ = saved_.manifest;
};

bool PlanReader::find_sections() {
  JsonReader json(*source_, diags_);
  return json.advance() &&
         json.map("a saved plan",
                  [&](const std::string& key, Span where) {
                    Span value;
                    if (!json.skip(value)) return false;
                    if (sections_.emplace(key, value).second) return true;
                    diags_.error(Code::DuplicateKey, where,
                                 "`" + key + "` is given twice");
                    return false;
                  }) &&
         json.finish();
}

template <typename Read>
bool PlanReader::section(std::string_view key, Read read_value) {
  const auto found = sections_.find(key);
  if (found == sections_.end()) return true;
  JsonReader json(*source_, diags_, found->second.begin, found->second.end);
  return json.advance() && read_value(json);
}

template <typename Read>
bool PlanReader::required(std::string_view key, Read read_value) {
  if (sections_.contains(key)) return section(key, read_value);
  diags_.error(Code::MalformedDocument, {source_.get(), 0, 0},
               "the saved plan has no `" + std::string(key) + "`");
  return false;
}

bool PlanReader::check_schema() {
  return required("schema", [&](JsonReader& json) {
    std::string schema;
    if (!json.string("`schema`", schema)) return false;
    if (schema == kPlanSchema) return true;
    auto report = diags_.error(
        Code::MalformedDocument, json.span(),
        schema.starts_with(kPlanFamily)
            ? "this version does not read plan schema `" + schema + "`"
            : "`" + schema + "` is not a saved-plan schema");
    report.fact("this version reads `" + std::string(kPlanSchema) + "`");
    return false;
  });
}

bool PlanReader::read_facts(JsonReader& json) {
  Facts& facts = manifest_.facts;
  return json.map("`facts`", [&](const std::string& key, Span) {
    if (key == "from") {
      std::string from;
      if (!json.string("`from`", from)) return false;
      const auto* const found = std::ranges::find(kFactsFromNames, from);
      if (found == kFactsFromNames.end()) {
        return json.malformed(json.span(), "`from` cannot be `" + from + "`");
      }
      facts.from = static_cast<FactsFrom>(found - kFactsFromNames.begin());
      return true;
    }
    for (const FactField& fact : kFactFields) {
      if (fact.name != key) continue;
      int64_t value = 0;
      if (!json.size("`" + key + "`", value)) return false;
      facts.*fact.member = value;
      return true;
    }
    if (key == "state") return read_state(json);
    if (key != "windows") return json.skip();
    return json.list("`windows`", [&] {
      const Span where = json.span();
      int64_t& window = facts.windows.emplace_back();
      return json.integer("a window", window) &&
             (window >= kUnknownWindow ||
              json.malformed(where, "a window cannot be negative"));
    });
  });
}

bool PlanReader::read_state(JsonReader& json) {
  LayerStates& state = manifest_.facts.state;
  const Span where = json.span();
  const bool read = json.map("`state`", [&](const std::string& key, Span) {
    if (key == "kinds") {
      return json.list("`kinds`", [&] {
        LayerState& kind = state.kinds.emplace_back();
        kind.known = json.token() != JsonScanner::Token::Null;
        return !kind.known || json.list("a kind of layer", [&] {
          const Span place = json.span();
          return read_cached(json, kind.cached.emplace_back()) &&
                 (kind.cached.size() <= kMaxCachedTensors ||
                  json.malformed(place, "a layer has too many state tensors"));
        });
      });
    }
    if (key != "layers") return json.skip();
    return json.list("`layers`", [&] {
      int64_t kind = 0;
      if (!json.size("a layer's kind", kind)) return false;
      // A number that is clamped here fails the check below.
      state.layers.push_back(
          static_cast<uint32_t>(std::min<int64_t>(kind, UINT32_MAX)));
      return true;
    });
  });
  if (read && state.layers.size() > kMaxStateLayers) {
    return json.malformed(where, "too many layers");
  }
  const bool good = std::ranges::all_of(
      state.layers, [&](uint32_t kind) { return kind < state.kinds.size(); });
  return read && (good || json.malformed(where, "a layer has an unknown kind"));
}

bool PlanReader::read_cached(JsonReader& json, CachedTensor& cached) {
  const Span where = json.span();
  bool good = json.map("a state tensor", [&](const std::string& key, Span) {
    for (const auto& [name, member] :
         {std::pair{"name", &CachedTensor::name},
          std::pair{"label", &CachedTensor::label},
          std::pair{"module", &CachedTensor::module}}) {
      if (key == name) return json.string("`" + key + "`", cached.*member);
    }
    for (const auto& [name, member] :
         {std::pair{"heads", &CachedTensor::heads},
          std::pair{"width", &CachedTensor::width},
          std::pair{"tokens", &CachedTensor::tokens},
          std::pair{"every", &CachedTensor::every}}) {
      if (key == name) return json.size("`" + key + "`", cached.*member);
    }
    std::string text;
    if (key == "dtype") {
      if (!json.string("`dtype`", text)) return false;
      cached.dtype = find_dtype(text);
      return cached.dtype ||
             json.malformed(json.span(), "unknown dtype `" + text + "`");
    }
    if (key != "per") return json.skip();
    if (!json.string("`per`", text)) return false;
    const auto* const per = std::ranges::find(kCachedPerNames, text);
    if (per == kCachedPerNames.end()) {
      return json.malformed(json.span(), "`per` cannot be `" + text + "`");
    }
    cached.per = static_cast<CachedTensor::Per>(per - kCachedPerNames.begin());
    return true;
  });
  constexpr int64_t kMax = int64_t{1} << 40;
  return good &&
         ((cached.width > 0 && cached.heads <= kMax && cached.width <= kMax &&
           cached.tokens <= kMax && cached.every > 0 && cached.every <= kMax) ||
          json.malformed(where, "a state tensor has an invalid size"));
}

bool PlanReader::read_axis(JsonReader& json, std::vector<AxisRequest>& axes) {
  AxisRequest axis;
  axis.where = json.span();
  int index = 0;
  const bool good = json.list("an axis of the mesh", [&] {
    switch (index++) {
      case 0:
        axis.name_where = json.span();
        return read_axis_name(json, "an axis name", axis.name) &&
               (axis.name != kUnconstrained ||
                json.malformed(json.span(), "an axis cannot be named `?`"));
      case 1:
        axis.size_where = json.span();
        return json.size("an axis size", axis.size);
      default:
        return json.malformed(json.span(), "an axis must be a name and a size");
    }
  });
  axis.where.end = json.span().end;
  if (good && index < 2) {
    return json.malformed(axis.where, "an axis must be a name and a size");
  }
  axes.push_back(std::move(axis));
  return good;
}

bool PlanReader::read_mesh(JsonReader& json) {
  std::vector<AxisRequest> axes;
  if (!json.list("`mesh`", [&] { return read_axis(json, axes); })) return false;
  std::optional<Mesh> mesh =
      make_mesh(axes, std::nullopt, sections_.at("mesh"), diags_);
  if (!mesh) return false;
  plan_.mesh = *std::move(mesh);
  return true;
}

bool PlanReader::read_view(JsonReader& json) {
  ViewRequest view;
  view.where = json.span();
  int index = 0;
  const bool good = json.list("a view", [&] {
    switch (index++) {
      case 0:
        view.name_where = json.span();
        return read_view_name(json, view.name);
      case 1:
        return json.list("the axes of a view",
                         [&] { return read_axis(json, view.axes); });
      default:
        return json.malformed(json.span(), "a view must be a name and axes");
    }
  });
  if (!good) return false;
  view.where.end = json.span().end;
  if (index < 2) {
    return json.malformed(view.where, "a view must be a name and axes");
  }
  std::optional<Mesh> mesh = add_view(plan_.mesh, view, diags_);
  if (!mesh) return false;
  plan_.mesh = *std::move(mesh);
  return true;
}

bool PlanReader::read_policy(JsonReader& json) {
  std::string name;
  if (!json.string("`on_indivisible`", name)) return false;
  const std::optional<OnIndivisible> policy = find_policy(name);
  if (!policy) {
    return json.malformed(json.span(), "unknown policy `" + name + "`");
  }
  plan_.on_indivisible = *policy;
  return true;
}

bool PlanReader::read_run_as(JsonReader& json) {
  std::string name;
  if (!json.string("`run_as`", name)) return false;
  if (name != kRunByHooks) {
    return json.malformed(json.span(), "`run_as` must be `hooks` or omitted");
  }
  plan_.run_as = RunAs::Hooks;
  return true;
}

bool PlanReader::read_placement_key(JsonReader& json, const std::string& key,
                                    Placement& placement) {
  if (key == "dtype" || key == "shape") {
    return read_type_key(json, key, placement.type, diags_);
  }
  if (key == "rule") {
    if (json.token() == Token::Null) return true;
    return read_int(json, "`rule`", std::ssize(plan_.rules), placement.rule);
  }
  if (key == "requested") {
    if (json.token() == Token::Null) return true;
    placement.requested.emplace();
    return read_name_spec(json, "`requested`", *placement.requested);
  }
  if (key == "meant") {
    placement.resolved.emplace();
    return read_name_spec(json, "`meant`", *placement.resolved);
  }
  if (key == "spec") return read_spec(json, "`spec`", placement.spec);
  if (key == "view") return read_view_name(json, placement.view);
  if (key == "dealt") return read_dealt(json, placement.dealt.emplace());
  if (key == "stored") {
    return json.list("`stored`", [&] {
      return read_stored_dim(json, placement.stored_dims);
    });
  }
  if (key != "corrections") return json.skip();
  return json.list("`corrections`", [&] {
    return read_correction(json, placement.corrections);
  });
}

bool PlanReader::read_placement(JsonReader& json) {
  Placement placement;
  std::set<std::string> seen;
  Span where = json.span();
  const bool good = json.map("a placement", [&](const std::string& key,
                                                Span place) {
    if (!seen.insert(key).second) {
      diags_.error(Code::DuplicateKey, place, "`" + key + "` is given twice");
      return false;
    }
    return read_placement_key(json, key, placement);
  });
  if (!good) return false;
  where.end = json.span().end;
  for (const char* key : {"dtype", "shape", "spec"}) {
    if (!seen.contains(key)) {
      return json.malformed(where,
                            "a placement has no `" + std::string(key) + "`");
    }
  }
  if (placement.dealt) {
    placement.dealt->size = plan_.mesh.size_of(placement.dealt->axis);
  }
  if (!check_placement(json, where, placement)) return false;
  const std::string view = std::move(placement.view);
  measure(placement, plan_.mesh, plan_.on_indivisible);
  if (view != placement.view) {
    return json.malformed(
        where,
        "spec " + spec_text(placement.spec) + " belongs to " +
            (placement.view.empty() ? std::string("the mesh")
                                    : "view `" + placement.view + "`") +
            ", not to " +
            (view.empty() ? std::string("the mesh") : "view `" + view + "`"));
  }
  plan_.placements.push_back(std::move(placement));
  return true;
}

bool PlanReader::check_placement(JsonReader& json, Span where,
                                 const Placement& placement) {
  const auto elements = element_count(placement.type.shape);
  if (!elements || !byte_count(*elements, placement.type.dtype)) {
    return json.malformed(where,
                          type_text(placement.type) + " exceeds 2^63 bytes");
  }
  for (const Correction& correction : placement.corrections) {
    // The axis over which whole experts are placed is not in the spec.
    const bool deals =
        placement.rule > 0 &&
        !plan_.rules[static_cast<size_t>(placement.rule) - 1].deal.empty();
    if (deals && correction.dim == 0) continue;
    const auto dim = static_cast<size_t>(correction.dim);
    // These codes concern an entry of the spec, which may be beyond the rank.
    const bool is_of_entry = correction.code == Code::SpecLongerThanRank ||
                             correction.code == Code::SmallParameter ||
                             correction.code == Code::UnplacedLogicalAxis ||
                             correction.code == Code::RepeatedLogicalAxis;
    const bool beyond_rank = dim >= placement.type.shape.size() && !is_of_entry;
    const bool was_asked =
        placement.requested &&
        dim < std::max(placement.requested->dims.size(),
                       placement.requested_spec().dims.size());
    if (was_asked && correction.dim >= 0 && !beyond_rank) continue;
    return json.malformed(where, "a correction of dimension " +
                                     std::to_string(correction.dim) +
                                     ", for which no axes were requested");
  }
  if (!check_stored(json, where, placement)) return false;
  std::string reason = illegal(placement);
  if (reason.empty()) reason = illegal_deal(placement);
  return reason.empty() ||
         json.malformed(where, "spec " + spec_text(placement.spec) +
                                   " is invalid for " +
                                   type_text(placement.type) + ": " + reason);
}

// Checks that dimensions stored as declared exist, ascend and only grow.
bool PlanReader::check_stored(JsonReader& json, Span where,
                              const Placement& placement) {
  int after = -1;
  for (const StoredDim& stored : placement.stored_dims) {
    const auto dim = static_cast<size_t>(stored.dim);
    if (stored.dim <= after || dim >= placement.type.shape.size() ||
        stored.size < placement.type.shape[dim]) {
      return json.malformed(where, "dimension " + std::to_string(stored.dim) +
                                       " of " + type_text(placement.type) +
                                       " cannot be stored as " +
                                       std::to_string(stored.size));
    }
    after = stored.dim;
  }
  const auto elements = element_count(stored_shape(placement));
  return (elements && byte_count(*elements, placement.type.dtype)) ||
         json.malformed(where, type_text(placement.type) +
                                   " exceeds 2^63 bytes as stored");
}

// Returns why a final spec is impossible; empty if it is legal.
std::string PlanReader::illegal(const Placement& placement) const {
  const std::vector<AxisNames>& dims = placement.spec.dims;
  const Shape shape = stored_shape(placement);
  if (dims.size() > shape.size()) return "it has more entries than dimensions";
  const bool must_divide = !allows_uneven(plan_.on_indivisible);
  std::set<AxisName> used;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    for (const AxisName& axis : dims[dim]) {
      if (!plan_.mesh.find(axis)) return "the mesh has no axis `" + axis + "`";
      if (!used.insert(axis).second) return "axis `" + axis + "` is used twice";
    }
    if (must_divide && shape[dim] % shard_count(plan_.mesh, dims[dim]) != 0) {
      return std::to_string(shape[dim]) + " is not divisible";
    }
  }
  return "";
}

// Returns why `dealt` is impossible, or that the axes belong to several views.
std::string PlanReader::illegal_deal(const Placement& placement) const {
  AxisNames axes = axes_in(placement.spec);
  if (placement.dealt) {
    const ExpertPlacement& dealt = *placement.dealt;
    if (!plan_.mesh.find(dealt.axis)) {
      return "the mesh has no axis `" + dealt.axis + "`";
    }
    if (contains(axes, dealt.axis)) {
      return "axis `" + dealt.axis + "` is used twice";
    }
    if (dealt.rank >= dealt.size) {
      return "axis `" + dealt.axis + "` has no rank " +
             std::to_string(dealt.rank);
    }
    axes.push_back(dealt.axis);
  }
  return plan_.mesh.view_of(axes) ? "" : "no view has all of these axes";
}

bool PlanReader::read_parameter(JsonReader& json) {
  std::string name;
  Span name_where;
  int64_t placement = 0;
  int index = 0;
  const Span where = json.span();
  const bool good = json.list("a parameter", [&] {
    switch (index++) {
      case 0:
        name_where = json.span();
        return json.string("a parameter name", name);
      case 1:
        return json.size("a parameter's placement", placement);
      default:
        return json.malformed(json.span(),
                              "a parameter must be a name and a placement");
    }
  });
  if (!good) return false;
  if (index < 2) {
    return json.malformed(where, "a parameter must be a name and a placement");
  }
  const auto number = static_cast<size_t>(placement);
  if (number >= plan_.placements.size()) {
    return json.malformed(name_where,
                          "`" + name + "` has placement " +
                              std::to_string(placement) + ", but there are " +
                              std::to_string(plan_.placements.size()));
  }
  if (!manifest_.add(name, plan_.placements[number].type, name_where)) {
    return json.malformed(
        name_where, "with `" + name + "` the parameters exceed 2^63 bytes");
  }
  plan_.placement_of.push_back(static_cast<uint32_t>(number));
  return true;
}

// Checks the numbers by which rules refer to each other.
bool PlanReader::check_rules() {
  const auto count = static_cast<int>(plan_.rules.size());
  for (const PlanRule& rule : plan_.rules) {
    for (const int other : rule.shadowed_by) {
      if (other >= 1 && other <= count) continue;
      diags_.error(Code::MalformedDocument, sections_.at("rules"),
                   "`" + rule.pattern + "` is shadowed by rule " +
                       std::to_string(other) + " of " + std::to_string(count));
      return false;
    }
  }
  return true;
}

// Checks experts that are placed whole: the name of a parameter gives its
// expert, which determines the rank. Placements without a `rank` stand for
// identical experts, so all experts must have the same number of parameters.
bool PlanReader::check_dealt() {
  struct Experts {
    std::map<int64_t, int64_t> parameters;  // parameter count by expert
    size_t first = 0;
  };
  std::map<uint32_t, Experts> alike;  // by placement
  const auto refuse = [&](size_t parameter, const std::string& why) {
    diags_.error(Code::MalformedDocument, manifest_.where(parameter),
                 "`" + std::string(manifest_.name(parameter)) +
                     "` cannot be placed as recorded: " + why);
    return false;
  };
  for (size_t i = 0; i < manifest_.size(); ++i) {
    const std::optional<ExpertPlacement>& dealt = plan_.of(i).dealt;
    if (!dealt) continue;
    const auto expert = expert_name(manifest_.name(i)).number;
    if (!expert) return refuse(i, "its name has no expert number");
    if (*expert >= dealt->experts) {
      return refuse(i, "it belongs to expert " + std::to_string(*expert) +
                           " of " + std::to_string(dealt->experts));
    }
    const int64_t rank = rank_of_expert(*dealt, *expert);
    if (dealt->rank >= 0 && dealt->rank != rank) {
      return refuse(i, "expert " + std::to_string(*expert) + " is on rank " +
                           std::to_string(rank) + ", not " +
                           std::to_string(dealt->rank));
    }
    if (dealt->rank >= 0) continue;
    Experts& all = alike[plan_.placement_of[i]];
    if (all.parameters.empty()) all.first = i;
    ++all.parameters[*expert];
  }
  for (const auto& entry : alike) {
    const Experts& all = entry.second;
    const ExpertPlacement& dealt = *plan_.placements[entry.first].dealt;
    const int64_t each = all.parameters.begin()->second;
    const bool complete =
        std::ssize(all.parameters) == dealt.experts &&
        std::ranges::all_of(all.parameters, [&](const auto& of_expert) {
          return of_expert.second == each;
        });
    if (complete) continue;
    return refuse(
        all.first,
        "experts without a `rank` must be identical, but not all of the " +
            std::to_string(dealt.experts) + " experts have such a parameter");
  }
  return true;
}

bool PlanReader::check_names() {
  const auto duplicate = manifest_.find_duplicate();
  if (!duplicate) return true;
  diags_
      .error(Code::DuplicateKey, manifest_.where(duplicate->second),
             "`" + std::string(manifest_.name(duplicate->second)) +
                 "` is given twice")
      .label(manifest_.where(duplicate->first), "first given here");
  return false;
}

std::optional<SavedPlan> PlanReader::read() {
  const auto text = [](std::string_view what, std::string& value) {
    return
        [what, &value](JsonReader& json) { return json.string(what, value); };
  };
  // Reads each item of a section that is a list.
  const auto each = [this](std::string_view what,
                           bool (PlanReader::*item)(JsonReader&)) {
    return [this, what, item](JsonReader& json) {
      return json.list(what, [&] { return (this->*item)(json); });
    };
  };
  const bool good =
      find_sections() && check_schema() &&
      section("model", text("`model`", manifest_.title)) &&
      section("name", text("`name`", manifest_.model_name)) &&
      section("format", text("`format`", manifest_.format)) &&
      section("facts", [&](JsonReader& json) { return read_facts(json); }) &&
      required("mesh", [&](JsonReader& json) { return read_mesh(json); }) &&
      section("views", each("`views`", &PlanReader::read_view)) &&
      required("on_indivisible",
               [&](JsonReader& json) { return read_policy(json); }) &&
      section("strict",
              [&](JsonReader& json) {
                return json.boolean("`strict`", plan_.strict);
              }) &&
      section("declared_axes",
              [&](JsonReader& json) {
                return read_axes(json, "`declared_axes`", plan_.declared_axes);
              }) &&
      section("other_names",
              [&](JsonReader& json) {
                return read_names(json, "`other_names`", plan_.other_names);
              }) &&
      section("run_as", [&](JsonReader& json) { return read_run_as(json); }) &&
      section("hook_axis",
              [&](JsonReader& json) {
                std::string axis;
                if (!json.string("`hook_axis`", axis)) return false;
                plan_.hook_axis = axis;
                return true;
              }) &&
      section("declare",
              [&](JsonReader& json) {
                return json.list("`declare`", [&] {
                  return read_declaration(json, plan_.declarations);
                });
              }) &&
      required("rules",
               [&](JsonReader& json) {
                 return json.list("`rules`", [&] {
                   return read_rule(json, plan_.rules.emplace_back());
                 });
               }) &&
      check_rules() &&
      required("placements",
               each("`placements`", &PlanReader::read_placement)) &&
      required("parameters",
               each("`parameters`", &PlanReader::read_parameter)) &&
      check_names() && check_dealt();
  if (!good) return std::nullopt;
  manifest_.sources.push_back(source_);
  return std::move(saved_);
}

}  // namespace

std::optional<SavedPlan> read_plan(SourcePtr source, Diagnostics& diags) {
  diags.add_source(source);
  return PlanReader(std::move(source), diags).read();
}

}  // namespace shardplan
