// SPDX-License-Identifier: Apache-2.0
// Brackets beside what frameworks really keep: tests/data/saved.jsonl, of
// PyTorch's autograd (record_saved.py), and tests/data/trained.jsonl, of models
// of which a part is trained (record_trained.py).
#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "activations/segments.h"
#include "base/allocation.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "session/trainable.h"
#include "sim/repeated_layers.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"
#include "tests/support/thinned.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::mesh;

ForwardPass pass_of(const Json& inputs) {
  ForwardPass pass;
  pass.batch = inputs.begin().value().at(0).get<int64_t>();
  if (inputs.contains("input_ids")) {
    pass.length = inputs.at("input_ids").at(1).get<int64_t>();
  }
  if (inputs.contains("decoder_input_ids")) {
    pass.target_length = inputs.at("decoder_input_ids").at(1).get<int64_t>();
  }
  return pass;
}

struct Kept {
  std::array<int64_t, kSavingModes> saved{};  // of all segments
  std::array<int64_t, kSavingModes> peak{};   // activations and logits
  std::string problem;
};

// What a part of the parameters is trained of, by a pattern of their names;
// "": all.
Kept kept_of(const Manifest& manifest, const Json& config,
             const ForwardPass& pass, const SegmentOptions& options,
             const Remat& remat, const std::string& trainable) {
  Kept kept;
  std::vector<bool> frozen;
  if (!trainable.empty()) {
    Diagnostics unfound;
    const auto trained = find_trained({trainable}, manifest, unfound);
    REQUIRE_MESSAGE(trained, testing::messages(unfound));
    frozen = *trained;
    frozen.flip();
  }
  testing::MemoryHost host;
  const auto rules = testing::loaded_rules(host, "@all_models");
  REQUIRE(rules->rules);
  Diagnostics diags;
  const auto plan = resolve(manifest, *rules->rules, mesh("fsdp=1"), {}, diags);
  REQUIRE(plan);
  auto model =
      recognise_model(manifest, testing::parsed_config(config), nullptr, diags);
  if (!model) {
    kept.problem = testing::messages(diags);
    return kept;
  }
  ForwardGraphs forward =
      forward_graphs(manifest, *std::move(model), pass, std::move(frozen));
  const auto program = partition_layers(
      forward, {manifest, *plan, &*rules->rules, {}},
      [](const Program&, const LayerCycle&) { return true; }, EqualLayers::Each,
      diags);
  REQUIRE_MESSAGE(program, testing::messages(diags));
  const auto segments = segments_of(program->program, options, remat);
  for (size_t k = 0; k < kSavingModes; ++k) {
    Int128 saved = 0;
    Int128 peak = 0;
    for (const Segment& segment : segments) {
      const SegmentMemory& memory = segment.memory.at(k);
      peak = std::max(peak, saved + std::max(memory.backward, memory.forward));
      saved += memory.saved;
    }
    kept.saved[k] = static_cast<int64_t>(saved);
    kept.peak[k] = static_cast<int64_t>(peak);
  }
  return kept;
}

Kept kept_of(const Json& config, const ForwardPass& pass,
             const SegmentOptions& options, const Remat& remat,
             const std::string& trainable = "") {
  const auto synthesis = testing::synthesize(config);
  if (!synthesis->manifest) {
    Kept kept;
    kept.problem = testing::messages(synthesis->diags);
    return kept;
  }
  return kept_of(*synthesis->manifest, config, pass, options, remat, trainable);
}

// What no way of keeping stands for: masks of dropout, weights of experts
// copied for every token, scans without kernels, and two that recompute with
// more.
bool keeps_more(const Json& recorded) {
  const std::string name = recorded.at("name");
  const auto has = [&](const char* part) {
    return name.find(part) != std::string::npos;
  };
  return has("dropout") || has("batched_mm") || has("mamba") ||
         has("qwen3_next") || has("qwen3_5") ||
         name == "t5-sdpa-bfloat16-checkpointing" ||
         name == "mixtral-sdpa-bfloat16-checkpointing";
}

TEST_CASE("brackets hold what PyTorch keeps") {
  std::ifstream lines(source_dir() / "tests/data/saved.jsonl");
  std::string line;
  int count = 0;
  int bounded = 0;
  testing::Thinned rows{5};
  while (std::getline(lines, line)) {
    const Json recorded = Json::parse(line);
    const std::string name = recorded.at("name");
    if (!recorded.at("autocast").is_null()) continue;
    // Sanitizers, whose own allocation is not counted, take a minute for all.
    if (rows.skips()) continue;
    CAPTURE(name);
    SegmentOptions options;
    options.element_bytes = recorded.at("dtype") == "float32" ? 4 : 2;
    options.attention = recorded.at("attention") == "eager"
                            ? AttentionKind::Scores
                            : AttentionKind::Flash;
    Remat remat;
    if (recorded.at("checkpointing").get<bool>()) {
      remat.policy = find_remat_policy("full");
    }
    const Kept kept = kept_of(recorded.at("config"),
                              pass_of(recorded.at("inputs")), options, remat);
    const int64_t saved = recorded.at("saved").at("forward");
    const Json& live = recorded.at("live");
    const int64_t peak = live.at("backward_peak").get<int64_t>() -
                         live.at("backward_gradients").get<int64_t>();
    ++count;
    REQUIRE(kept.problem.empty());
    CHECK(kept.saved[0] <= saved);
    // Gradients of parameters are counted apart; at the highest point of
    // recomputed layers they are most of it.
    CHECK(kept.peak[0] <= live.at("backward_peak").get<int64_t>());
    if (keeps_more(recorded)) continue;
    CHECK(saved <= kept.saved[2]);
    CHECK(peak <= kept.peak[2]);
    ++bounded;
  }
  CHECK(count > (kCountsAllocations ? 190 : 38));
  CHECK(bounded > (kCountsAllocations ? 170 : 30));
}

// Parameters as PEFT names them, `*` for the number of a layer.
Manifest recorded_manifest(const Json& recorded, int64_t layers) {
  Manifest manifest;
  for (const auto& [name, type] : recorded.at("parameters").items()) {
    const auto dtype = find_dtype(type.at(0).get<std::string>());
    REQUIRE(dtype);
    const TensorType known{*dtype, type.at(1).get<Shape>()};
    const size_t star = name.find('*');
    for (int64_t i = 0; i < (star == std::string::npos ? 1 : layers); ++i) {
      std::string own = name;
      if (star != std::string::npos) own.replace(star, 1, std::to_string(i));
      REQUIRE(manifest.add(own, known, {}));
    }
  }
  return manifest;
}

TEST_CASE("brackets hold what PyTorch keeps of what is trained alone") {
  std::ifstream lines(source_dir() / "tests/data/trained.jsonl");
  std::string line;
  int count = 0;
  testing::Thinned rows{5};
  int adapted = 0;
  while (std::getline(lines, line)) {
    const Json recorded = Json::parse(line);
    const std::string name = recorded.at("name");
    // Sanitizers, whose own allocation is not counted, take a minute for all.
    if (rows.skips()) continue;
    CAPTURE(name);
    SegmentOptions options;
    options.element_bytes = recorded.at("dtype") == "float32" ? 4 : 2;
    options.attention = recorded.at("attention") == "eager"
                            ? AttentionKind::Scores
                            : AttentionKind::Flash;
    options.dropout.adapters = name.find("dropout") != std::string::npos;
    options.dropout.wide_masks = true;
    if (!recorded.at("adapters").is_null()) {
      ++adapted;
      for (const auto& [parameter, type] : recorded.at("parameters").items()) {
        if (parameter.find(".lora_") == std::string::npos) continue;
        options.adapter_bytes = type.at(0) == "float32" ? 4 : 2;
      }
    }
    Remat remat;
    if (recorded.at("checkpointing").get<bool>()) {
      remat.policy = find_remat_policy("full");
    }
    const Json& config = recorded.at("config");
    const ForwardPass pass = pass_of(recorded.at("inputs"));
    const std::string trainable = recorded.at("trainable");
    const Kept kept = recorded.at("adapters").is_null()
                          ? kept_of(config, pass, options, remat, trainable)
                          : kept_of(recorded_manifest(recorded, 2), config,
                                    pass, options, remat, trainable);
    REQUIRE_MESSAGE(kept.problem.empty(), kept.problem);
    ++count;
    const int64_t saved = recorded.at("saved");
    const int64_t all = recorded.at("peak");
    const int64_t peak = all - recorded.at("gradients").get<int64_t>();
    // Kernels for CPUs keep a norm's numbers of rows in bfloat16, where it is
    // that; of little else this is much.
    if (name != "vit-sdpa-bfloat16-norm") CHECK(kept.saved[0] <= saved);
    CHECK(kept.peak[0] <= all);
    CHECK(saved <= kept.saved[2]);
    CHECK(peak <= kept.peak[2]);
  }
  CHECK(count > (kCountsAllocations ? 150 : 30));
  CHECK(adapted > (kCountsAllocations ? 40 : 8));
}

}  // namespace
}  // namespace shardplan
