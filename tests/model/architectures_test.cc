// SPDX-License-Identifier: Apache-2.0
#include "model/architectures.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/shipped.h"
#include "model/config_classes.h"

namespace shardplan {
namespace {

TEST_CASE("architectures: every shipped file is sound and named as its file") {
  const auto names = architecture_names();
  CHECK(names.size() >= 14);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto all = find_architecture(name);
    REQUIRE(all != nullptr);
    CHECK(all->name == name);
    CHECK_FALSE(all->summary.empty());
  }
  CHECK(find_architecture("blocks") == nullptr);
  CHECK(find_architecture("lama") == nullptr);
}

TEST_CASE("architectures: the index of model types is what the files say") {
  std::vector<std::string> types;
  for (const std::string& name : architecture_names()) {
    const auto all = find_architecture(name);
    types.insert(types.end(), all->model_types.begin(), all->model_types.end());
    for (const ArchitectureClass& each : all->classes) {
      CAPTURE(each.class_name);
      Diagnostics diags;
      const auto config =
          parse_document(std::make_shared<const SourceFile>(
                             "config.json", R"({"architectures": [")" +
                                                each.class_name + R"("]})"),
                         diags);
      const ArchitectureChoice kind = choose_architecture(config->root());
      REQUIRE(kind);
      REQUIRE(kind.model_class != nullptr);
      CHECK(kind.model_class->class_name == each.class_name);
    }
  }
  std::sort(types.begin(), types.end());
  CHECK(types == known_model_types());
  CHECK(std::adjacent_find(types.begin(), types.end()) == types.end());
}

TEST_CASE("architectures: the order of generality is what the files say") {
  std::map<std::string, int> builders;
  std::vector<std::string> computing;
  for (const std::string& name : architecture_names()) {
    auto all = find_architecture(name);
    if (all->computes) computing.push_back(name);
    for (; !all->like.empty(); all = find_architecture(all->like)) {
      ++builders[all->like];
    }
  }
  CHECK(builders.at("llama") > 10);
  std::stable_sort(computing.begin(), computing.end(),
                   [&](const std::string& a, const std::string& b) {
                     return builders[a] > builders[b];
                   });
  CHECK(computing == computing_architectures_general_first());
}

TEST_CASE(
    "architectures: a class without a type is of the model it is named for") {
  struct Row {
    const char* config;
    const char* architecture;
  };
  for (const Row& row : {
           // Two others write Llama's classes, and come before it by name.
           Row{R"({"architectures": ["LlamaModel"]})", "llama"},
           Row{R"({"architectures": ["LlamaForCausalLM"]})", "llama"},
           Row{R"({"architectures": ["InternLM3Model"]})", "internlm3"},
           Row{R"({"architectures": ["T5Model"]})", "t5"},
           Row{R"({"architectures": ["BertModel"]})", "bert"},
           Row{R"({"architectures": ["FalconForCausalLM"]})", "falcon"},
           // Of a part alone, or of one under the config of the whole.
           Row{R"({"architectures": ["Gemma3ForCausalLM"]})", "gemma3_text"},
           Row{R"({"architectures": ["Gemma3ForCausalLM"], "text_config": {}})",
               "gemma3"},
           Row{R"({"architectures": ["Llama4TextModel"]})", "llama4_text"},
           Row{R"({"architectures": ["Llama4VisionModel"]})",
               "llama4_vision_model"},
           Row{R"({"architectures": ["Unknown", "T5Model"]})", "t5"},
           Row{R"({"architectures": ["Unknown"]})", ""},
           Row{R"({"model_type": null, "architectures": []})", ""},
       }) {
    CAPTURE(row.config);
    Diagnostics diags;
    const auto config = parse_document(
        std::make_shared<const SourceFile>("config.json", row.config), diags);
    REQUIRE(config);
    const ArchitectureChoice kind = choose_architecture(config->root());
    CHECK((kind ? kind.architecture->name : "") == row.architecture);
  }
}

TEST_CASE("architectures: their model types have a recorded class") {
  // Their sections have, and of the whole no key changes a tensor; or it is
  // of the model's own code.
  const std::set<std::string> without = {"RefinedWeb",
                                         "RefinedWebModel",
                                         "gla",
                                         "gpt_neox_reward_model",
                                         "kimi_k2",
                                         "locateanything",
                                         "logics",
                                         "mimo",
                                         "minimax_m1",
                                         "minimax_m3",
                                         "minimax_text_01",
                                         "moonvit",
                                         "qwen"};
  for (const std::string& type : known_model_types()) {
    CAPTURE(type);
    CHECK((find_config_class(type) == nullptr) == without.contains(type));
  }
}

TEST_CASE("configuration classes: defaults by version, and their other names") {
  const auto mistral = find_config_class("mistral");
  REQUIRE(mistral != nullptr);
  CHECK(mistral->title().starts_with("MistralConfig of transformers 5."));
  CHECK(mistral->default_of("num_key_value_heads", false)->integer() == 8);
  CHECK_FALSE(mistral->default_of("head_dim", false));
  CHECK_FALSE(mistral->default_of("no_such_key", false));
  CHECK(mistral->changes_tensors("num_key_value_heads"));
  CHECK_FALSE(mistral->changes_tensors("rms_norm_eps"));
  // Only one of the versions has it.
  CHECK_FALSE(mistral->default_of("rope_theta", false));
  CHECK(mistral->default_of("rope_theta", true)->number() == 10'000);
  const auto gpt2 = find_config_class("gpt2");
  const std::vector<std::string> one = {"hidden_size"};
  CHECK(gpt2->aliases("n_embd", false) == one);
  CHECK(gpt2->aliases("n_embd", true) == one);
  CHECK(gpt2->aliases("hidden_size", true) ==
        std::vector<std::string>{"n_embd"});
  // Transformers 4 has `num_hidden_layers` beside it, which counts nothing.
  const auto pegasus = find_config_class("pegasus");
  CHECK(pegasus->aliases("encoder_layers", false) ==
        std::vector<std::string>{"num_hidden_layers"});
  CHECK(pegasus->aliases("encoder_layers", true).empty());
  CHECK(find_config_class("lama") == nullptr);
  CHECK(find_config_class("\"") == nullptr);
  CHECK(find_config_class("") == nullptr);
}

TEST_CASE("a config class is found by the model's class where no type tells") {
  const std::vector<std::string> types = {"t5", "mt5", "umt5"};
  const auto title_of = [&](std::string_view class_name) {
    return find_config_class(types, class_name)->title();
  };
  CHECK(title_of("MT5ForTokenClassification").starts_with("MT5Config"));
  CHECK(title_of("UMT5EncoderModel").starts_with("UMT5Config"));
  CHECK(title_of("T5Model").starts_with("T5Config"));
  CHECK(title_of("").starts_with("T5Config"));
  CHECK(find_config_class(std::vector<std::string>{}, "T5Model") == nullptr);
}

}  // namespace
}  // namespace shardplan
