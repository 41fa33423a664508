// SPDX-License-Identifier: Apache-2.0
// Engines as a table, and what follows from a row.
#include "serve/engine.h"

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

TEST_CASE("what is cut over how many devices") {
  const Engine& vllm = *find_engine("vllm");
  const Engine& sglang = *find_engine("sglang");
  EngineMesh mesh;
  mesh.tp = 4;
  mesh.dp = 2;
  CHECK(degrees_of(vllm, mesh) == Degrees{4, 4, 8, 1});
  CHECK(degrees_of(sglang, mesh) == Degrees{4, 4, 4, 1});
  mesh.expert_parallel = true;
  CHECK(degrees_of(vllm, mesh) == Degrees{4, 4, 1, 8});
  CHECK(degrees_of(sglang, mesh) == Degrees{4, 4, 1, 4});
  mesh.dp_attention = true;
  CHECK(degrees_of(sglang, mesh) == Degrees{4, 8, 1, 8});
}

}  // namespace shardplan
