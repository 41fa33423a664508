// SPDX-License-Identifier: Apache-2.0
// Engines as a table, and what follows from a row.
#include "serve/engine.h"

#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

constexpr int64_t kDeviceGiB = int64_t{1} << 30;

DefaultsInput on(std::string_view device, int64_t gib, int64_t tp) {
  DefaultsInput in;
  in.device = device;
  in.device_bytes = gib * kDeviceGiB;
  in.mesh.tp = tp;
  return in;
}

}  // namespace

TEST_CASE("engines are found by name") {
  REQUIRE(find_engine("vllm") != nullptr);
  CHECK(find_engine("vllm")->block == 16);
  REQUIRE(find_engine("sglang") != nullptr);
  CHECK(find_engine("sglang")->share_flag == "mem-fraction-static");
  CHECK(find_engine("tgi") == nullptr);
}

TEST_CASE("vLLM's defaults follow from the device") {
  const auto defaults = find_engine("vllm")->defaults;
  CHECK(defaults(on("h100-sxm", 80, 8)).batched_tokens == 8192);
  CHECK(defaults(on("h100-sxm", 80, 8)).sequences == 1024);
  CHECK(defaults(on("a100-sxm-80gb", 80, 8)).batched_tokens == 2048);
  CHECK(defaults(on("l40s", 48, 1)).sequences == 256);
  CHECK(defaults(on("b200", 180, 8)).batched_tokens == 16384);
  CHECK(defaults(on("", 80, 1)).share == doctest::Approx(0.92));
  DefaultsInput asked = on("h100-sxm", 80, 8);
  asked.batched_tokens = 512;
  // No more sequences than tokens, unless they are asked for.
  CHECK(defaults(asked).sequences == 512);
  asked.sequences = 16;
  CHECK(defaults(asked).sequences == 16);
}

TEST_CASE("SGLang's share leaves room for chunks and graphs") {
  const auto defaults = find_engine("sglang")->defaults;
  // 512 + 1.5 * 8192 + 8 / 8 * 1024 + 2 * 512 + 8 * 58 = 15312 of 81920 MiB.
  const EngineDefaults wide = defaults(on("h100-sxm", 80, 8));
  CHECK(wide.batched_tokens == 8192);
  CHECK(wide.graph_size == 512);
  CHECK(wide.share == doctest::Approx(0.813));
  // At least 10 GiB of a large device: 70 of 80.
  DefaultsInput small = on("h100-sxm", 80, 1);
  small.batched_tokens = 2048;
  small.sequences = 8;
  CHECK(defaults(small).share == doctest::Approx(0.875));
  // More chunks, less share.
  DefaultsInput large = on("h100-sxm", 80, 8);
  large.batched_tokens = 16384;
  CHECK(defaults(large).share < wide.share);
}

TEST_CASE("a layout is a mesh, with views for what is cut otherwise") {
  const Engine& vllm = *find_engine("vllm");
  const Engine& sglang = *find_engine("sglang");
  struct Row {
    const Engine& engine;
    EngineMesh mesh;
    // Of heads, MLPs, the width of experts and experts.
    std::array<int64_t, 4> degrees;
    const char* views;  // of a model with experts
  };
  const Row rows[] = {
      {vllm, {}, {1, 1, 1, 1}, ""},
      {vllm, {.tp = 4}, {4, 4, 4, 1}, ""},
      {vllm, {.tp = 4, .dp = 2}, {4, 4, 8, 1}, "experts:etp=8 "},
      {sglang, {.tp = 4, .dp = 2}, {4, 4, 4, 1}, ""},
      {vllm,
       {.tp = 4, .dp = 2, .expert_parallel = true},
       {4, 4, 1, 8},
       "experts:ep=8 "},
      {vllm,
       {.tp = 2, .dp = 2, .pp = 3, .expert_parallel = true},
       {2, 2, 1, 4},
       "experts:pp=3,ep=4 "},
      {sglang,
       {.tp = 4, .dp = 2, .expert_parallel = true},
       {4, 4, 1, 4},
       "experts:dp=2,ep=4 "},
      {sglang,
       {.tp = 4, .dp = 2, .dp_attention = true},
       {4, 8, 8, 1},
       "experts:etp=8 dense:dense_tp=8 "},
      {sglang,
       {.tp = 4, .dp = 2, .expert_parallel = true, .dp_attention = true},
       {4, 8, 1, 8},
       "experts:ep=8 dense:dense_tp=8 "},
      {sglang, {.tp = 1, .expert_parallel = true}, {1, 1, 1, 1}, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.engine.name);
    CAPTURE(row.views);
    const Mesh layout = layout_of(row.engine, row.mesh);
    CHECK(layout.devices() == row.mesh.tp * row.mesh.dp * row.mesh.pp);
    CHECK(degree_of(DimRole::KvHeads, layout) == row.degrees[0]);
    CHECK(degree_of(DimRole::Vocabulary, layout) == row.degrees[1]);
    CHECK(degree_of(DimRole::Dense, layout) == row.degrees[1]);
    CHECK(degree_of(DimRole::Width, layout) == row.degrees[2]);
    CHECK(degree_of(DimRole::Experts, layout) == row.degrees[3]);
    std::string views;
    for (const MeshView& view : other_views(layout, true)) {
      views += view.name + ":" + axes_text(view.axes) + " ";
    }
    CHECK(views == row.views);
    // A dense model has no view of experts.
    for (const MeshView& view : other_views(layout, false)) {
      CHECK(view.name == "dense");
    }
  }
}

}  // namespace shardplan
