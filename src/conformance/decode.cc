// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

AxisNames decode_entry(const Json& entry) {
  if (entry.is_object()) return {std::string(kUnconstrained)};
  if (entry.is_string()) {
    const auto name = entry.get<std::string>();
    return name.empty() ? AxisNames() : AxisNames{name};
  }
  if (!entry.is_array() || entry.empty()) return {};
  if (entry.size() == 1) {
    const Json& only = entry.front();
    // ("",) is the name "", unlike a bare "".
    if (only.is_string()) return {only.get<std::string>()};
    return decode_entry(only);
  }
  AxisNames axes;
  for (const Json& axis : entry) {
    axes.push_back(axis.is_string() ? axis.get<std::string>() : "");
  }
  return axes;
}

Json encode_entry(const AxisNames& axes) {
  if (axes.empty()) return nullptr;
  if (axes.size() > 1) return axes;
  if (axes.front() == kUnconstrained) return {{"$unconstrained", true}};
  return axes.front();
}

}  // namespace

PartitionSpec decode_spec(const Json& spec) {
  PartitionSpec result;
  for (const Json& entry : spec) result.dims.push_back(decode_entry(entry));
  return result;
}

Json encode_spec(const PartitionSpec& spec) {
  Json result = Json::array();
  for (const AxisNames& axes : spec.dims) result.push_back(encode_entry(axes));
  return result;
}

std::optional<Mesh> decode_mesh(const Json& mesh, Diagnostics& diags) {
  if (mesh.is_string()) {
    const SourceFile text("mesh", mesh.get<std::string>());
    const auto axes = parse_mesh_text(text, diags);
    if (!axes) return std::nullopt;
    return make_mesh(*axes, std::nullopt, {}, diags);
  }
  std::vector<AxisRequest> axes;
  if (mesh.is_object()) {
    const Json& shape = mesh.at("shape");
    for (const Json& name : mesh.at("axis_names")) {
      const auto axis = name.get<std::string>();
      const Json& size =
          shape.is_object() ? shape.at(axis) : shape.at(axes.size());
      axes.push_back({axis, size.get<int64_t>(), {}, {}, {}});
    }
  }
  return make_mesh(axes, std::nullopt, {}, diags);
}

Answer refusal(const Diagnostics& diags) {
  for (const Diagnostic& diagnostic : diags.all()) {
    if (diagnostic.severity == Severity::Error) {
      return {nullptr, diagnostic.code, diagnostic.message};
    }
  }
  throw InternalError("a refusal without a reason");
}

}  // namespace shardplan::conformance
