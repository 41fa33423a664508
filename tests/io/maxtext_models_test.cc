// SPDX-License-Identifier: Apache-2.0
// MaxText's model files against the arrays and logical axes that MaxText
// itself gives them (tests/data/maxtext_models.jsonl), and what is refused.
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "io/load.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::MemoryHost;

// By folded name, shape and logical axes: how many arrays there are. What is no
// parameter for us has no axes.
using Arrays = std::map<std::tuple<std::string, Shape, std::string>, int64_t>;

Arrays arrays_of(const Manifest& manifest) {
  Arrays arrays;
  for (size_t i = 0; i < manifest.size(); ++i) {
    Json axes = Json::array();
    REQUIRE(manifest.axes(i) != nullptr);
    for (const auto& axis : *manifest.axes(i)) {
      axes.push_back(axis ? Json(*axis) : Json());
    }
    ++arrays[{testing::starred(manifest.name(i)), manifest.type(i).shape,
              axes.dump()}];
  }
  for (const Manifest::Buffer& buffer : manifest.buffers()) {
    ++arrays[{testing::starred(buffer.name), buffer.type.shape, ""}];
  }
  return arrays;
}

Arrays recorded_arrays(const Json& tensors, const Arrays& ours) {
  Arrays arrays;
  for (const Json& each : tensors) {
    const auto name = each.at(0).get<std::string>();
    const auto shape = each.at(1).get<Shape>();
    const bool buffer = ours.contains({name, shape, ""});
    arrays[{name, shape, buffer ? "" : each.at(3).dump()}] +=
        each.at(2).get<int64_t>();
  }
  return arrays;
}

// As YAML, in which MaxText's files are.
std::string yaml_of(const Json& config) {
  std::string text;
  for (const auto& [key, value] : config.items()) {
    text += key + ": " + value.dump() + "\n";
  }
  return text;
}

struct LoadedModel {
  Diagnostics diags;
  std::optional<Manifest> manifest;
  std::string problem() const {
    return diags.all().empty() ? "" : diags.all().front().message;
  }
};

LoadedModel load_model(MemoryHost& host, const std::string& path) {
  LoadedModel result;
  result.manifest = load_manifest(path, host, result.diags);
  return result;
}

TEST_CASE("maxtext models: arrays and logical axes are those of MaxText") {
  std::ifstream stream(testing::data_path("maxtext_models.jsonl"));
  REQUIRE(stream);
  size_t read = 0;
  testing::Thinned rows{4};
  for (std::string line; std::getline(stream, line);) {
    if (rows.skips()) continue;
    const Json row = Json::parse(line);
    CAPTURE(row.at("model").get<std::string>());
    MemoryHost host;
    host.files["model.yml"] = yaml_of(row.at("config"));
    const LoadedModel result = load_model(host, "model.yml");
    CAPTURE(result.problem());
    if (row.contains("refused")) {
      CHECK_FALSE(result.manifest);
      continue;
    }
    REQUIRE(result.manifest);
    if (!row.contains("tensors")) continue;  // MaxText could not build it
    const Arrays ours = arrays_of(*result.manifest);
    CHECK(ours == recorded_arrays(row.at("tensors"), ours));
    CHECK(result.manifest->type(0).dtype == DType::F32);
    ++read;
  }
  CHECK(read > rows.of(55));
}

const char* const kModel = R"(decoder_block: "llama2"
base_emb_dim: 64
base_num_query_heads: 4
base_num_kv_heads: 2
base_mlp_dim: 128
base_num_decoder_layers: 2
head_dim: 16
vocab_size: 1_000
)";

TEST_CASE(
    "maxtext models: a config of a run takes sizes from the files that "
    "it names") {
  MemoryHost host;
  host.files["configs/models/m.yml"] = kModel;
  host.files["configs/base.yml"] =
      "weight_dtype: bfloat16\nmodel_name: default\nbase_emb_dim: 2048\n";
  host.files["configs/runs/run.yml"] =
      "base_config: base.yml\nmodel_name: m\nlogits_via_embedding: true\n";
  const LoadedModel result = load_model(host, "configs/runs/run.yml");
  CAPTURE(result.problem());
  REQUIRE(result.manifest);
  CHECK(result.manifest->type(0).dtype == DType::BF16);
  CHECK(result.manifest->type(0).shape == Shape{1000, 64});
  for (size_t i = 0; i < result.manifest->size(); ++i) {
    CHECK(result.manifest->name(i).find("logits_dense") ==
          std::string_view::npos);
  }
}

TEST_CASE("maxtext models: what cannot be known is refused with its place") {
  struct Case {
    std::string more;
    std::string problem;
  };
  const Case kCases[] = {
      {"use_qk_norm: true\n", "`use_qk_norm` changes the arrays of `llama2`"},
      {"scan_layers: false\n", "`scan_layers` changes the arrays"},
      {"fused_mlp: true\n", "`fused_mlp` changes the arrays"},
      {"quantization: int8\n", "`quantization` changes the arrays"},
      {"ici_pipeline_parallelism: 4\n",
       "`ici_pipeline_parallelism` changes the arrays"},
      {"global_parameter_scale: 8\n",
       "`global_parameter_scale` changes the arrays"},
      {"mtp_num_layers: 1\n", "`mtp_num_layers` changes the arrays"},
      {"use_multimodal: true\n", "`use_multimodal` changes the arrays"},
  };
  for (const Case& each : kCases) {
    CAPTURE(each.more);
    MemoryHost host;
    host.files["m.yml"] = kModel + each.more;
    const LoadedModel result = load_model(host, "m.yml");
    CHECK_FALSE(result.manifest);
    REQUIRE_FALSE(result.diags.all().empty());
    CHECK(result.problem().starts_with(each.problem));
    REQUIRE_FALSE(result.diags.all().front().labels.empty());
    CHECK(result.diags.all().front().labels.front().where.file != nullptr);
  }
  MemoryHost host;
  host.files["m.yml"] = "decoder_block: envy\nbase_emb_dim: 64\n";
  CHECK(load_model(host, "m.yml").problem() ==
        "MaxText's decoder block `envy` is not supported");
  host.files["m.yml"] = "base_config: base.yml\nmodel_name: llama9\n";
  CHECK(load_model(host, "m.yml").problem().find("`models/llama9.yml`") !=
        std::string::npos);
}

TEST_CASE(
    "maxtext models: a run that contradicts its model is refused, unless "
    "it overrides it") {
  MemoryHost host;
  host.files["base.yml"] = "model_name: default\n";
  host.files["models/m.yml"] = kModel;
  host.files["run.yml"] =
      "base_config: base.yml\nmodel_name: m\nbase_emb_dim: 32\n";
  CHECK(load_model(host, "run.yml").problem() ==
        "`base_emb_dim` differs from the model's own file, which MaxText "
        "rejects");
  host.files["run.yml"] += "override_model_config: true\n";
  const LoadedModel result = load_model(host, "run.yml");
  REQUIRE(result.manifest);
  CHECK(result.manifest->type(0).shape == Shape{1000, 32});
}

}  // namespace
}  // namespace shardplan
