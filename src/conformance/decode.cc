// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
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

Json plain_lists(const Json& value) {
  if (value.is_object()) {
    for (const char* key : {"$list", "$tuple"}) {
      if (value.contains(key)) return plain_lists(value.at(key));
    }
  }
  Json result = value;
  if (result.is_structured()) {
    for (Json& item : result) item = plain_lists(item);
  }
  return result;
}

PartitionSpec decode_spec(const Json& spec) {
  PartitionSpec result;
  for (const Json& entry : spec) {
    result.dims.push_back(decode_entry(plain_lists(entry)));
  }
  return result;
}

Json canonical_spec(const Json& spec) {
  if (!spec.is_array()) return spec;
  Json result = Json::array();
  for (const Json& entry : spec) {
    const bool is_marker = entry.is_object() && entry.contains("$unassigned");
    result.push_back(
        is_marker ? entry : encode_spec(decode_spec(Json::array({entry})))[0]);
  }
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

bool agree_within_4_ulps(const Json& answer, const Json& expected) {
  if (answer.is_number() && expected.is_number()) {
    const auto ours = answer.get<double>();
    const auto theirs = expected.get<double>();
    if (ours == theirs) return true;
    const double exact = 0x1p24;
    if (theirs == std::round(theirs) && std::abs(theirs) <= exact) return false;
    const auto magnitude = static_cast<float>(std::abs(theirs));
    // Beyond the largest float a unit would be infinite, and anything alike.
    if (!(magnitude < std::numeric_limits<float>::max())) return false;
    const double unit =
        std::nextafter(magnitude, std::numeric_limits<float>::infinity()) -
        magnitude;
    return std::abs(ours - theirs) <= 4 * unit;
  }
  if (!answer.is_structured() || answer.type() != expected.type() ||
      answer.size() != expected.size()) {
    return answer == expected;
  }
  if (answer.is_array()) {
    return std::equal(answer.begin(), answer.end(), expected.begin(),
                      agree_within_4_ulps);
  }
  for (const auto& [key, value] : expected.items()) {
    if (!answer.contains(key) || !agree_within_4_ulps(answer.at(key), value)) {
      return false;
    }
  }
  return true;
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
