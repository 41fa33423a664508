// SPDX-License-Identifier: Apache-2.0
// eformer's create_pattern_based_partition_spec: the rules that a text holds,
// and what they say of names.
#include "conformance/vector_case.h"
#include "io/pattern_rules.h"
#include "resolve/match.h"

namespace shardplan::conformance {
namespace {

constexpr std::string_view kArrows = "too many values to unpack";
constexpr std::string_view kNoMesh = "No mesh found";

// What one name gets. Rules are compiled one by one, up to the first that is
// found: an invalid one behind it is never noticed.
Json spec_of_name(const RuleSet& rules, const std::string& name,
                  const Json& otherwise) {
  Manifest manifest;
  manifest.add(name, {DType::F32, {}}, {});
  for (const Rule& rule : rules.rules) {
    RuleSet one;
    one.rules = {rule};
    Diagnostics diags;
    const auto matcher =
        Matcher::compile(one, manifest.names_are_plain(), diags);
    if (!matcher) return {{"error", {{"type", "error"}}}};
    const Matches matches = match(
        *matcher, manifest, [](size_t) { return true; }, 1);
    if (matches.winner[0] >= 0) return encode_spec(rule.spec);
  }
  return otherwise.is_null() ? Json::array() : canonical_spec(otherwise);
}

Answer read_and_apply(const Json& inputs) {
  if (!inputs.value("mesh_given", true)) {
    return {nullptr, Code::InvalidMesh, std::string(kNoMesh)};
  }
  Diagnostics diags;
  RuleSet rules;
  const auto source = std::make_shared<SourceFile>(
      "--pattern", inputs.at("pattern").get<std::string>());
  if (!read_pattern(source, PatternReading::Original, rules, diags)) {
    return refusal(diags);
  }
  Json parsed = Json::array();
  for (const Rule& rule : rules.rules) {
    parsed.push_back({rule.pattern, encode_spec(rule.spec)});
  }
  Json result = Json::object();
  for (const Json& name : inputs.at("names")) {
    const auto text = name.get<std::string>();
    result[text] = spec_of_name(rules, text, inputs.at("default_spec"));
  }
  return {{{"rules", parsed}, {"result", result}}, std::nullopt, ""};
}

bool is_same_pattern_error(const Answer& answer, const Json& error) {
  const auto message = error.at("message").get<std::string>();
  if (message.starts_with(kArrows)) {
    return answer.refused == Code::MalformedDocument;
  }
  return message.starts_with(kNoMesh) && answer.refused == Code::InvalidMesh;
}

// Texts of Python's errors are not compared.
Json without_error_texts(const Json& expected) {
  Json result = expected;
  if (!result.contains("result")) return result;
  for (auto& [name, value] : result["result"].items()) {
    if (value.is_object() && value.contains("error")) {
      value = {{"error", {{"type", "error"}}}};
    }
  }
  return result;
}

}  // namespace

const std::vector<Function>& pattern_functions() {
  static const std::vector<Function> kFunctions = {
      {"create_pattern_based_partition_spec", read_and_apply,
       is_same_pattern_error, nullptr, without_error_texts},
  };
  return kFunctions;
}

}  // namespace shardplan::conformance
