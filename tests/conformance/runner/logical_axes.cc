// SPDX-License-Identifier: Apache-2.0
// Conformance of flax.linen.spmd: logical_to_mesh_axes and related functions.
#include "tests/conformance/runner/logical_axes.h"

#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan {

LogicalConstraint logical_constraint(const std::optional<AxisLabels>& labels,
                                     std::span<const LogicalRule> rules,
                                     RulesFallback fallback,
                                     FlaxVersion version) {
  if (!labels || rules.empty()) return {};
  const LogicalMapping mapping = map_logical_axes(*labels, rules, version);
  if (!mapping.repeated.empty()) return {ConstraintOutcome::RepeatedLabel, {}};
  if (fallback != RulesFallback::AxisIsUnsharded && !is_placed(mapping)) {
    return {fallback == RulesFallback::RaiseError
                ? ConstraintOutcome::Unplaced
                : ConstraintOutcome::Unconstrained,
            {}};
  }
  return {ConstraintOutcome::Constrained, spec_of(mapping)};
}

}  // namespace shardplan

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

// Decodes labels. A text is a sequence of letters, as in Python.
std::optional<AxisLabels> decode_labels(const Json& given) {
  const Json labels = plain_lists(given);
  if (labels.is_null()) return std::nullopt;
  AxisLabels result;
  if (labels.is_string()) {
    const auto text = labels.get<std::string>();
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      decode_utf8(text, end);
      result.emplace_back(text.substr(begin, end - begin));
    }
    return result;
  }
  for (const Json& label : labels) result.push_back(decode_label(label));
  return result;
}

// If the labels are a text, Python finds any substring, so the rule applies to
// the letter at which its name begins.
void aim_at_letter(const std::string& text, LogicalRule& rule) {
  const size_t at = rule.name ? text.find(*rule.name) : std::string::npos;
  if (at >= text.size()) return;
  size_t end = at;
  decode_utf8(text, end);
  rule.name = text.substr(at, end - at);
}

struct DecodedRules {
  std::vector<LogicalRule> rules;
  bool is_list = true;
  // A value is a tuple within a tuple, or None is searched for in a text.
  bool is_malformed = false;
};

// Decodes rules. Without rules, those of the context apply, which are empty by
// default.
DecodedRules decode_logical_rules(const Json& given, const Json& labels) {
  DecodedRules result;
  const Json rules = plain_lists(given);
  if (rules.is_null()) return result;
  result.is_list = rules.is_array();
  for (const Json& rule : rules) {
    if (!result.is_list) break;
    const Json& value = rule.at(1);
    for (const Json& axis : value) {
      result.is_malformed = result.is_malformed || axis.is_array();
    }
    LogicalRule decoded{decode_label(rule.at(0)),
                        decode_spec(Json::array({value})).dims.front(),
                        {},
                        {}};
    if (labels.is_string()) {
      result.is_malformed = result.is_malformed || !decoded.name;
      aim_at_letter(labels.get<std::string>(), decoded);
    }
    result.rules.push_back(std::move(decoded));
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
  const DecodedRules rule_list = decode_logical_rules(rules, labels);
  const LogicalMapping mapping =
      map_logical_axes(*decoded, rule_list.rules, version);
  if (!mapping.repeated.empty()) {
    return refused(Code::RepeatedLogicalAxis, kRepeated);
  }
  if (!rule_list.is_list) return refused(Code::MalformedDocument, kNoRules);
  if (rule_list.is_malformed) {
    return refused(Code::MalformedDocument, "a rule that Python rejects");
  }
  return {encode_assigned(mapping, show_unassigned), std::nullopt, ""};
}

// Maps a tree whose leaves are specs or texts, which are sequences of letters.
Answer map_tree(const Json& tree, const Json& rules, FlaxVersion version) {
  if (tree.is_object() && tree.contains("$P")) {
    return map_axes(tree.at("$P"), rules, version, false);
  }
  if (tree.is_string()) return map_axes(tree, rules, version, false);
  if (tree.is_number() || tree.is_boolean()) {
    return refused(Code::MalformedDocument, "no names of axes");
  }
  Answer answer{tree, std::nullopt, ""};
  for (auto& [key, value] : answer.value.items()) {
    if (!tree.is_structured()) break;
    const Answer part = map_tree(Json(value), rules, version);
    if (part.refused) return part;
    value = part.value;
  }
  return answer;
}

// Returns the rules of a call, or those of its context if it has none.
const Json& rules_of(const Json& inputs) {
  const Json& rules = inputs.at("rules");
  return rules.is_null() && inputs.contains("context_rules")
             ? inputs.at("context_rules")
             : rules;
}

template <FlaxVersion version>
Answer constrain(const Json& inputs) {
  const Json& labels = inputs.at("array_dim_names");
  const Json& given = rules_of(inputs);
  const DecodedRules rules = decode_logical_rules(given, labels);
  const auto fallback = find_fallback(inputs.at("fallback").get<std::string>());
  if (!fallback) return refused(Code::Usage, "unknown fallback");
  if (!rules.is_list && !given.empty()) {
    return map_axes(labels, given, version, false);
  }
  const LogicalConstraint constraint = logical_constraint(
      decode_labels(labels), rules.rules, *fallback, version);
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
  return map_tree(plain_lists(inputs.at("tree")), rules_of(inputs), version);
}

// Checks the spec as a NamedSharding does, which knows its mesh and allows an
// axis only once.
template <FlaxVersion version>
Answer sharding_case(const Json& inputs) {
  Answer answer = map_case<version, false>(inputs);
  if (answer.refused) return answer;
  Diagnostics diags;
  const auto mesh = inputs.contains("mesh")
                        ? decode_mesh(inputs.at("mesh"), diags)
                        : std::nullopt;
  std::set<AxisName> used;
  std::optional<Answer> unknown;
  for (const AxisNames& axes : decode_spec(answer.value).dims) {
    for (const AxisName& axis : axes) {
      if (axis == kUnconstrained) continue;
      if (!used.insert(axis).second) return refused(Code::RepeatedAxis, axis);
      if (mesh && !mesh->find(axis)) unknown = refused(Code::UnknownAxis, axis);
    }
  }
  return unknown ? *unknown : answer;
}

bool is_same_logical_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  if (message.starts_with(kRepeated)) {
    return answer.refused == Code::RepeatedLogicalAxis;
  }
  if (message == kNoRules || message.find("nested tuple") != message.npos ||
      error.at("type") == "TypeError") {
    return answer.refused == Code::MalformedDocument;
  }
  if (message.find("duplicate entries") != message.npos) {
    return answer.refused == Code::RepeatedAxis;
  }
  if (message.find("not found in mesh") != message.npos) {
    return answer.refused == Code::UnknownAxis;
  }
  return message.ends_with(kUnplaced) &&
         answer.refused == Code::UnplacedLogicalAxis;
}

// Converts {"constraint": spec} or a spec.
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
      {"flax.logical_to_mesh_sharding", sharding_case<kNow>,
       is_same_logical_error, sharding_case<kThen>, canonical_constraint},
      {"flax.logical_to_mesh", tree_case<kNow>, is_same_logical_error,
       tree_case<kThen>, plain_lists},
      {"flax.with_logical_constraint", constrain<kNow>, is_same_logical_error,
       constrain<kThen>, canonical_constraint},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
