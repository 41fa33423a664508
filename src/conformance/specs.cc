// SPDX-License-Identifier: Apache-2.0
// eformer: auto_partition_spec.
#include <cmath>
#include <set>

#include "conformance/vector_case.h"
#include "resolve/correct.h"

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

// eformer.escale.partition.constraints: get_corrected_named_sharding, and
// with_sharding_constraint, which corrects the same way but leaves an array
// alone when the spec is empty.

namespace {

// The corrected spec, or a refusal where a NamedSharding could not be built.
Answer corrected(const Json& shape, const PartitionSpec& spec,
                 const Mesh& mesh) {
  const CorrectedSpec result =
      correct(spec, shape.get<Shape>(), mesh, {}, OnIndivisible::Drop);
  for (const Correction& correction : result.corrections) {
    if (correction.code == Code::RepeatedAxis) {
      return {nullptr, correction.code, correction.reason};
    }
  }
  return {encode_spec(result.spec), std::nullopt, ""};
}

Answer constrained(const Json& shape, const Json& spec, const Mesh& mesh) {
  const PartitionSpec asked = decode_spec(spec);
  if (asked.dims.empty()) return {nullptr, std::nullopt, ""};
  return corrected(shape, asked, mesh);
}

// Leaves in traversal order: shapes are lists, anything else is no array.
Answer constrained_tree(const Json& tree, const Json& spec, const Mesh& mesh) {
  Json applied = Json::array();
  for (const Json& leaf : tree) {
    if (!leaf.is_array()) continue;
    Answer answer = constrained(leaf, spec, mesh);
    if (answer.refused) return answer;
    applied.push_back(std::move(answer.value));
  }
  return {
      {{"applied_in_traversal_order", applied}, {"non_arrays_untouched", true}},
      std::nullopt,
      ""};
}

Answer no_spec() { return {nullptr, Code::MalformedDocument, "no spec"}; }

}  // namespace

Answer get_corrected_named_sharding(const Json& inputs) {
  Diagnostics diags;
  const std::optional<Mesh> mesh = decode_mesh(inputs.at("mesh"), diags);
  if (!mesh) return refusal(diags);
  if (inputs.at("spec").is_null()) return no_spec();
  Answer answer =
      corrected(inputs.at("shape"), decode_spec(inputs.at("spec")), *mesh);
  if (answer.refused) return answer;
  Json names = Json::array();
  for (const Axis& axis : mesh->axes()) names.push_back(axis.name);
  answer.value = {{"spec", answer.value}, {"mesh_axis_names", names}};
  return answer;
}

Answer with_sharding_constraint(const Json& inputs) {
  Diagnostics diags;
  const std::optional<Mesh> mesh = decode_mesh(inputs.at("mesh"), diags);
  if (!mesh) return refusal(diags);
  if (inputs.at("spec").is_null()) return no_spec();
  if (inputs.contains("tree")) {
    return constrained_tree(inputs.at("tree"), inputs.at("spec"), *mesh);
  }
  Answer answer = constrained(inputs.at("shape"), inputs.at("spec"), *mesh);
  if (answer.refused) return answer;
  answer.value = {{"applied", answer.value}};
  return answer;
}

bool is_same_correction_error(const Answer& answer, const Json& error) {
  const auto type = error.at("type").get<std::string>();
  if (type == "DuplicateSpecError") return answer.refused == Code::RepeatedAxis;
  if (type == "TypeError") return answer.refused == Code::MalformedDocument;
  return type == "AssertionError" && answer.refused == Code::InvalidMesh;
}

// Where jax places the shards of an array: shapes, indices and slices for every
// device.

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
