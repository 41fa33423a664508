// SPDX-License-Identifier: Apache-2.0
#include "serve/engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/words.h"

namespace shardplan {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kGibibyte = int64_t{1} << 30;

// Returns the defaults of vLLM's server. An offline LLM runs twice the tokens
// on the larger devices. Before 0.19 the share was 0.90.
EngineDefaults vllm_defaults(const DefaultsInput& in) {
  EngineDefaults d;
  d.share = 0.92;
  if (in.device_bytes >= 160 * kGibibyte) {
    d.batched_tokens = 16384;
    d.sequences = 1024;
  } else if (in.device_bytes >= 70 * kGibibyte &&
             !in.device.starts_with("a100")) {
    d.batched_tokens = 8192;
    d.sequences = 1024;
  } else {
    d.batched_tokens = 2048;
    d.sequences = 256;
  }
  if (in.batched_tokens) d.batched_tokens = *in.batched_tokens;
  d.sequences = in.sequences.value_or(std::min(d.sequences, d.batched_tokens));
  d.graph_size =
      std::min(d.batched_tokens, std::min<int64_t>(512, 2 * d.sequences));
  return d;
}

// SGLang's sizes by the memory of a device.
struct MemoryTier {
  int64_t below_mib;
  int64_t chunk;       // tokens per chunk of a prompt
  int64_t graph;       // largest batch of a captured graph, if tp < 4
  int64_t graph_wide;  // the same, if tp >= 4
};
constexpr std::array<MemoryTier, 6> kTiers = {{
    {20 * 1024, 2048, 8, 8},
    {35 * 1024, 4096, 48, 160},
    {60 * 1024, 4096, 32, 160},
    {90 * 1024, 8192, 256, 512},
    {160 * 1024, 8192, 256, 512},
    {INT64_MAX, 16384, 512, 512},
}};

// Returns how many prompt sizes up to `largest` SGLang captures a graph for.
int64_t prefill_graphs(int64_t largest) {
  struct Run {
    int64_t first;
    int64_t last;
    int64_t step;
  };
  constexpr std::array<Run, 6> kRuns = {{{4, 32, 4},
                                         {48, 256, 16},
                                         {288, 512, 32},
                                         {576, 1024, 64},
                                         {1280, 4096, 256},
                                         {4608, INT64_MAX, 512}}};
  int64_t count = 0;
  for (const Run& run : kRuns) {
    const int64_t last = std::min(run.last, largest);
    if (last >= run.first) count += (last - run.first) / run.step + 1;
  }
  return count;
}

// Returns the MiB that SGLang leaves free outside its share for activations and
// graphs.
double sglang_reserve(const DefaultsInput& in, const EngineDefaults& d,
                      double device_mib) {
  const auto graph = static_cast<double>(d.graph_size);
  const auto chunk = static_cast<double>(d.batched_tokens);
  const int64_t ranks = in.mesh.tp * (in.mesh.dp_attention ? in.mesh.dp : 1);
  double reserve = 512 + 1.5 * std::max(chunk, 2048.0) +
                   static_cast<double>(ranks * in.mesh.pp) / 8 * 1024 +
                   2 * graph;
  if (in.mesh.dp_attention && in.mesh.dp > 1) {
    const double groups = static_cast<double>(in.mesh.dp);
    reserve += 3 * graph * groups;
    if (d.graph_size > 300) reserve += 1.5 * graph * groups;
  }
  reserve += in.latent
                 ? 1536
                 : 8 * static_cast<double>(prefill_graphs(d.batched_tokens));
  return device_mib > 60 * 1024 ? std::max(reserve, 10240.0) : reserve;
}

EngineDefaults sglang_defaults(const DefaultsInput& in) {
  const auto mib = static_cast<double>(in.device_bytes) / kMebibyte;
  const MemoryTier& tier =
      *std::ranges::find_if(kTiers, [&](const MemoryTier& t) {
        return mib < static_cast<double>(t.below_mib);
      });
  const int64_t ranks = in.mesh.tp * (in.mesh.dp_attention ? in.mesh.dp : 1);
  EngineDefaults d;
  d.batched_tokens = in.batched_tokens.value_or(tier.chunk);
  d.graph_size = ranks < 4 ? tier.graph : tier.graph_wide;
  if (in.sequences) d.graph_size = std::min(d.graph_size, *in.sequences);
  d.sequences = in.sequences.value_or(kSglangSequences);
  const double left = 1 - sglang_reserve(in, d, mib) / mib;
  d.share = std::round(std::max(left, 0.0) * 1000) / 1000;
  return d;
}

constexpr std::array<Engine, 2> kEngines = {{
    {"vllm", "vLLM", "0.33.0", "gpu-memory-utilization", MemoryShare::OfTotal,
     PoolKind::Blocks, 16, 64, true, true, false, true, vllm_defaults, true, 1,
     true, true, false, 8e-4},
    {"sglang", "SGLang", "0.5.23", "mem-fraction-static", MemoryShare::OfFree,
     PoolKind::Tokens, 1, 64, false, false, true, false, sglang_defaults, false,
     8, false, false, true, 5e-4},
}};

}  // namespace

std::span<const Engine> engines() { return kEngines; }

const Engine* find_engine(std::string_view name) {
  return find_named(kEngines, name);
}

Mesh layout_of(const Engine& engine, const EngineMesh& mesh) {
  const int64_t all = mesh.tp * mesh.dp;
  std::vector<Axis> stages;
  if (mesh.pp > 1) stages.push_back({"pp", mesh.pp});
  std::vector<Axis> groups = stages;
  if (mesh.dp > 1) groups.push_back({"dp", mesh.dp});
  const auto with = [](std::vector<Axis> axes, const char* name, int64_t size) {
    axes.push_back({name, size});
    return axes;
  };
  const char* const cut = mesh.expert_parallel ? "ep" : "etp";
  const bool shared = engine.experts_over_dp || mesh.dp_attention;
  std::vector<MeshView> views = {{"experts", shared
                                                 ? with(stages, cut, all)
                                                 : with(groups, cut, mesh.tp)}};
  if (mesh.dp_attention) {
    views.push_back({"dense", with(stages, "dense_tp", all)});
  }
  return Mesh(with(groups, "tp", mesh.tp), std::move(views));
}

std::vector<MeshView> other_views(const Mesh& layout, bool has_experts) {
  std::vector<MeshView> views;
  for (const MeshView& view : layout.views()) {
    const Axis& own = view.axes.back();
    const bool as_mesh = own.size == layout.axes().back().size &&
                         (own.name != "ep" || own.size == 1);
    if (!as_mesh && (has_experts || view.name != "experts")) {
      views.push_back(view);
    }
  }
  return views;
}

}  // namespace shardplan
