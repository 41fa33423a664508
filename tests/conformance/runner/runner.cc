// SPDX-License-Identifier: Apache-2.0

#include "tests/conformance/runner/runner.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/real_host.h"
#include "base/text.h"
#include "io/formats.h"
#include "tests/conformance/runner/vector_case.h"

namespace shardplan::conformance {
namespace {

Json nested(const Json& tree) {
  if (tree.is_null()) return nullptr;
  if (tree.is_object() && tree.contains("$shape")) {
    return {{"shape", tree.at("$shape")}, {"dtype", "f32"}};
  }
  for (const char* list : {"$list", "$tuple"}) {
    if (tree.is_object() && tree.contains(list)) return nested(tree.at(list));
  }
  if (tree.is_array()) {
    Json items = Json::array();
    for (const Json& item : tree) items.push_back(nested(item));
    return items;
  }
  if (!tree.is_object()) return {{"shape", Json::array()}, {"dtype", "f32"}};
  Json map = Json::object();
  for (const auto& [key, value] : tree.items()) map[key] = nested(value);
  return map;
}

}  // namespace

std::optional<Manifest> decode_tree(const Json& tree, Diagnostics& diags) {
  Json document = nested(tree);
  if (document.is_object() && document.contains("shape") &&
      document.contains("dtype")) {
    Manifest bare;  // a bare array has an empty path
    const auto shape = document.at("shape").get<Shape>();
    if (!bare.add("", {DType::F32, shape}, {})) return std::nullopt;
    return bare;
  }
  // The wrapper prevents keys such as `name` from having a special meaning.
  document = {{"parameters", std::move(document)}};
  const std::unique_ptr<Host> host = make_real_host();
  const ManifestSource source = {
      "tree", std::make_shared<SourceFile>("tree", document.dump())};
  return kNative.read(source, *host, diags);
}

// The table of functions under test.

std::span<const Function> functions() {
  static const std::vector<Function> kAll = [] {
    std::vector<Function> all = {
        {"match_partition_rules", match_partition_rules, is_same_match_error},
        {"get_corrected_named_sharding", get_corrected_named_sharding,
         is_same_correction_error},
        {"with_sharding_constraint", with_sharding_constraint,
         is_same_correction_error},
        {"shard_layout", shard_layout, is_same_layout_error},
    };
    for (const auto* rows :
         {&auto_spec_functions(), &logical_axes_functions(),
          &matmul_functions(), &mesh_functions(), &parallel_linear_functions(),
          &partition_axis_functions(), &pattern_functions(),
          &random_functions(), &ring_functions(), &tp_dense_functions()}) {
      all.insert(all.end(), rows->begin(), rows->end());
    }
    return all;
  }();
  return kAll;
}

namespace {

enum class Outcome : uint8_t { Passed, Failed, Deviates };

std::string got_text(const Answer& answer) {
  if (!answer.refused) return answer.value.dump();
  return "refused, " + code_id(*answer.refused) + ": " +
         printable(answer.message);
}

bool agrees(const Function& function, const Answer& answer, const Json& test,
            const char* expected, const char* error) {
  if (test.contains(error)) {
    return answer.refused && function.same_kind(answer, test.at(error));
  }
  if (!test.contains(expected) || answer.refused) return false;
  const Json& wanted = test.at(expected);
  if (function.agree != nullptr) return function.agree(answer.value, wanted);
  return answer.value ==
         (function.canonical == nullptr ? wanted : function.canonical(wanted));
}

// Returns null if the file cannot be read.
Json read_json(const std::string& path, Host& host, std::string& why) {
  const auto bytes = host.read_file(path, kWholeFile, why);
  return bytes == nullptr ? Json() : Json::parse(bytes->view(), nullptr, false);
}

// Inserts rules that many cases share. They are in a file beside the cases,
// which `rules_ref` names.
void insert_rules(const std::string& path, Json& cases, Host& host) {
  Json shared;
  for (Json& test : cases) {
    if (!test.is_object() || !test.contains("inputs")) continue;
    Json& inputs = test["inputs"];
    if (!inputs.is_object() || !inputs.contains("rules_ref")) continue;
    if (shared.is_null()) {
      std::string why;
      shared =
          read_json(path.substr(0, path.rfind('/') + 1) + "maxtext_rules.json",
                    host, why);
    }
    const Json& name = inputs["rules_ref"];
    if (shared.is_object() && name.is_string() &&
        shared.contains(name.get<std::string>())) {
      inputs["rules"] = shared[name.get<std::string>()];
    }
  }
}

Outcome run_case(const Json& test, std::string& failure) {
  const auto name = test.at("function").get<std::string>();
  const Json& inputs = test.at("inputs");
  const auto all = functions();
  const auto function =
      std::find_if(all.begin(), all.end(),
                   [&](const Function& f) { return f.name == name; });
  if (function == all.end()) {
    failure = "the function is unknown";
    return Outcome::Failed;
  }
  // If a case has the answer of a newer upstream, our default answer must equal
  // that; the compatibility mode must give the original's answer.
  const bool has_head =
      test.contains("expected_head") || test.contains("error_head");
  const Answer answer = function->answer(inputs);
  if (has_head && function->compatible != nullptr) {
    const Answer compatible = function->compatible(inputs);
    if (!agrees(*function, compatible, test, "expected", "error")) {
      failure = "in compatibility mode: expected " +
                test.value("expected", test.value("error", Json())).dump() +
                "\n  got " + got_text(compatible);
      return Outcome::Failed;
    }
  }
  if (has_head ? agrees(*function, answer, test, "expected_head", "error_head")
               : agrees(*function, answer, test, "expected", "error")) {
    return Outcome::Passed;
  }
  for (const Deviation& deviation : deviations()) {
    if (deviation.function == name && deviation.applies(inputs) &&
        deviation.agrees(inputs, answer)) {
      return Outcome::Deviates;
    }
  }
  for (const char* key : {"expected_head", "error_head", "expected", "error"}) {
    if (!test.contains(key)) continue;
    failure = std::string(key) + " " + test.at(key).dump() + "\n  ";
    break;
  }
  failure += "got " + got_text(answer);
  return Outcome::Failed;
}

}  // namespace

void run_cases(const Json& cases, Results& results) {
  for (const Json& test : cases) {
    std::string name = "(malformed case)";
    std::string id = "?";
    std::string failure;
    Outcome outcome = Outcome::Failed;
    try {
      id = test.at("id").get<std::string>();
      name = test.at("function").get<std::string>();
      outcome = run_case(test, failure);
    } catch (const std::exception& problem) {
      failure = std::string("the case is not as expected: ") + problem.what();
    }
    Tally& tally = results.by_function[name];
    switch (outcome) {
      case Outcome::Passed:
        ++tally.passed;
        break;
      case Outcome::Deviates:
        ++tally.deviates;
        break;
      case Outcome::Failed:
        ++tally.failed;
        results.failures.append(id).append("\n  ").append(failure);
        results.failures += '\n';
        break;
    }
  }
}

std::string summary(const Results& results) {
  std::string text = "function passed failed deviates\n";
  Tally total;
  for (const auto& [name, tally] : results.by_function) {
    text += name + " " + std::to_string(tally.passed) + " " +
            std::to_string(tally.failed) + " " +
            std::to_string(tally.deviates) + "\n";
    total.passed += tally.passed;
    total.failed += tally.failed;
  }
  if (!results.failures.empty()) text += "\n" + results.failures + "\n";
  return text + std::to_string(total.passed) + " passed, " +
         std::to_string(total.failed) + " failed\n";
}

int64_t failed(const Results& results) {
  int64_t count = 0;
  for (const auto& [name, tally] : results.by_function) count += tally.failed;
  return count;
}

int run(const std::vector<std::string>& files, Host& host) {
  if (files.empty()) {
    host.write(Stream::Err, "usage: shardplan-conformance FILE...\n");
    return 2;
  }
  Results results;
  for (const std::string& path : files) {
    std::string why = "not a JSON array of cases";
    host.may_wait_for(path);
    Json cases = read_json(path, host, why);
    if (cases.is_array()) insert_rules(path, cases, host);
    if (!cases.is_array()) {
      for (const std::string_view part :
           {"error: `", path.c_str(), "`: ", why.c_str(), "\n"}) {
        host.write(Stream::Err, part);
      }
      return 2;
    }
    run_cases(cases, results);
  }
  host.write(Stream::Out, summary(results));
  return failed(results) > 0 ? 1 : 0;
}

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
    // ("",) is the name "", whereas a bare "" is None.
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
    // Beyond the largest float a unit would be infinite, and everything equal.
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
