// SPDX-License-Identifier: Apache-2.0
// flax.linen.spmd: logical_to_mesh_axes and its companions.
#include "resolve/logical_axes.h"

#include <vector>

#include "conformance/vector_case.h"

namespace shardplan::conformance {
namespace {

constexpr std::string_view kRepeated = "Unsupported: Dimensions ";
constexpr std::string_view kNoRules = "Unknown axis rule specification type.";
constexpr std::string_view kUnplaced = "did not match a rule";

std::optional<std::string> decode_label(const Json& label) {
  if (label.is_null()) return std::nullopt;
  if (label.is_object()) return std::string(kUnconstrained);
  return label.get<std::string>();
}

std::optional<AxisLabels> decode_labels(const Json& labels) {
  if (labels.is_null()) return std::nullopt;
  AxisLabels result;
  for (const Json& label : labels) result.push_back(decode_label(label));
  return result;
}

// Empty when they are no list.
std::optional<std::vector<LogicalRule>> decode_logical_rules(
    const Json& rules) {
  if (!rules.is_array()) return std::nullopt;
  std::vector<LogicalRule> result;
  for (const Json& rule : rules) {
    const Json value = Json::array({plain_lists(rule.at(1))});
    result.push_back(
        {decode_label(rule.at(0)), decode_spec(value).dims.front(), {}, {}});
  }
  return result;
}

Answer refused(Code code, std::string_view message) {
  return {nullptr, code, std::string(message)};
}

Json encode_assigned(const LogicalMapping& mapping, bool show_unassigned) {
  Json result = encode_spec(spec_of(mapping));
  for (size_t i = 0; show_unassigned && i < mapping.dims.size(); ++i) {
    if (!mapping.dims[i].placed) result[i] = {{"$unassigned", true}};
  }
  return result;
}

Answer map_axes(const Json& labels, const Json& rules, FlaxVersion version,
                bool show_unassigned) {
  const auto decoded = decode_labels(labels);
  if (!decoded) return {nullptr, std::nullopt, ""};
  const auto decoded_rules = decode_logical_rules(rules);
  const LogicalMapping mapping = map_logical_axes(
      *decoded, decoded_rules.value_or(std::vector<LogicalRule>()), version);
  if (!mapping.repeated.empty()) {
    return refused(Code::RepeatedLogicalAxis, kRepeated);
  }
  if (!decoded_rules) return refused(Code::MalformedDocument, kNoRules);
  return {encode_assigned(mapping, show_unassigned), std::nullopt, ""};
}

Answer map_tree(const Json& tree, const Json& rules, FlaxVersion version) {
  if (tree.is_object() && tree.contains("$P")) {
    return map_axes(tree.at("$P"), rules, version, false);
  }
  Answer answer{tree, std::nullopt, ""};
  for (auto& [key, value] : answer.value.items()) {
    if (!tree.is_structured()) break;
    const Answer part = map_tree(value, rules, version);
    if (part.refused) return part;
    value = part.value;
  }
  return answer;
}

// Without rules of its own a call takes those of its context.
const Json& rules_of(const Json& inputs) {
  const Json& rules = inputs.at("rules");
  return rules.is_null() && inputs.contains("context_rules")
             ? inputs.at("context_rules")
             : rules;
}

template <FlaxVersion version>
Answer constrain(const Json& inputs) {
  const auto rules = decode_logical_rules(rules_of(inputs));
  const auto fallback = find_fallback(inputs.at("fallback").get<std::string>());
  if (!fallback) return refused(Code::Usage, "unknown fallback");
  const LogicalConstraint constraint = logical_constraint(
      decode_labels(inputs.at("array_dim_names")),
      rules.value_or(std::vector<LogicalRule>()), *fallback, version);
  switch (constraint.outcome) {
    case ConstraintOutcome::RepeatedLabel:
      return refused(Code::RepeatedLogicalAxis, kRepeated);
    case ConstraintOutcome::Unplaced:
      return refused(Code::UnplacedLogicalAxis, kUnplaced);
    case ConstraintOutcome::Unconstrained:
      return {{{"constraint", "none_applied"}}, std::nullopt, ""};
    case ConstraintOutcome::Constrained:
      break;
  }
  return {{{"constraint", encode_spec(constraint.spec)}}, std::nullopt, ""};
}

template <FlaxVersion version, bool show_unassigned>
Answer map_case(const Json& inputs) {
  const char* key = inputs.contains("names") ? "names" : "array_dim_names";
  return map_axes(inputs.at(key), rules_of(inputs), version, show_unassigned);
}

template <FlaxVersion version>
Answer tree_case(const Json& inputs) {
  return map_tree(inputs.at("tree"), rules_of(inputs), version);
}

bool is_same_logical_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  if (message.starts_with(kRepeated)) {
    return answer.refused == Code::RepeatedLogicalAxis;
  }
  if (message == kNoRules) return answer.refused == Code::MalformedDocument;
  return message.ends_with(kUnplaced) &&
         answer.refused == Code::UnplacedLogicalAxis;
}

// {"constraint": spec} or a spec.
Json canonical_constraint(const Json& expected) {
  if (!expected.is_object() || !expected.contains("constraint")) {
    return canonical_spec(expected);
  }
  return {{"constraint", canonical_spec(expected.at("constraint"))}};
}

constexpr auto kNow = FlaxVersion::Current;
constexpr auto kThen = FlaxVersion::March2024;

}  // namespace

const std::vector<Function>& logical_axes_functions() {
  static const std::vector<Function> kFunctions = {
      {"flax.logical_to_mesh_axes", map_case<kNow, false>,
       is_same_logical_error, map_case<kThen, false>, canonical_constraint},
      {"flax._logical_to_mesh_axes", map_case<kNow, true>,
       is_same_logical_error, map_case<kThen, true>, canonical_constraint},
      {"flax.logical_to_mesh_sharding", map_case<kNow, false>,
       is_same_logical_error, map_case<kThen, false>, canonical_constraint},
      {"flax.logical_to_mesh", tree_case<kNow>, is_same_logical_error,
       tree_case<kThen>},
      {"flax.with_logical_constraint", constrain<kNow>, is_same_logical_error,
       constrain<kThen>, canonical_constraint},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
