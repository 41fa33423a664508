// SPDX-License-Identifier: Apache-2.0
// Brackets beside what frameworks really keep: tests/data/saved.jsonl, of
// PyTorch's autograd (record_saved.py).
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
#include "sim/repeated_layers.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/source_dir.h"
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
  std::array<int64_t, kKeepings> saved{};  // of all segments
  std::array<int64_t, kKeepings> peak{};   // activations and logits
  std::string problem;
};

Kept kept_of(const Json& config, const ForwardPass& pass,
             const SegmentOptions& options, const Remat& remat) {
  Kept kept;
  auto synthesis = testing::synthesize(config);
  if (!synthesis->manifest) {
    kept.problem = testing::messages(synthesis->diags);
    return kept;
  }
  const Manifest& manifest = *synthesis->manifest;
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
  ForwardModel forward = forward_model(manifest, *std::move(model), pass);
  const auto program = partition_layers(
      forward, {manifest, *plan, &*rules->rules, {}},
      [](const Program&, const LayerCycle&) { return true; }, AlikeLayers::Each,
      diags);
  REQUIRE_MESSAGE(program, testing::messages(diags));
  const auto segments = segments_of(program->program, options, remat);
  for (size_t k = 0; k < kKeepings; ++k) {
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

// What no way of keeping stands for: masks of dropout, weights of experts
// copied for every token, scans without kernels, and two that recompute with
// more.
bool keeps_more(const Json& recorded) {
  const std::string name = recorded.at("name");
  const auto has = [&](const char* part) {
    return name.find(part) != std::string::npos;
  };
  return has("dropout") || has("batched_mm") || has("mamba") ||
         name == "t5-sdpa-bfloat16-checkpointing" ||
         name == "mixtral-sdpa-bfloat16-checkpointing";
}

TEST_CASE("brackets hold what PyTorch keeps") {
  std::ifstream lines(source_dir() / "tests/data/saved.jsonl");
  std::string line;
  int count = 0;
  int bounded = 0;
  int skipped = 0;
  while (std::getline(lines, line)) {
    const Json recorded = Json::parse(line);
    const std::string name = recorded.at("name");
    if (!recorded.at("autocast").is_null()) continue;
    // Sanitizers, whose own allocation is not counted, take a minute for all.
    if (!kCountsAllocations && ++skipped % 5 != 0) continue;
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

}  // namespace
}  // namespace shardplan
