// SPDX-License-Identifier: Apache-2.0
// Names of modules in memory, and lists of modules that are not quantised,
// against transformers (tests/data/record_module_names.py).
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "model/architecture/module_patterns.h"
#include "model/architectures.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

std::string with_layer(std::string name) {
  for (size_t at = 0; (at = name.find('*', at)) != name.npos; ++at) {
    name.replace(at, 1, "7");
  }
  return name;
}

// Of several modules that one tensor holds.
std::string first_of(const std::string& name) {
  return name.substr(0, name.find('|'));
}

TEST_CASE("modules: names in memory are those of transformers") {
  std::ifstream stream(testing::data_path("module_names.jsonl"));
  REQUIRE(stream);
  int models = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const auto source = std::make_shared<const SourceFile>(
        "config.json", row.at("config").dump());
    Diagnostics diags;
    const auto config = parse_document(source, diags);
    REQUIRE(config);
    const ArchitectureChoice kind = choose_architecture(config->root());
    REQUIRE(kind);
    REQUIRE(kind.model_class);
    CAPTURE(kind.model_class->class_name);
    const auto found =
        kind.architecture->module_names.find(kind.model_class->class_name);
    REQUIRE(found != kind.architecture->module_names.end());
    std::map<std::string, std::set<std::string>> wanted;
    for (const Json& pair : row.at("modules")) {
      wanted[with_layer(pair.at(0).get<std::string>())].insert(
          with_layer(pair.at(1).get<std::string>()));
    }
    for (const auto& each : wanted) {
      const std::string& saved = each.first;
      const std::set<std::string>& in_memory = each.second;
      CAPTURE(saved);
      // Of several that are saved as one, the first.
      CHECK(in_memory.contains(first_of(name_in_memory(found->second, saved))));
    }
    ++models;
  }
  CHECK(models > 30);
}

TEST_CASE("modules: a list means modules in memory, or saved names") {
  const Json base = {{"model_type", "llava"},
                     {"architectures", {"LlavaForConditionalGeneration"}},
                     {"dtype", "bfloat16"},
                     {"text_config",
                      {{"model_type", "llama"},
                       {"vocab_size", 256},
                       {"hidden_size", 128},
                       {"intermediate_size", 256},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2}}},
                     {"vision_config",
                      {{"model_type", "clip_vision_model"},
                       {"hidden_size", 128},
                       {"intermediate_size", 256},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 4},
                       {"image_size", 56},
                       {"patch_size", 14}}}};
  struct Row {
    const char* version;
    const char* method;
    std::vector<std::string> list;
    int kept;  // linear layers that stay as they are
  };
  // Seven layers of the text, eight of the images and the projector; the head.
  // As should_convert_module of transformers 5.24, FP8's with its renaming, and
  // the loops of 4.57 say.
  const std::vector<Row> rows = {
      {"5.0.0",
       "fp8",
       {"model.vision_tower", "model.multi_modal_projector", "lm_head"},
       9},
      {"5.0.0", "fp8", {"vision_tower", "multi_modal_projector", "lm_head"}, 9},
      {"5.0.0", "fp8", {"model.language_model.layers.0.mlp", "lm_head"}, 4},
      {"5.0.0", "fp8", {"model.vision", "lm_head"}, 1},
      {"5.0.0", "fp8", {"q_proj", "lm_head"}, 3},
      {"5.0.0", "bitsandbytes", {"model.vision_tower", "lm_head"}, 7},
      {"5.0.0", "bitsandbytes", {"vision_tower", "lm_head"}, 1},
      {"4.57.6", "fp8", {"vision_tower", "lm_head"}, 7},
      {"4.57.6", "fp8", {"model.vision_tower", "lm_head"}, 7},
      {"4.57.6", "bitsandbytes", {"vision_tower", "lm_head"}, 7},
  };
  for (const Row& row : rows) {
    CAPTURE(row.version);
    CAPTURE(row.method);
    CAPTURE(row.list.front());
    Json config = base;
    config["transformers_version"] = row.version;
    const bool fp8 = std::string(row.method) == "fp8";
    config["quantization_config"] = {{"quant_method", row.method}};
    Json& quantiser = config["quantization_config"];
    quantiser[fp8 ? "modules_to_not_convert" : "llm_int8_skip_modules"] =
        row.list;
    if (fp8) {
      quantiser["weight_block_size"] = {128, 128};
    } else {
      quantiser["load_in_8bit"] = true;
    }
    const auto model = testing::synthesize(config);
    const Manifest& manifest = model->good();
    int kept = 0;
    for (size_t i = 0; i < manifest.size(); ++i) {
      const std::string_view name = manifest.name(i);
      const bool linear = name.ends_with(".weight") &&
                          manifest.type(i).shape.size() == 2 &&
                          name.find("embed") == name.npos;
      if (linear && manifest.type(i).dtype == DType::BF16) ++kept;
    }
    CHECK(kept == row.kept);
  }
}

}  // namespace
}  // namespace shardplan
