// SPDX-License-Identifier: Apache-2.0
// eformer's functions of a mesh: sizes of axes, coordinates, names in a spec.

#include "core/mesh.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "core/partition_axis.h"
#include "core/spec.h"
#include "tests/conformance/runner/random.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan::conformance {
namespace {

AxisNames decode_names(const Json& names) {
  const Json plain = plain_lists(names);
  if (plain.is_string()) return {plain.get<std::string>()};
  AxisNames result;
  // A value that is not a text is not an axis of any mesh.
  for (const Json& name : plain) {
    result.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  return result;
}

// Returns a refusal if the value is neither a name nor a list of names, or if
// the mesh lacks an axis.
std::optional<Answer> refused_names(const Mesh& mesh, const Json& names) {
  const Json plain = plain_lists(names);
  if (!plain.is_string() && !plain.is_array()) {
    return Answer{nullptr, Code::MalformedDocument, "not the name of an axis"};
  }
  for (const AxisName& axis : decode_names(names)) {
    if (!mesh.find(axis)) return Answer{nullptr, Code::UnknownAxis, axis};
  }
  return std::nullopt;
}

std::optional<Mesh> mesh_of_sizes(const Json& inputs, Diagnostics& diags) {
  std::vector<AxisRequest> axes;
  for (const auto& [name, size] : inputs.at("axis_sizes").items()) {
    axes.push_back({name, size.get<int64_t>(), {}, {}, {}});
  }
  return make_mesh(axes, std::nullopt, {}, diags);
}

Answer size_on(const std::optional<Mesh>& mesh, const Json& names,
               const Diagnostics& diags) {
  if (!mesh) return refusal(diags);
  if (const auto refused = refused_names(*mesh, names)) return *refused;
  return {shard_count(*mesh, decode_names(names)), std::nullopt, ""};
}

Answer axes_size(const Json& inputs) {
  Diagnostics diags;
  return size_on(decode_mesh(inputs.at("mesh"), diags), inputs.at("axis_names"),
                 diags);
}

Answer axis_size(const Json& inputs) {
  Diagnostics diags;
  return size_on(mesh_of_sizes(inputs, diags), inputs.at("axis_names"), diags);
}

Answer axis_names(const Json& inputs) {
  Diagnostics diags;
  const auto mesh = decode_mesh(inputs.at("mesh"), diags);
  if (!mesh) return refusal(diags);
  Json names = Json::array();
  for (const Axis& axis : mesh->axes()) names.push_back(axis.name);
  return {names, std::nullopt, ""};
}

Answer device_index(const Json& inputs) {
  Diagnostics diags;
  const auto mesh = mesh_of_sizes(inputs, diags);
  if (!mesh) return refusal(diags);
  const Json& names = inputs.at("axis_names");
  if (const auto refused = refused_names(*mesh, names)) return *refused;
  std::vector<int64_t> coordinates;
  for (const Axis& axis : mesh->axes()) {
    coordinates.push_back(inputs.at("coords").at(axis.name).get<int64_t>());
  }
  return {shard_index(*mesh, decode_names(names), coordinates), std::nullopt,
          ""};
}

Answer names_in_mesh(const Json& inputs) {
  Diagnostics diags;
  const Json& context = inputs.at("context_mesh");
  const auto mesh =
      context.is_null() ? std::nullopt : decode_mesh(context, diags);
  const AxisNames names = decode_names(inputs.at("names"));
  const bool all =
      std::all_of(names.begin(), names.end(), [&](const AxisName& name) {
        return mesh && mesh->find(name).has_value();
      });
  return {all, std::nullopt, ""};
}

Answer mesh_answer(const std::optional<std::vector<AxisRequest>>& axes,
                   const Json& inputs, Diagnostics& diags) {
  if (!axes) return refusal(diags);
  const auto mesh =
      make_mesh(*axes, inputs.at("devices").get<int64_t>(), {}, diags);
  if (!mesh || diags.has_errors()) return refusal(diags);
  Json names = Json::array();
  Json shape = Json::array();
  for (const Axis& axis : mesh->axes()) {
    names.push_back(axis.name);
    shape.push_back(axis.size);
  }
  return {{{"axis_names", names}, {"shape", shape}}, std::nullopt, ""};
}

Answer create_mesh(const Json& inputs) {
  Diagnostics diags;
  const auto dims =
      plain_lists(inputs.at("axis_dims")).get<std::vector<int64_t>>();
  return mesh_answer(
      axes_of_dims(dims, decode_names(inputs.at("axis_names")), {}, diags),
      inputs, diags);
}

Answer mesh_from_string(const Json& inputs) {
  Diagnostics diags;
  const SourceFile text("axis_dims", inputs.at("axis_dims").get<std::string>());
  return mesh_answer(
      parse_mesh_dims(text, decode_names(inputs.at("names")), diags), inputs,
      diags);
}

// Collects names; Python iterates over any value it is given.
void collect_names(const Json& value, std::set<std::string>& names) {
  if (value.is_string()) {
    names.insert(value.get<std::string>());
  } else if (value.is_structured()) {
    for (const Json& item : value) collect_names(item, names);
  }
}

// Returns whether the value contains one that cannot be iterated over: a
// number, UNCONSTRAINED.
bool has_marker(const Json& value) {
  return value.is_number() || value.is_boolean() ||
         (value.is_structured() &&
          std::any_of(value.begin(), value.end(), has_marker));
}

Answer names_of_spec(const Json& inputs) {
  std::set<std::string> names;
  for (const Json& given : inputs) {
    const Json value = plain_lists(given);
    if (value.is_null() || has_marker(value)) {
      return {nullptr, Code::MalformedDocument, "not the name of an axis"};
    }
    if (value.is_string()) {
      // Only at the top, a text is iterated over letter by letter.
      const auto text = value.get<std::string>();
      for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
        decode_utf8(text, end);
        names.insert(text.substr(begin, end - begin));
      }
    } else {
      collect_names(value, names);
    }
  }
  return {names, std::nullopt, ""};
}

bool is_same_creation_error(const Answer& answer, const Json& /*error*/) {
  return answer.refused == Code::InvalidMesh ||
         answer.refused == Code::DeviceCountMismatch;
}

bool is_same_mesh_error(const Answer& answer, const Json& error) {
  const auto type = error.at("type").get<std::string>();
  if (type == "AssertionError") return answer.refused == Code::InvalidMesh;
  if (type == "KeyError" || type == "NameError") {
    return answer.refused == Code::UnknownAxis;
  }
  return type == "TypeError" && answer.refused == Code::MalformedDocument;
}

}  // namespace

const std::vector<Function>& mesh_functions() {
  static const std::vector<Function> kFunctions = {
      {"get_axes_size_in_mesh", axes_size, is_same_mesh_error},
      {"get_mesh_axis_size", axis_size, is_same_mesh_error},
      {"get_mesh_axis_names", axis_names, is_same_mesh_error},
      {"get_submesh_device_index", device_index, is_same_mesh_error},
      {"names_in_current_mesh", names_in_mesh, is_same_mesh_error},
      {"get_names_from_partition_spec", names_of_spec, is_same_mesh_error},
      {"create_mesh", create_mesh, is_same_creation_error},
      {"parse_mesh_from_string", mesh_from_string, is_same_creation_error},
  };
  return kFunctions;
}

// Conformance of eformer.escale.partition.manager: PartitionAxis,
// PartitionManager.resolve and get_safe_hash_int.

namespace {

constexpr std::string_view kNotGiven = "$NOT_GIVEN";

// Decodes a name. None within a tuple is the name "".
AxisName decode_name(const Json& name) {
  return name.is_string() ? name.get<std::string>() : "";
}

AxisValue decode_value(const Json& value) {
  const Json plain = plain_lists(value);
  if (plain.is_null()) return {};
  if (plain.is_string()) return {{plain.get<std::string>()}, false};
  AxisValue result{{}, true};
  for (const Json& name : plain) result.axes.push_back(decode_name(name));
  return result;
}

Json encode_value(const AxisValue& value) {
  if (value.is_tuple) return value.axes;
  if (value.axes.empty()) return nullptr;
  return value.axes.front();
}

std::optional<PartitionAxis> decode_axis(const Json& inputs,
                                         Diagnostics& diags) {
  PartitionAxis axis = default_partition_axis();
  const Json given = inputs.value("kwargs", Json::object());
  for (const auto& [name, value] : given.items()) {
    const auto field = find_partition_field(name);
    if (!field) {
      return diags.error(Code::UnknownKey, {},
                         "`" + name + "` is not a field of PartitionAxis");
    }
    if (value == kNotGiven) {
      axis.at(*field).reset();
    } else {
      axis.at(*field) = decode_value(value);
    }
  }
  return resolve_partition_axis(std::move(axis), diags);
}

// Decodes a token. A value that is not a text names nothing.
std::string decode_token(const Json& token) {
  if (token.is_null()) return "_";
  return token.is_string() ? token.get<std::string>() : token.dump();
}

SemanticEntry decode_axis_entry(const Json& entry) {
  SemanticEntry result;
  if (entry.is_null()) return result;
  const Json plain = plain_lists(entry);
  if (!plain.is_array()) {
    result.tokens = {decode_token(plain)};
    return result;
  }
  result.kind = entry.is_object() && entry.contains("$list") ? EntryKind::List
                                                             : EntryKind::Tuple;
  for (const Json& token : plain) result.tokens.push_back(decode_token(token));
  return result;
}

std::vector<SemanticEntry> decode_entries(const Json& entries) {
  std::vector<SemanticEntry> result;
  const bool wrapped = entries.is_object();
  for (const Json& entry : wrapped ? entries.begin().value() : entries) {
    result.push_back(decode_axis_entry(entry));
  }
  return result;
}

// Decodes a mode. Anything but the generation modes behaves as training.
Mode decode_mode(const Json& mode) {
  if (mode == "__autoregressive__") return Mode::Decode;
  if (mode == "__insert__") return Mode::Insert;
  return mode == "__prefill__" ? Mode::Prefill : Mode::Train;
}

Answer show_axis(const Json& inputs) {
  Diagnostics diags;
  const auto axis = decode_axis(inputs, diags);
  if (!axis) return refusal(diags);
  Json result = Json::object();
  for (size_t i = 0; i < kPartitionFields; ++i) {
    result[std::string(partition_fields()[i].name)] =
        encode_value(axis->at(i).value_or(AxisValue()));
  }
  return {result, std::nullopt, ""};
}

template <EformerVersion version>
Answer resolve_axis(const Json& inputs) {
  Diagnostics diags;
  const auto axis = decode_axis(inputs, diags);
  if (!axis) return refusal(diags);
  Json result = Json::array();
  for (const SemanticEntry& entry : decode_entries(inputs.at("axes"))) {
    const auto values = resolve_entry(
        *axis, entry, decode_mode(inputs.at("mode")), version, diags);
    if (!values) return refusal(diags);
    Json item = entry.kind == EntryKind::One ? Json() : Json::array();
    for (const AxisValue& value : *values) {
      const Json shown = encode_value(value);
      if (entry.kind == EntryKind::One) {
        item = shown;
      } else {
        item.push_back(shown.is_null() ? Json("") : shown);
      }
    }
    result.push_back(std::move(item));
  }
  return {result, std::nullopt, ""};
}

Answer spec_of(const PartitionAxis& axis,
               std::span<const SemanticEntry> entries, Mode mode,
               EformerVersion version) {
  Diagnostics diags;
  const auto spec = resolve_semantic_spec(axis, entries, mode, version, diags);
  if (!spec) return refusal(diags);
  return {encode_spec(*spec), std::nullopt, ""};
}

template <EformerVersion version>
Answer resolve_spec(const Json& inputs) {
  Diagnostics diags;
  const auto axis = decode_axis(inputs, diags);
  if (!axis) return refusal(diags);
  return spec_of(*axis, decode_entries(inputs.at("axes")),
                 decode_mode(inputs.at("mode")), version);
}

// The axes and mode of a call, from whichever argument has them.
struct Request {
  std::vector<SemanticEntry> entries;
  Json mode;
};

std::optional<Request> decode_request(const Json& inputs,
                                      EformerVersion version) {
  const auto preset = [&](const char* key) -> std::optional<Request> {
    const auto* const found =
        find_sharding_preset(inputs.at(key).get<std::string>());
    if (found == nullptr) return std::nullopt;
    return Request{found->entries, found->decode_dim ? Json(*found->decode_dim)
                                                     : Json("__train__")};
  };
  const auto instance = [&](const char* key) -> std::optional<Request> {
    const Json& given = inputs.at(key);
    if (given.is_null()) return std::nullopt;
    return Request{decode_entries(given.at("axes")), given.at("mode")};
  };
  const bool early = version == EformerVersion::January2026;
  const bool has_class = inputs.contains("axes_class");
  const bool has_instance = inputs.contains("axes_instance");
  const bool has_dynamic =
      inputs.contains("dynamic_class") || inputs.contains("dynamic_instance");
  // In January 2026 a class given as axes takes precedence over the dynamic
  // axes, later the dynamic axes do; an instance counts as dynamic axes only
  // later.
  if (has_class && (early || !has_dynamic)) return preset("axes_class");
  if (has_instance && !early && !has_dynamic) return instance("axes_instance");
  if (inputs.contains("mode")) {
    // A class cannot be iterated over.
    if (has_class) return std::nullopt;
    // An instance can be: it is a tuple of its axes and its mode.
    if (has_instance) {
      const Json& given = inputs.at("axes_instance");
      SemanticEntry axes = decode_axis_entry(Json{{"$list", given.at("axes")}});
      SemanticEntry mode = decode_axis_entry(given.at("mode"));
      return Request{{std::move(axes), std::move(mode)}, inputs.at("mode")};
    }
    if (inputs.contains("axes")) {
      if (inputs.at("axes").is_null()) return std::nullopt;
      return Request{decode_entries(inputs.at("axes")), inputs.at("mode")};
    }
  }
  if (inputs.contains("dynamic_class")) return preset("dynamic_class");
  if (inputs.contains("dynamic_instance")) return instance("dynamic_instance");
  return std::nullopt;
}

template <EformerVersion version>
Answer manage(const Json& inputs) {
  Diagnostics diags;
  const auto axis = decode_axis(inputs, diags);
  if (!axis) return refusal(diags);
  const auto request = decode_request(inputs, version);
  if (!request) {
    return {nullptr, Code::Usage, "neither axes with a mode nor a preset"};
  }
  if (!request->mode.is_number_integer() && !request->mode.is_boolean()) {
    return spec_of(*axis, request->entries, decode_mode(request->mode),
                   version);
  }
  // The mode depends on the size of one dimension.
  if (!inputs.contains("shape") || inputs.at("shape").is_null()) {
    return {nullptr, Code::MalformedDocument, "a shape is needed"};
  }
  const auto shape = inputs.at("shape").get<Shape>();
  auto dim = request->mode.is_boolean()
                 ? static_cast<int64_t>(request->mode.get<bool>())
                 : request->mode.get<int64_t>();
  if (dim < 0) dim += static_cast<int64_t>(shape.size());
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size())) {
    return {nullptr, Code::SpecLongerThanRank, "no such dimension"};
  }
  const bool decodes = shape[static_cast<size_t>(dim)] == 1;
  return spec_of(*axis, request->entries, decodes ? Mode::Decode : Mode::Train,
                 version);
}

// Returns str(value), which get_safe_hash_int hashes.
std::string python_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

Answer safe_hash(const Json& inputs) {
  Diagnostics diags;
  const Json algorithm = inputs.value("algorithm", Json("md5"));
  const auto hash = hash_as_integer(
      python_text(inputs.at("text")),
      algorithm.is_string() ? algorithm.get<std::string>() : "new", diags);
  if (!hash) return refusal(diags);
  return {*hash, std::nullopt, ""};
}

bool is_same_hash_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  const bool is_unknown = message.starts_with("Unsupported hash algorithm");
  return answer.refused == Code::Usage &&
         is_unknown == answer.message.ends_with("is not a hash algorithm");
}

bool is_same_axis_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  const auto says = [&](std::string_view text) {
    return message.find(text) != message.npos;
  };
  if (says("was not resolved") || says("nested tuple") ||
      says("shape should be provided") || says("not subscriptable")) {
    return answer.refused == Code::MalformedDocument;
  }
  if (says("unexpected keyword")) return answer.refused == Code::UnknownKey;
  if (says("should provide dynamic axes") || says("has no attribute") ||
      says("not iterable")) {
    return answer.refused == Code::Usage;
  }
  if (says("index out of range")) {
    return answer.refused == Code::SpecLongerThanRank;
  }
  return (says("Unknown semantic axis") || says("unhashable type") ||
          says("attribute name must be string") ||
          says("not found in PartitionAxis")) &&
         answer.refused == Code::UnknownAxis;
}

// Converts lists and tuples to lists, and None within them to the name "".
Json plain_values(const Json& expected) {
  Json result = plain_lists(expected);
  for (Json& value : result) {
    if (!value.is_array()) continue;
    for (Json& item : value) {
      if (item.is_null()) item = "";
    }
  }
  return result;
}

constexpr auto kNowOfAxes = EformerVersion::Current;
constexpr auto kThenOfAxes = EformerVersion::January2026;

}  // namespace

const std::vector<Function>& partition_axis_functions() {
  static const std::vector<Function> kFunctions = {
      {"PartitionAxis", show_axis, is_same_axis_error, nullptr, plain_values},
      {"PartitionAxis.resolve_axis", resolve_axis<kNowOfAxes>,
       is_same_axis_error, resolve_axis<kThenOfAxes>, plain_values},
      {"PartitionAxis.resolve_spec", resolve_spec<kNowOfAxes>,
       is_same_axis_error, resolve_spec<kThenOfAxes>, canonical_spec},
      {"PartitionManager.resolve", manage<kNowOfAxes>, is_same_axis_error,
       manage<kThenOfAxes>, canonical_spec},
      {"get_safe_hash_int", safe_hash, is_same_hash_error},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
