// SPDX-License-Identifier: Apache-2.0
// eformer: auto_partition_spec.
#include "resolve/auto_spec.h"

#include <cmath>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

Answer auto_partition(const Json& inputs) {
  Diagnostics diags;
  const std::optional<Mesh> mesh = decode_mesh(inputs.at("mesh"), diags);
  if (!mesh) return refusal(diags);
  std::vector<AxisNames> choices;
  AutoSpecOptions options;
  if (!inputs.at("names").is_null()) {
    choices = decode_spec(plain_lists(inputs.at("names"))).dims;
    options.choices = choices;
  }
  for (const AxisNames& axes : choices) {
    for (const AxisName& axis : axes) {
      if (!mesh->find(axis)) return {nullptr, Code::UnknownAxis, axis};
    }
  }
  const Json& least = inputs.at("min_sharding_size");
  // "Fewer than 8.5 elements" is "fewer than 9".
  if (!least.is_null()) {
    options.min_size = static_cast<int64_t>(std::ceil(least.get<double>()));
  }
  options.smallest_first = inputs.at("reverse").get<bool>();
  return {
      encode_spec(auto_spec(inputs.at("shape").get<Shape>(), *mesh, options)),
      std::nullopt, ""};
}

bool is_same_error(const Answer& answer, const Json& error) {
  if (error.at("type") == "KeyError") {
    return answer.refused == Code::UnknownAxis;
  }
  return error.at("type") == "AssertionError" &&
         answer.refused == Code::InvalidMesh;
}

}  // namespace

const std::vector<Function>& auto_spec_functions() {
  static const std::vector<Function> kFunctions = {
      {"auto_partition_spec", auto_partition, is_same_error},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
