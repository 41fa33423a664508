// SPDX-License-Identifier: Apache-2.0
// eformer.escale.partition.constraints: get_corrected_named_sharding, and
// with_sharding_constraint, which corrects the same way but leaves an array
// alone when the spec is empty.
#include "conformance/vector_case.h"
#include "resolve/correct.h"

namespace shardplan::conformance {
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

}  // namespace shardplan::conformance
