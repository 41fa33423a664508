// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_reader.h"

#include <algorithm>
#include <climits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/facts.h"
#include "io/plan/plan_file.h"

namespace shardplan {

using Token = JsonReader::Token;

namespace {

bool read_name(JsonReader& json, std::string_view what, AxisName& name) {
  std::string text;
  if (!json.string(what, text)) return false;
  name = text;
  return true;
}

using ReadName = bool (*)(JsonReader&, std::string_view, AxisName&);

bool read_list(JsonReader& json, std::string_view what, AxisNames& names,
               ReadName read) {
  return json.list(what, [&] {
    return read(json, "the name of an axis", names.emplace_back());
  });
}

bool read_dims(JsonReader& json, std::string_view what, PartitionSpec& spec,
               ReadName read) {
  return json.list(what, [&] {
    AxisNames& axes = spec.dims.emplace_back();
    if (json.token() == Token::Null) return true;
    const std::string entry = "an entry of " + std::string(what);
    if (json.token() == Token::BeginArray) {
      return read_list(json, entry, axes, read);
    }
    return read(json, entry, axes.emplace_back());
  });
}

}  // namespace

bool read_axis_name(JsonReader& json, std::string_view what, AxisName& axis) {
  if (!read_name(json, what, axis)) return false;
  return is_axis_name(axis) || axis == kUnconstrained ||
         json.malformed(json.span(),
                        "`" + axis + "` cannot be the name of an axis");
}

bool read_axes(JsonReader& json, std::string_view what, AxisNames& axes) {
  return read_list(json, what, axes, read_axis_name);
}

bool read_names(JsonReader& json, std::string_view what, AxisNames& names) {
  return read_list(json, what, names, read_name);
}

bool read_spec(JsonReader& json, std::string_view what, PartitionSpec& spec) {
  return read_dims(json, what, spec, read_axis_name);
}

bool read_name_spec(JsonReader& json, std::string_view what,
                    PartitionSpec& spec) {
  return read_dims(json, what, spec, read_name);
}

bool read_int(JsonReader& json, std::string_view what, int64_t limit,
              int& value) {
  int64_t read = 0;
  if (!json.size(what, read)) return false;
  if (read > limit) {
    return json.malformed(json.span(),
                          std::string(what) + " is " + std::to_string(read) +
                              ", but at most " + std::to_string(limit) +
                              " is possible");
  }
  value = static_cast<int>(read);
  return true;
}

bool read_rule(JsonReader& json, PlanRule& rule) {
  return json.map("a rule", [&](const std::string& key, Span) {
    if (key == "pattern") return json.string("`pattern`", rule.pattern);
    if (key == "spec") return read_name_spec(json, "`spec`", rule.spec);
    if (key == "file") return json.string("`file`", rule.file);
    if (key == "line") return json.size("`line`", rule.line);
    if (key == "shipped") return json.boolean("`shipped`", rule.shipped);
    if (key == "shards_parts") {
      return json.boolean("`shards_parts`", rule.shards_parts);
    }
    if (key == "found") return json.size("`found`", rule.found);
    if (key == "won") return json.size("`won`", rule.won);
    if (key != "shadowed_by") return json.skip();
    return json.list("`shadowed_by`", [&] {
      return read_int(json, "an entry of `shadowed_by`", INT_MAX,
                      rule.shadowed_by.emplace_back());
    });
  });
}

bool read_code(JsonReader& json, Code& code) {
  std::string text;
  if (!json.string("`code`", text)) return false;
  const std::optional<Code> found = find_code(text);
  if (!found) return json.malformed(json.span(), "no code is `" + text + "`");
  code = *found;
  return true;
}

bool read_correction(JsonReader& json, std::vector<Correction>& corrections) {
  Correction& correction = corrections.emplace_back();
  return json.map("a correction", [&](const std::string& key, Span) {
    if (key == "dim") return read_int(json, "`dim`", INT_MAX, correction.dim);
    if (key == "code") return read_code(json, correction.code);
    if (key == "dropped") {
      return read_names(json, "`dropped`", correction.dropped);
    }
    if (key == "reason") return json.string("`reason`", correction.reason);
    return json.skip();
  });
}

bool read_stored_dim(JsonReader& json, std::vector<StoredDim>& stored) {
  StoredDim& dim = stored.emplace_back();
  dim.dim = -1;
  return json.map("a stored dimension", [&](const std::string& key, Span) {
    if (key == "dim") return read_int(json, "`dim`", INT_MAX, dim.dim);
    if (key == "size") return json.size("`size`", dim.size);
    if (key == "why") return json.string("`why`", dim.why);
    return json.skip();
  });
}

bool read_declaration(JsonReader& json, Declarations& declarations) {
  std::string text;
  if (!json.string("a declaration", text)) return false;
  return add_declaration(text, declarations) ||
         json.malformed(json.span(), "nothing is declared as `" + text + "`");
}

bool read_type_key(JsonReader& json, const std::string& key, TensorType& type,
                   Diagnostics& diags) {
  if (key == "shape") {
    return json.list("`shape`", [&] {
      return json.size("an entry of `shape`", type.shape.emplace_back());
    });
  }
  std::string name;
  if (!json.string("`dtype`", name)) return false;
  const std::optional<DType> dtype = find_dtype(name);
  if (!dtype) {
    diags.error(Code::UnknownDtype, json.span(),
                "unknown dtype `" + name + "`");
    return false;
  }
  type.dtype = *dtype;
  return true;
}

// Reading saved plans. Nothing that can be computed is trusted: specs are
// checked against shapes and mesh, and sizes are measured anew.

namespace {

// Keys may stand in any order (tools sort them), so a first pass finds where
// the values are, and each is then read in the order of their dependencies.
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
  bool read_kept(JsonReader& json, KeptTensor& kept);
  bool read_axis(JsonReader& json);
  bool make_mesh_of(Span where);
  bool read_policy(JsonReader& json);
  bool read_run_as(JsonReader& json);
  bool read_placement(JsonReader& json);
  bool read_placement_key(JsonReader& json, const std::string& key,
                          Placement& placement);
  bool check_placement(JsonReader& json, Span where,
                       const Placement& placement);
  bool check_stored(JsonReader& json, Span where, const Placement& placement);
  std::string illegal(const Placement& placement) const;
  bool read_parameter(JsonReader& json);
  bool check_rules();
  bool check_names();

  SourcePtr source_;
  Diagnostics& diags_;
  std::map<std::string, Span, std::less<>> sections_;
  std::vector<AxisRequest> axes_;
  SavedPlan saved_{
      Manifest(),
      // The mesh is replaced before anything is placed on it.
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
            ? "plans of schema `" + schema + "` are not read by this version"
            : "`" + schema + "` is not the schema of a saved plan");
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
        return json.malformed(json.span(),
                              "facts cannot be from `" + from + "`");
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
        return !kind.known || json.list("what layers keep", [&] {
          const Span place = json.span();
          return read_kept(json, kind.kept.emplace_back()) &&
                 (kind.kept.size() <= kMaxKept ||
                  json.malformed(place, "a layer keeps too much"));
        });
      });
    }
    if (key != "layers") return json.skip();
    return json.list("`layers`", [&] {
      int64_t kind = 0;
      if (!json.size("the kind of a layer", kind)) return false;
      // Numbers are within the kinds, as is seen below.
      state.layers.push_back(
          static_cast<uint32_t>(std::min<int64_t>(kind, UINT32_MAX)));
      return true;
    });
  });
  if (read && state.layers.size() > kMaxStateLayers) {
    return json.malformed(where, "there are too many layers");
  }
  const bool good = std::ranges::all_of(
      state.layers, [&](uint32_t kind) { return kind < state.kinds.size(); });
  return read && (good || json.malformed(where, "a layer is of no kind"));
}

bool PlanReader::read_kept(JsonReader& json, KeptTensor& kept) {
  const Span where = json.span();
  bool good = json.map("what a layer keeps", [&](const std::string& key, Span) {
    for (const auto& [name, member] :
         {std::pair{"name", &KeptTensor::name},
          std::pair{"label", &KeptTensor::label},
          std::pair{"module", &KeptTensor::module}}) {
      if (key == name) return json.string("`" + key + "`", kept.*member);
    }
    for (const auto& [name, member] :
         {std::pair{"heads", &KeptTensor::heads},
          std::pair{"width", &KeptTensor::width},
          std::pair{"tokens", &KeptTensor::tokens},
          std::pair{"every", &KeptTensor::every}}) {
      if (key == name) return json.size("`" + key + "`", kept.*member);
    }
    std::string text;
    if (key == "dtype") {
      if (!json.string("`dtype`", text)) return false;
      kept.dtype = find_dtype(text);
      return kept.dtype ||
             json.malformed(json.span(), "unknown dtype `" + text + "`");
    }
    if (key != "per") return json.skip();
    if (!json.string("`per`", text)) return false;
    const auto* const per = std::ranges::find(kKeptPer, text);
    if (per == kKeptPer.end()) {
      return json.malformed(json.span(), "nothing is kept per `" + text + "`");
    }
    kept.per = static_cast<KeptTensor::Per>(per - kKeptPer.begin());
    return true;
  });
  constexpr int64_t kMost = int64_t{1} << 40;
  return good &&
         ((kept.width > 0 && kept.heads <= kMost && kept.width <= kMost &&
           kept.tokens <= kMost && kept.every > 0 && kept.every <= kMost) ||
          json.malformed(where, "what a layer keeps has no size"));
}

bool PlanReader::read_axis(JsonReader& json) {
  AxisRequest axis;
  axis.where = json.span();
  int index = 0;
  const bool good = json.list("an axis of the mesh", [&] {
    switch (index++) {
      case 0:
        axis.name_where = json.span();
        return read_axis_name(json, "the name of an axis", axis.name) &&
               (axis.name != kUnconstrained ||
                json.malformed(json.span(), "an axis cannot be named `?`"));
      case 1:
        axis.size_where = json.span();
        return json.size("the size of an axis", axis.size);
      default:
        return json.malformed(json.span(), "an axis is a name and a size");
    }
  });
  axis.where.end = json.span().end;
  if (good && index < 2) {
    return json.malformed(axis.where, "an axis is a name and a size");
  }
  axes_.push_back(std::move(axis));
  return good;
}

bool PlanReader::make_mesh_of(Span where) {
  std::optional<Mesh> mesh = make_mesh(axes_, std::nullopt, where, diags_);
  if (!mesh) return false;
  plan_.mesh = *std::move(mesh);
  return true;
}

bool PlanReader::read_policy(JsonReader& json) {
  std::string name;
  if (!json.string("`on_indivisible`", name)) return false;
  const std::optional<OnIndivisible> policy = find_policy(name);
  if (!policy) {
    return json.malformed(json.span(), "no policy is named `" + name + "`");
  }
  plan_.on_indivisible = *policy;
  return true;
}

bool PlanReader::read_run_as(JsonReader& json) {
  std::string name;
  if (!json.string("`run_as`", name)) return false;
  if (name != kRunByHooks) {
    return json.malformed(json.span(), "`run_as` is `hooks` or not there");
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
    placement.meant.emplace();
    return read_name_spec(json, "`meant`", *placement.meant);
  }
  if (key == "spec") return read_spec(json, "`spec`", placement.spec);
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
  if (!check_placement(json, where, placement)) return false;
  measure(placement, plan_.mesh, plan_.on_indivisible);
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
    const auto dim = static_cast<size_t>(correction.dim);
    // Both are about an entry, whether or not there is a dimension for it.
    const bool is_of_entry = correction.code == Code::SpecLongerThanRank ||
                             correction.code == Code::SmallParameter;
    const bool beyond_rank = dim >= placement.type.shape.size() && !is_of_entry;
    const bool was_asked =
        placement.requested && dim < std::max(placement.requested->dims.size(),
                                              placement.asked().dims.size());
    if (was_asked && correction.dim >= 0 && !beyond_rank) continue;
    return json.malformed(where, "a correction of dimension " +
                                     std::to_string(correction.dim) +
                                     ", for which nothing was requested");
  }
  if (!check_stored(json, where, placement)) return false;
  const std::string reason = illegal(placement);
  return reason.empty() ||
         json.malformed(where, "spec " + spec_text(placement.spec) +
                                   " is not possible for " +
                                   type_text(placement.type) + ": " + reason);
}

// Dimensions that are stored as declared exist, ascend and only grow.
bool PlanReader::check_stored(JsonReader& json, Span where,
                              const Placement& placement) {
  int after = -1;
  for (const StoredDim& stored : placement.stored_dims) {
    const auto dim = static_cast<size_t>(stored.dim);
    if (stored.dim <= after || dim >= placement.type.shape.size() ||
        stored.size < placement.type.shape[dim]) {
      return json.malformed(where, "dimension " + std::to_string(stored.dim) +
                                       " cannot be stored as " +
                                       std::to_string(stored.size) + " of " +
                                       type_text(placement.type));
    }
    after = stored.dim;
  }
  const auto elements = element_count(stored_shape(placement));
  return (elements && byte_count(*elements, placement.type.dtype)) ||
         json.malformed(where, type_text(placement.type) +
                                   " exceeds 2^63 bytes as it is stored");
}

// Why a final spec cannot be, or empty.
std::string PlanReader::illegal(const Placement& placement) const {
  const std::vector<AxisNames>& dims = placement.spec.dims;
  const Shape shape = stored_shape(placement);
  if (dims.size() > shape.size()) return "it has more entries than dimensions";
  const bool must_divide = plan_.on_indivisible != OnIndivisible::Pad &&
                           plan_.on_indivisible != OnIndivisible::Chunk;
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
        return json.string("the name of a parameter", name);
      case 1:
        return json.size("the placement of a parameter", placement);
      default:
        return json.malformed(json.span(),
                              "a parameter is a name and a placement");
    }
  });
  if (!good) return false;
  if (index < 2) {
    return json.malformed(where, "a parameter is a name and a placement");
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

// Rules refer to each other by number.
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
  // Each item of a section that is a list.
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
      required("mesh", each("`mesh`", &PlanReader::read_axis)) &&
      make_mesh_of(sections_.at("mesh")) &&
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
      check_names();
  if (!good) return std::nullopt;
  manifest_.sources.push_back(source_);
  return std::move(saved_);
}

}  // namespace

std::optional<SavedPlan> read_plan(SourcePtr source, Diagnostics& diags) {
  diags.keep(source);
  return PlanReader(std::move(source), diags).read();
}

}  // namespace shardplan
