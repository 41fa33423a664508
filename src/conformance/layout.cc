// SPDX-License-Identifier: Apache-2.0
// Where jax places the shards of an array: shapes, indices and slices for every
// device.
#include <set>

#include "conformance/vector_case.h"
#include "resolve/correct.h"

namespace shardplan::conformance {
namespace {

// A sharding is applied as it is or not at all, so a spec that would need
// correction is refused; JAX looks for repeated axes first.
std::optional<Answer> refused_layout(const PartitionSpec& spec,
                                     const Shape& shape, const Mesh& mesh) {
  std::set<AxisName> used;
  for (const AxisNames& axes : spec.dims) {
    for (const AxisName& axis : axes) {
      if (used.insert(axis).second) continue;
      return Answer{nullptr, Code::RepeatedAxis, axis};
    }
  }
  for (const AxisName& axis : used) {
    if (!mesh.find(axis)) return Answer{nullptr, Code::UnknownAxis, axis};
  }
  for (const Correction& correction :
       correct(spec, shape, mesh, {}, OnIndivisible::Error).corrections) {
    return Answer{nullptr, correction.code, correction.reason};
  }
  return std::nullopt;
}

}  // namespace

Answer shard_layout(const Json& inputs) {
  Diagnostics diags;
  const std::optional<Mesh> mesh = decode_mesh(inputs.at("mesh"), diags);
  if (!mesh) return refusal(diags);
  const auto shape = inputs.at("shape").get<Shape>();
  PartitionSpec spec = decode_spec(inputs.at("spec"));
  if (auto refused = refused_layout(spec, shape, *mesh)) return *refused;
  spec.dims.resize(shape.size());

  Json indices = Json::array();
  Json slices = Json::array();
  for (int64_t device = 0; device < mesh->devices(); ++device) {
    const std::vector<int64_t> coordinates = mesh->coordinates(device);
    Json index = Json::array();
    Json slice = Json::array();
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      index.push_back(shard_index(*mesh, spec.dims[dim], coordinates));
      const Slice rows = dimension_slice(*mesh, spec.dims[dim], Cut::Even,
                                         shape[dim], coordinates);
      slice.push_back({rows.begin, rows.end});
    }
    indices.push_back(std::move(index));
    slices.push_back(std::move(slice));
  }
  const int64_t shards = shard_count(*mesh, spec);
  return {{{"shard_shape", local_shape({&*mesh, spec, Cut::Even}, shape)},
           {"num_distinct_shards", shards},
           {"replication", mesh->devices() / shards},
           {"shard_index[device]", indices},
           {"slices[device]", slices}},
          std::nullopt,
          ""};
}

bool is_same_layout_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  const auto says = [&](const char* words) {
    return message.find(words) != std::string::npos;
  };
  if (says("should evenly divide")) {
    return answer.refused == Code::IndivisibleDimension;
  }
  if (says("valid for values of rank")) {
    return answer.refused == Code::SpecLongerThanRank;
  }
  if (says("not found in mesh")) return answer.refused == Code::UnknownAxis;
  return says("duplicate entries") && answer.refused == Code::RepeatedAxis;
}

}  // namespace shardplan::conformance
