// SPDX-License-Identifier: Apache-2.0
// Adapters as PEFT makes them (tests/data/lora.jsonl, record_lora.py).
#include "model/naming/lora.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"
#include "tests/support/tiny_llama.h"

namespace shardplan {
namespace {

using testing::Json;

std::unique_ptr<testing::Synthesis> with_lora(const Json& config,
                                              const Lora& lora) {
  auto result = std::make_unique<testing::Synthesis>();
  const auto source =
      std::make_shared<const SourceFile>("config.json", config.dump());
  result->diags.add_source(source);
  const auto document = parse_document(source, result->diags);
  if (document) {
    result->manifest =
        synthesize_manifest(*document, result->diags, {nullptr, nullptr, lora});
  }
  return result;
}

bool is_of_stack(const std::string& name) {
  return name.find(".experts.") != std::string::npos;
}

// The name that a tensor of a checkpoint has in transformers' class.
std::string in_class(std::string name, const Json& row) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  if (row["model_type"] == "granitemoe") {
    replace(".router.layer.", ".router.");
    return name;
  }
  replace(".block_sparse_moe.", ".mlp.");
  if (row["model_type"] == "laguna") {
    replace(".shared_expert.", ".shared_experts.");
  }
  if (row["model_type"] == "phimoe") replace(".mlp.gate.", ".mlp.router.");
  return name;
}

TEST_CASE("lora: names, shapes and dtypes are PEFT's") {
  std::ifstream stream(testing::data_path("lora.jsonl"));
  REQUIRE(stream.good());
  std::set<std::string> types;
  int adapted = 0;
  int refused = 0;
  int of_experts = 0;
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    CAPTURE(row["model_type"].get<std::string>());
    CAPTURE(row["targets"].get<std::string>());
    types.insert(row["model_type"].get<std::string>());
    Diagnostics diags;
    const auto lora = read_lora("r=" + row["rank"].dump() + ",targets=" +
                                    row["targets"].get<std::string>(),
                                {}, diags);
    REQUIRE(lora);
    const auto made = with_lora(row["config"], *lora);
    if (row["adapted"].is_null()) {
      CHECK(!made->manifest);
      ++refused;
      continue;
    }
    const Manifest& manifest = made->good();
    // Modules stand in another order in a checkpoint than in a class.
    std::set<Json> ours;
    int64_t ours_of_experts = 0;
    for (size_t i = 0; i < manifest.size(); ++i) {
      const std::string name = in_class(std::string(manifest.name(i)), row);
      REQUIRE(name.starts_with(kLoraPrefix));
      if (is_of_stack(name) && name.find(".lora_") == std::string::npos) {
        ours_of_experts += manifest.type(i).elements();
      }
      if (name.find(".lora_") == std::string::npos &&
          name.find(".base_layer.") == std::string::npos) {
        continue;
      }
      const TensorType& type = manifest.type(i);
      // The recorder casts the whole base, routers that stay in float32, too.
      const bool is_base = name.find(".base_layer.") != std::string::npos &&
                           name.find(".lora_") == std::string::npos;
      const char* const dtype =
          type.dtype == DType::F32 && !is_base ? "float32" : "bfloat16";
      ours.insert(Json::array({name, type.shape, dtype}));
    }
    // Stacks that have adapters keep their names in the checkpoint here.
    std::set<Json> theirs;
    int64_t theirs_of_experts = 0;
    for (const Json& each : row["adapted"]) {
      const std::string name = each[0];
      if (name.ends_with(".e_score_correction_bias")) continue;  // a buffer
      if (is_of_stack(name) && name.find(".lora_") == std::string::npos) {
        int64_t elements = 1;
        for (const int64_t size : each[1]) elements *= size;
        theirs_of_experts += elements;
      } else {
        theirs.insert(each);
      }
    }
    CHECK(ours == theirs);
    if (theirs_of_experts > 0) {
      CHECK(ours_of_experts == theirs_of_experts);
      ++of_experts;
    }
    ++adapted;
  }
  CHECK(types.size() >= 12);
  CHECK(adapted > 190);
  CHECK(refused > 2);
  CHECK(of_experts >= 35);
}

TEST_CASE("lora: what has adapters of another kind is refused") {
  for (const char* target :
       {"embed_tokens", "norm", "input_layernorm", "model.norm"}) {
    CAPTURE(target);
    const auto made = with_lora(testing::tiny_llama(), {8, {"q_proj", target}});
    CHECK(!made->manifest);
    CHECK(testing::messages(made->diags).find("not a linear layer: PEFT") !=
          std::string::npos);
  }
  const auto made = with_lora(testing::tiny_llama(), {8, {"q_proj", "query"}});
  REQUIRE(made->manifest);
  CHECK(made->manifest->remarks.front().find("so PEFT ignores it") !=
        std::string::npos);
}

TEST_CASE("lora: what it is not asked in the right way") {
  for (const char* text :
       {"", "r=16", "targets=all-linear", "r=0,targets=q_proj",
        "r=x,targets=q_proj", "r=16,targets=", "r=16,targets=q_proj+",
        "r=16,targets=q_proj+all-linear", "r=16,targets=q_proj,dtype=i8",
        "r=16,targets=q_proj,alpha=32", "r=2000000,targets=q_proj",
        "r=16,r=8,targets=q_proj", "r=16,targets=q_proj,targets=v_proj"}) {
    CAPTURE(text);
    Diagnostics diags;
    CHECK(!read_lora(text, {}, diags));
    CHECK(diags.cannot_run());
  }
  Diagnostics diags;
  const auto lora = read_lora("r=2,targets=a+b,dtype=bf16", {}, diags);
  REQUIRE(lora);
  CHECK(lora->rank == 2);
  CHECK(lora->targets == std::vector<std::string>{"a", "b"});
  CHECK(lora->dtype == DType::BF16);
}

}  // namespace
}  // namespace shardplan
