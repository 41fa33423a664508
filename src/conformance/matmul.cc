// SPDX-License-Identifier: Apache-2.0
// EasyDeL: get_matmul_output_sharding, get_output_partition_spec and the checks
// of TensorParallelConfig.
#include <algorithm>

#include "conformance/vector_case.h"
#include "resolve/matmul_spec.h"

namespace shardplan::conformance {
namespace {

std::optional<PartitionSpec> decode_optional(const Json& spec) {
  if (spec.is_null()) return std::nullopt;
  return decode_spec(spec);
}

Answer matmul(const Json& inputs) {
  return {encode_spec(
              original_matmul_output(decode_optional(inputs.at("lhs_pspec")),
                                     decode_optional(inputs.at("rhs_pspec")))),
          std::nullopt, ""};
}

Answer collective(const Json& inputs) {
  const auto rank = inputs.at("lhs_ndim").get<int>();
  const auto spec_of = [&](const char* has, const char* key) {
    return inputs.value(has, true) ? decode_optional(inputs.at(key))
                                   : std::nullopt;
  };
  const auto left = spec_of("lhs_has_sharding", "lhs_spec");
  const auto right = spec_of("rhs_has_sharding", "rhs_spec");
  if (left && right && rank == 2 && right->dims.size() < 2) {
    return {nullptr, Code::SpecLongerThanRank, "the weight has two dimensions"};
  }
  const PartitionSpec axes = decode_spec(Json::array({inputs.at("axis_name")}));
  const auto spec =
      original_collective_output(rank, left, right, axes.dims.front());
  return {spec ? encode_spec(*spec) : Json(), std::nullopt, ""};
}

// Names of a mesh that is given with sizes, as a list, or by one name.
Json names_of_mesh(const Json& mesh) {
  if (mesh.is_object()) return mesh.at("axis_names");
  return mesh.is_string() ? Json::array({mesh}) : mesh;
}

// A configuration is checked only where a method of multiplying is chosen.
Answer parallel_config(const Json& inputs) {
  const Json method = inputs.value("matmul_method", Json());
  const Json axis = inputs.value("axis_name", Json("tp"));
  const Json names = names_of_mesh(inputs.value("mesh", Json()));
  if (!method.is_null() && names.is_null()) {
    return {nullptr, Code::InvalidMesh, "no mesh"};
  }
  if (!method.is_null() &&
      std::find(names.begin(), names.end(), axis) == names.end()) {
    return {nullptr, Code::UnknownAxis, axis.dump()};
  }
  return {{{"axis_name", axis},
           {"mesh_axis_names", names},
           {"reduce_output", inputs.value("reduce_output", Json(false))},
           {"reduce_scatter_output",
            inputs.value("reduce_scatter_output", Json(false))},
           {"matmul_method", method}},
          std::nullopt,
          ""};
}

bool is_same_matmul_error(const Answer& answer, const Json& error) {
  const auto type = error.at("type").get<std::string>();
  if (type == "IndexError") return answer.refused == Code::SpecLongerThanRank;
  if (type == "AssertionError") return answer.refused == Code::InvalidMesh;
  return type == "ValueError" && answer.refused == Code::UnknownAxis;
}

bool never_refuses(const Answer& /*answer*/, const Json& /*error*/) {
  return false;
}

}  // namespace

const std::vector<Function>& matmul_functions() {
  static const std::vector<Function> kFunctions = {
      {"get_matmul_output_sharding", matmul, never_refuses, nullptr,
       canonical_spec},
      {"get_output_partition_spec", collective, is_same_matmul_error, nullptr,
       canonical_spec},
      {"TensorParallelConfig", parallel_config, is_same_matmul_error},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
