// SPDX-License-Identifier: Apache-2.0
// Plans of transformers' configuration files, and `model.tp_plan` as JSON,
// against what transformers itself shards (tests/data/hf_tp_plan_models.json).
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/dialects.h"
#include "tests/io/document_text.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

using nlohmann::json;

// "> a~" with the prefix "l.0." as {"l.0.", "a.weight"}.
std::vector<std::string> recorded_names(const std::string& text,
                                        const std::string& prefix) {
  std::vector<std::string> names;
  std::istringstream words(text);
  for (std::string name; words >> name;) {
    if (name.front() == '>') name = prefix + name.substr(1);
    if (name.back() == '~') name.replace(name.size() - 1, 1, ".weight");
    names.push_back(name);
  }
  return names;
}

std::string folded_prefix(std::string prefix) {
  const size_t at = prefix.find(".0.");
  if (at != std::string::npos) prefix[at + 1] = '*';
  return prefix;
}

json plan_of(const json& styles, const std::string& prefix) {
  json plan = json::object();
  for (const auto& [style, text] : styles.items()) {
    for (const auto& key : recorded_names(text, prefix)) plan[key] = style;
  }
  return plan;
}

// The configuration file, as far as a plan is concerned.
std::string configuration(const json& file) {
  std::string text = "from ...configuration_utils import PreTrainedConfig\n\n";
  for (const json& each : file.at("classes")) {
    if (file.at("strict").get<bool>()) text += "@strict\n";
    text += "class Config(PreTrainedConfig):\n    model_type = " +
            each.at("type").dump() + "\n    base_model_tp_plan = ";
    text += each.at("plan").is_string()
                ? "{**{f\"{a}.x\": \"colwise\" for a in (\"b\",)}}\n\n"
                : plan_of(each.at("plan"), "layers.*.").dump() + "\n\n";
  }
  return text;
}

// "name: shards dimension 0, not 1" for each that differs.
std::string differences(const json& model, const std::string& rules_text) {
  Diagnostics diags;
  RuleSet rules;
  if (!kHfTpPlan.read(std::make_shared<SourceFile>("r", rules_text), {}, rules,
                      diags)) {
    return "refused: " + testing::text_of(diags);
  }
  Manifest manifest;
  std::map<std::string, std::string> expected;
  for (const auto& [outcome, text] : model.at("parameters").items()) {
    const auto rank = static_cast<size_t>(outcome.front() - '0');
    for (const std::string& name :
         recorded_names(text, model.at("prefix").get<std::string>())) {
      // Layers that differ: what the first of them does is not known apart.
      if (!manifest.add(name, {DType::BF16, Shape(rank, 8)}, {})) continue;
      expected[name] = outcome.size() > 1 ? outcome.substr(2) : "";
    }
  }
  auto plan = resolve(manifest, rules, testing::mesh("tp=2"), {}, diags);
  REQUIRE(plan);
  std::string all;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const PartitionSpec& spec = plan->of(i).spec;
    std::string found;
    for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
      if (!spec.dims[dim].empty()) found += std::to_string(dim);
    }
    const std::string name(manifest.name(i));
    if (found != expected[name]) {
      all += name + ": shards `" + found + "`, not `" + expected[name] + "`\n";
    }
  }
  return all;
}

TEST_CASE("configuration files shard as model.tp_plan of transformers does") {
  const json record =
      testing::read_json(testing::data_path("hf_tp_plan_models.json"));
  REQUIRE(record.size() == 2);
  for (const auto& [name, files] : record.items()) {
    const std::string version = name;
    CAPTURE(version);
    int models = 0;
    for (const json& file : files) {
      CAPTURE(file.at("file").get<std::string>());
      const std::string text = configuration(file);
      for (const json& model : file.at("models")) {
        CAPTURE(model.at("model").get<std::string>());
        ++models;
        const json plan = {
            {"transformers_version", version},
            {"tp_plan",
             plan_of(model.at("tp_plan"),
                     folded_prefix(model.at("prefix").get<std::string>()))}};
        CHECK(differences(model, plan.dump()) == "");
        if (text.find("f\"") == std::string::npos) {
          CHECK(differences(model, text) == "");
        } else {
          CHECK(differences(model, text).find("is computed here") !=
                std::string::npos);
        }
      }
    }
    CHECK(models >= (version == "4.57.3" ? 51 : 129));
  }
}

}  // namespace
}  // namespace shardplan
