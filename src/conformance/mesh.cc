// SPDX-License-Identifier: Apache-2.0
// eformer's questions to a mesh: sizes of axes, coordinates, names in a spec.
#include "core/mesh.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "conformance/vector_case.h"
#include "core/spec.h"

namespace shardplan::conformance {
namespace {

AxisNames decode_names(const Json& names) {
  const Json plain = plain_lists(names);
  if (plain.is_string()) return {plain.get<std::string>()};
  AxisNames result;
  // What is no text is no axis of any mesh.
  for (const Json& name : plain) {
    result.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  return result;
}

// A value that is neither a name nor several, or the first axis that the mesh
// lacks.
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

// Python walks whatever it is given.
void collect_names(const Json& value, std::set<std::string>& names) {
  if (value.is_string()) {
    names.insert(value.get<std::string>());
  } else if (value.is_structured()) {
    for (const Json& item : value) collect_names(item, names);
  }
}

// What cannot be walked: a number, UNCONSTRAINED.
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
      // A text is walked letter by letter, at the top only.
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

}  // namespace shardplan::conformance
