// SPDX-License-Identifier: Apache-2.0
// Reads saved plans. The reader trusts nothing that it can compute: it checks
// specs against shapes and the mesh, and recomputes sizes.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/facts.h"
#include "core/views.h"
#include "io/plan/plan_file.h"
#include "io/plan/plan_values.h"
#include "io/shards.h"
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

  std::optional<SavedPlan> read() {
    const auto text = [this](const std::string& key, std::string& value) {
      return section(key, [&](JsonReader& json) {
        return json.string("`" + key + "`", value);
      });
    };
    // Reads each item of a section that is a list.
    const auto each = [](std::string_view what, auto read_item) {
      return [what, read_item](JsonReader& json) {
        return json.list(what, [&] { return read_item(json); });
      };
    };
    const bool good =
        find_sections() && check_schema() && text("model", manifest_.title) &&
        text("name", manifest_.model_name) &&
        text("format", manifest_.format) &&
        section("facts", [&](JsonReader& json) { return read_facts(json); }) &&
        required("mesh", [&](JsonReader& json) { return read_mesh(json); }) &&
        section("views",
                each("`views`",
                     [&](JsonReader& json) { return read_view(json); })) &&
        required("on_indivisible",
                 [&](JsonReader& json) { return read_policy(json); }) &&
        section("strict",
                [&](JsonReader& json) {
                  return json.boolean("`strict`", plan_.strict);
                }) &&
        section("declared_axes",
                [&](JsonReader& json) {
                  return read_names(json, "`declared_axes`", read_axis_name,
                                    plan_.declared_axes);
                }) &&
        section("other_names",
                [&](JsonReader& json) {
                  return read_names(json, "`other_names`", read_name,
                                    plan_.other_names);
                }) &&
        section("run_as",
                [&](JsonReader& json) { return read_run_as(json); }) &&
        section("hook_axis",
                [&](JsonReader& json) {
                  return read_name(json, "`hook_axis`", plan_.hook_axis);
                }) &&
        section("declare", each("`declare`",
                                [&](JsonReader& json) {
                                  return read_declaration(json,
                                                          plan_.declarations);
                                })) &&
        required("rules", each("`rules`",
                               [&](JsonReader& json) {
                                 return read_rule(json,
                                                  plan_.rules.emplace_back());
                               })) &&
        check_rules() &&
        required("placements", each("`placements`",
                                    [&](JsonReader& json) {
                                      return read_placement(json);
                                    })) &&
        required("parameters", each("`parameters`",
                                    [&](JsonReader& json) {
                                      return read_parameter(json);
                                    })) &&
        check_distinct(manifest_, diags_) && check_dealt();
    if (!good) return std::nullopt;
    manifest_.sources.push_back(source_);
    return std::move(saved_);
  }

 private:
  bool refuse_repeated(const std::string& key, Span where) {
    diags_.error(Code::DuplicateKey, where, "`" + key + "` is given twice");
    return false;
  }

  bool find_sections() {
    JsonReader json(*source_, diags_);
    return json.advance() &&
           json.map("a saved plan",
                    [&](const std::string& key, Span where) {
                      Span value;
                      if (!json.skip(value)) return false;
                      return sections_.emplace(key, value).second ||
                             refuse_repeated(key, where);
                    }) &&
           json.finish();
  }

  template <typename Read>
  bool section(std::string_view key, Read read_value) {
    const auto found = sections_.find(key);
    if (found == sections_.end()) return true;
    JsonReader json(*source_, diags_, found->second.begin, found->second.end);
    return json.advance() && read_value(json);
  }

  template <typename Read>
  bool required(std::string_view key, Read read_value) {
    if (sections_.contains(key)) return section(key, read_value);
    diags_.error(Code::MalformedDocument, {source_.get(), 0, 0},
                 "the saved plan has no `" + std::string(key) + "`");
    return false;
  }

  bool check_schema() {
    return required("schema", [&](JsonReader& json) {
      std::string schema;
      if (!json.string("`schema`", schema)) return false;
      if (schema == kPlanSchema) return true;
      diags_
          .error(Code::MalformedDocument, json.span(),
                 schema.starts_with(kPlanFamily)
                     ? "this version does not read plan schema `" + schema + "`"
                     : "`" + schema + "` is not a saved-plan schema")
          .fact("this version reads `" + std::string(kPlanSchema) + "`");
      return false;
    });
  }

  // Reads one of the names, which are in the order of the values.
  template <typename Names, typename Value>
  bool read_choice(JsonReader& json, const std::string& key, const Names& names,
                   Value& value) {
    std::string name;
    return json.string("`" + key + "`", name) &&
           (choose(names, name, value) ||
            json.malformed(json.span(),
                           "`" + key + "` cannot be `" + name + "`"));
  }

  bool read_facts(JsonReader& json) {
    Facts& facts = manifest_.facts;
    return json.map("`facts`", [&](const std::string& key, Span) {
      if (key == "from") {
        return read_choice(json, key, kFactsFromNames, facts.from);
      }
      if (const FactField* const fact = find_named(kFactFields, key)) {
        return json.size("`" + key + "`", (facts.*fact->member).emplace());
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

  bool read_state(JsonReader& json) {
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
                    json.malformed(place,
                                   "a layer has too many state tensors"));
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
    return read &&
           (good || json.malformed(where, "a layer has an unknown kind"));
  }

  bool read_cached(JsonReader& json, CachedTensor& cached) {
    const Span where = json.span();
    const bool good =
        json.map("a state tensor", [&](const std::string& key, Span) {
          for (const auto& [name, member] :
               {std::pair{"name", &CachedTensor::name},
                std::pair{"label", &CachedTensor::label},
                std::pair{"module", &CachedTensor::module}}) {
            if (key == name)
              return json.string("`" + key + "`", cached.*member);
          }
          for (const auto& [name, member] :
               {std::pair{"heads", &CachedTensor::heads},
                std::pair{"width", &CachedTensor::width},
                std::pair{"tokens", &CachedTensor::tokens},
                std::pair{"every", &CachedTensor::every},
                std::pair{"columns", &CachedTensor::columns}}) {
            if (key == name) return json.size("`" + key + "`", cached.*member);
          }
          if (key == "dtype") {
            std::string text;
            if (!json.string("`dtype`", text)) return false;
            cached.dtype = find_dtype(text);
            return cached.dtype ||
                   json.malformed(json.span(), "unknown dtype `" + text + "`");
          }
          if (key != "per") return json.skip();
          return read_choice(json, key, kCachedPerNames, cached.per);
        });
    constexpr int64_t kMax = int64_t{1} << 40;
    return good &&
           ((cached.width > 0 && cached.heads <= kMax && cached.width <= kMax &&
             cached.tokens <= kMax && cached.every > 0 &&
             cached.every <= kMax && cached.columns > 0 &&
             cached.width % cached.columns == 0) ||
            json.malformed(where, "a state tensor has an invalid size"));
  }

  // Reads a list of two values, each with its function; `form` is the error for
  // more or fewer. Adds the list to `where`, if not null.
  template <typename First, typename Second>
  bool read_pair(JsonReader& json, std::string_view what, std::string_view form,
                 First first, Second second, Span* where) {
    const Span begin = json.span();
    int count = 0;
    const bool good = json.list(what, [&] {
      if (++count > 2) return json.malformed(json.span(), std::string(form));
      return count == 1 ? first() : second();
    });
    if (where != nullptr) *where = {begin.file, begin.begin, json.span().end};
    return good &&
           (count == 2 || json.malformed(where == nullptr ? begin : *where,
                                         std::string(form)));
  }

  bool read_axis(JsonReader& json, std::vector<AxisRequest>& axes) {
    AxisRequest& axis = axes.emplace_back();
    const auto read_axis_of_mesh = [&] {
      axis.name_where = json.span();
      return read_axis_name(json, "an axis name", axis.name) &&
             (axis.name != kUnconstrained ||
              json.malformed(json.span(), "an axis cannot be named `?`"));
    };
    const auto read_size = [&] {
      axis.size_where = json.span();
      return json.size("an axis size", axis.size);
    };
    return read_pair(json, "an axis of the mesh",
                     "an axis must be a name and a size", read_axis_of_mesh,
                     read_size, &axis.where);
  }

  bool take_mesh(std::optional<Mesh> mesh) {
    if (mesh) plan_.mesh = *std::move(mesh);
    return mesh.has_value();
  }

  bool read_mesh(JsonReader& json) {
    std::vector<AxisRequest> axes;
    if (!json.list("`mesh`", [&] { return read_axis(json, axes); }))
      return false;
    return take_mesh(
        make_mesh(axes, std::nullopt, sections_.at("mesh"), diags_));
  }

  bool read_view(JsonReader& json) {
    ViewRequest view;
    const auto read_name_of_view = [&] {
      view.name_where = json.span();
      return read_view_name(json, view.name);
    };
    const auto read_axes = [&] {
      return json.list("the axes of a view",
                       [&] { return read_axis(json, view.axes); });
    };
    return read_pair(json, "a view", "a view must be a name and axes",
                     read_name_of_view, read_axes, &view.where) &&
           take_mesh(add_view(plan_.mesh, view, diags_));
  }

  bool read_policy(JsonReader& json) {
    std::string name;
    if (!json.string("`on_indivisible`", name)) return false;
    const std::optional<OnIndivisible> policy = find_policy(name);
    if (!policy) {
      return json.malformed(json.span(), "unknown policy `" + name + "`");
    }
    plan_.on_indivisible = *policy;
    return true;
  }

  bool read_run_as(JsonReader& json) {
    std::string name;
    if (!json.string("`run_as`", name)) return false;
    if (name != kRunByHooks) {
      return json.malformed(json.span(), "`run_as` must be `hooks` or omitted");
    }
    plan_.run_as = RunAs::Hooks;
    return true;
  }

  bool read_placement_key(JsonReader& json, const std::string& key,
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
      return read_spec(json, "`requested`", read_name,
                       placement.requested.emplace());
    }
    if (key == "meant") {
      return read_spec(json, "`meant`", read_name,
                       placement.resolved.emplace());
    }
    if (key == "spec")
      return read_spec(json, "`spec`", read_axis_name, placement.spec);
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

  bool read_placement(JsonReader& json) {
    Placement placement;
    std::set<std::string> seen;
    Span where = json.span();
    const bool good =
        json.map("a placement", [&](const std::string& key, Span place) {
          return seen.insert(key).second
                     ? read_placement_key(json, key, placement)
                     : refuse_repeated(key, place);
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
      const auto text = [](const std::string& name) {
        return name.empty() ? "the mesh" : "view `" + name + "`";
      };
      return json.malformed(where, "spec " + spec_text(placement.spec) +
                                       " belongs to " + text(placement.view) +
                                       ", not to " + text(view));
    }
    plan_.placements.push_back(std::move(placement));
    return true;
  }

  bool check_placement(JsonReader& json, Span where,
                       const Placement& placement) {
    const auto elements = element_count(placement.type.shape);
    if (!elements || !byte_count(*elements, placement.type.dtype)) {
      return json.malformed(where,
                            type_text(placement.type) + " exceeds 2^63 bytes");
    }
    for (const Correction& correction : placement.corrections) {
      // The axis over which whole experts are placed is not in the spec.
      const bool deals = placement.rule > 0 &&
                         !nth(plan_.rules, placement.rule - 1).deal.empty();
      if (deals && correction.dim == 0) continue;
      const size_t dim = to_size(correction.dim);
      // These codes concern an entry of the spec, which may be beyond the rank.
      const bool is_of_entry = correction.code == Code::SpecLongerThanRank ||
                               correction.code == Code::SmallParameter ||
                               correction.code == Code::UnplacedLogicalAxis ||
                               correction.code == Code::RepeatedLogicalAxis;
      const bool beyond_rank =
          dim >= placement.type.shape.size() && !is_of_entry;
      const bool was_asked =
          placement.requested &&
          dim < std::max(placement.requested->dims.size(),
                         placement.requested_spec().dims.size());
      if (was_asked && !beyond_rank) continue;
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
  bool check_stored(JsonReader& json, Span where, const Placement& placement) {
    int after = -1;
    for (const StoredDim& stored : placement.stored_dims) {
      const Shape& shape = placement.type.shape;
      if (stored.dim <= after || stored.dim >= std::ssize(shape) ||
          stored.size < nth(shape, stored.dim)) {
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
  std::string illegal(const Placement& placement) const {
    const std::vector<AxisNames>& dims = placement.spec.dims;
    const Shape shape = stored_shape(placement);
    if (dims.size() > shape.size())
      return "it has more entries than dimensions";
    const bool must_divide = !allows_uneven(plan_.on_indivisible);
    std::set<AxisName> used;
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      for (const AxisName& axis : dims[dim]) {
        if (!plan_.mesh.find(axis))
          return "the mesh has no axis `" + axis + "`";
        if (!used.insert(axis).second)
          return "axis `" + axis + "` is used twice";
      }
      if (must_divide && shape[dim] % shard_count(plan_.mesh, dims[dim]) != 0) {
        return std::to_string(shape[dim]) + " is not divisible";
      }
    }
    return "";
  }

  // Returns why `dealt` is impossible, or that the axes belong to several
  // views.
  std::string illegal_deal(const Placement& placement) const {
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

  bool read_parameter(JsonReader& json) {
    std::string name;
    Span name_where;
    int64_t placement = 0;
    const auto read_own_name = [&] {
      name_where = json.span();
      return json.string("a parameter name", name);
    };
    const auto read_number = [&] {
      return json.size("a parameter's placement", placement);
    };
    if (!read_pair(json, "a parameter",
                   "a parameter must be a name and a placement", read_own_name,
                   read_number, nullptr)) {
      return false;
    }
    if (placement >= std::ssize(plan_.placements)) {
      return json.malformed(name_where,
                            "`" + name + "` has placement " +
                                std::to_string(placement) + ", but there are " +
                                std::to_string(plan_.placements.size()));
    }
    plan_.placement_of.push_back(static_cast<uint32_t>(placement));
    return manifest_.add(name, nth(plan_.placements, placement).type,
                         name_where) ||
           json.malformed(name_where, "with `" + name +
                                          "` the parameters exceed 2^63 bytes");
  }

  // Checks the numbers by which rules refer to each other.
  bool check_rules() {
    const auto count = static_cast<int>(plan_.rules.size());
    for (const PlanRule& rule : plan_.rules) {
      for (const int other : rule.shadowed_by) {
        if (other >= 1 && other <= count) continue;
        diags_.error(Code::MalformedDocument, sections_.at("rules"),
                     "`" + rule.pattern + "` is shadowed by rule " +
                         std::to_string(other) + " of " +
                         std::to_string(count));
        return false;
      }
    }
    return true;
  }

  // Checks experts that are placed whole: the name of a parameter gives its
  // expert, which determines the rank. Placements without a `rank` stand for
  // identical experts, so all experts must have the same number of parameters.
  bool check_dealt() {
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

}  // namespace

std::optional<SavedPlan> read_plan(SourcePtr source, Diagnostics& diags) {
  diags.add_source(source);
  return PlanReader(std::move(source), diags).read();
}

}  // namespace shardplan
