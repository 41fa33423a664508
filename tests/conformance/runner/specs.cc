// SPDX-License-Identifier: Apache-2.0
// Conformance of eformer: auto_partition_spec.

#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "base/checked.h"
#include "io/dialects.h"
#include "io/pattern_rules.h"
#include "resolve/correct.h"
#include "resolve/match.h"
#include "resolve/resolve.h"
#include "tests/conformance/runner/runner.h"
#include "tests/conformance/runner/vector_case.h"

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
  // "Fewer than 8.5 elements" means "fewer than 9".
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

// Conformance of eformer.escale.partition.constraints:
// get_corrected_named_sharding and with_sharding_constraint, which corrects in
// the same way but leaves an array unchanged if the spec is empty.

namespace {

// Returns the corrected spec, or a refusal if a NamedSharding could not be
// built.
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

// Corrects the leaves in traversal order: shapes are lists, any other value is
// not an array.
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

// Conformance of jax's placement of an array's shards: shapes, indices and
// slices for every device.

namespace {

// Returns a refusal if the spec would need correction, since a sharding is
// applied unchanged or not at all. JAX checks for repeated axes first.
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

// Conformance of eformer's create_pattern_based_partition_spec: the rules in a
// text, and the specs that they give names.

namespace {

constexpr std::string_view kArrows = "too many values to unpack";
constexpr std::string_view kNoMesh = "No mesh found";

// Returns the spec of one name. Rules are compiled one by one up to the first
// that matches, so a later invalid rule is never noticed.
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

// Removes the texts of Python's errors, which are not compared.
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

// Conformance of eformer.escale.partition.constraints.match_partition_rules.

namespace {

// The value of MIN_SHARDING_SIZE if the environment does not set it.
constexpr int64_t kDefaultMinSize = 16384;

// Returns Python's int() of a text.
std::optional<int64_t> python_int(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
  if (text.starts_with("+") && !text.starts_with("+-")) text.remove_prefix(1);
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || last != end) return std::nullopt;
  return value;
}

// Returns the number of elements; "fewer than 16.5" means "fewer than 17".
// Returns empty if the environment variable, which is always read, is not a
// number.
std::optional<int64_t> decode_min_size(const Json& inputs) {
  int64_t fallback = kDefaultMinSize;
  if (const auto* name = "env_MIN_SHARDING_SIZE"; inputs.contains(name)) {
    const auto read = python_int(inputs.at(name).get<std::string>());
    if (!read) return std::nullopt;
    fallback = *read;
  }
  const Json& size = inputs.at("min_size");
  if (size.is_string()) return 0;  // the argument is absent
  if (size.is_number_float()) {
    return static_cast<int64_t>(std::ceil(size.get<double>()));
  }
  return size.is_number() ? size.get<int64_t>() : fallback;
}

// Decodes rules with the reader of rules files, which rejects a rule without a
// spec as the program does.
std::optional<RuleSet> decode_rules(const Json& rules, Diagnostics& diags) {
  RuleSet result;
  for (const Json& rule : rules) {
    if (rule.at(1).is_null()) {
      RuleSet refused;
      const Json file = {{"rules", Json::array({rule})}};
      SHARDPLAN_CHECK(
          !kYamlRules.read(std::make_shared<SourceFile>("rules", file.dump()),
                           {}, refused, diags));
      return std::nullopt;
    }
    Rule decoded;
    decoded.pattern = rule.at(0).get<std::string>();
    decoded.spec = decode_spec(rule.at(1));
    result.rules.push_back(std::move(decoded));
  }
  return result;
}

// Returns the result of match_partition_rules for a tensor, before correction.
PartitionSpec matched_spec(const PartitionSpec& rule, const Shape& shape,
                           const ResolveOptions& options) {
  if (!options.strict) return rule;
  const auto elements = element_count(shape);
  if (elements && *elements < options.min_size) return {};
  PartitionSpec cut = rule;
  if (cut.dims.size() > shape.size()) cut.dims.resize(shape.size());
  return cut;
}

}  // namespace

Answer match_partition_rules(const Json& inputs) {
  Diagnostics diags;
  const std::optional<RuleSet> rules = decode_rules(inputs.at("rules"), diags);
  if (!rules) return refusal(diags);
  const std::optional<Manifest> manifest =
      decode_tree(inputs.at("tree"), diags);
  if (!manifest) return refusal(diags);
  const auto min_size = decode_min_size(inputs);
  if (!min_size) return {nullptr, Code::Usage, "no number"};
  ResolveOptions options;
  options.min_size = *min_size;
  options.strict = inputs.at("strict").get<bool>();
  const auto matcher =
      Matcher::compile(*rules, manifest->names_are_plain(), diags);
  if (!matcher) return refusal(diags);
  const Matches matches = match(
      *matcher, *manifest,
      [&](size_t i) {
        return !options.strict || !manifest->type(i).shape.empty();
      },
      1);

  Json result = Json::array();
  for (size_t i = 0; i < manifest->size(); ++i) {
    const std::string name(manifest->name(i));
    const Shape& shape = manifest->type(i).shape;
    PartitionSpec spec;
    if (matches.winner[i] >= 0) {
      const auto rule = static_cast<size_t>(matches.winner[i]);
      spec = matched_spec(rules->rules[rule].spec, shape, options);
    } else if (!options.strict || !shape.empty()) {
      return {nullptr, Code::UnmatchedParameter, name};
    }
    result.push_back({name, encode_spec(spec)});
  }
  // A warning reports where RE2 interprets a pattern differently from Python.
  for (const Diagnostic& diagnostic : diags.all()) {
    if (diagnostic.code == Code::PatternDiffersFromPython) {
      return {result, std::nullopt, code_id(diagnostic.code)};
    }
  }
  return {result, std::nullopt, ""};
}

bool is_same_match_error(const Answer& answer, const Json& error) {
  const auto type = error.at("type").get<std::string>();
  const auto message = error.at("message").get<std::string>();
  constexpr std::string_view kUnmatched =
      "Partition rule not found for param: ";
  if (message.starts_with(kUnmatched)) {
    return answer.refused == Code::UnmatchedParameter &&
           message.substr(kUnmatched.size()) == answer.message;
  }
  if (type == "TypeError") return answer.refused == Code::MalformedDocument;
  if (message.starts_with("invalid literal for int")) {
    return answer.refused == Code::Usage;
  }
  return answer.refused == Code::UnsupportedPattern;
}

}  // namespace shardplan::conformance
