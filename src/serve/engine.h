// SPDX-License-Identifier: Apache-2.0
// Engine: an engine that serves models, as data. Each row states what vLLM or
// SGLang does with the memory of a device; serve/weights.h, serve/pool.h and
// serve/overhead.h compute with it.
//
// Derived from the wheels of vLLM 0.33.0 and SGLang 0.5.23 (on 2026-11-24).
// Comments note where earlier versions differ. Units: bytes, tokens, sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh.h"

namespace shardplan {

// The memory that the engine's share is a fraction of.
enum class MemoryShare : uint8_t {
  // The device's memory: everything that the engine allocates after it has
  // connected to the other devices comes out of the share.
  OfTotal,
  // The memory that is free after connecting: only weights and cache come out
  // of the share, and the rest is for activations and captured graphs.
  OfFree,
};

// How the cache of several kinds of layers is laid out.
enum class PoolKind : uint8_t {
  Blocks,  // one pool of equal blocks, shared by groups of layers
  Tokens,  // a pool of tokens per kind of layer, in fixed ratios
};

// The requested layout of a model. Tensor-parallel ranks of attention times
// data-parallel groups times stages is the number of devices.
struct EngineMesh {
  int64_t tp = 1;
  int64_t dp = 1;
  int64_t pp = 1;
  bool expert_parallel = false;  // places whole experts on devices
  // Data-parallel groups share everything but attention (SGLang).
  bool dp_attention = false;

  bool operator==(const EngineMesh&) const = default;
};

// SGLang's default limit on concurrent sequences; its cache may hold fewer.
inline constexpr int64_t kSglangSequences = 2048;

// The settings of an engine that the command line does not give.
struct EngineDefaults {
  double share = 0;            // of the memory
  int64_t batched_tokens = 0;  // of one step
  int64_t sequences = 0;       // the most that one step runs
  // SGLang: the largest batch of a captured graph; vLLM: its most tokens.
  int64_t graph_size = 0;
};

struct DefaultsInput {
  std::string_view device;   // "a100-sxm-80gb"; may be empty
  int64_t device_bytes = 0;  // the device's memory
  EngineMesh mesh;
  bool latent = false;  // attention caches a latent (MLA)
  // The requested values, on which other defaults depend.
  std::optional<int64_t> batched_tokens = std::nullopt;
  std::optional<int64_t> sequences = std::nullopt;
};

struct Engine {
  std::string_view name;        // "vllm"
  std::string_view title;       // "vLLM"
  std::string_view version;     // the version that this row describes
  std::string_view share_flag;  // its name for the fraction: "mem-fraction-.."
  MemoryShare share = MemoryShare::OfTotal;
  PoolKind pool = PoolKind::Blocks;
  int64_t block = 1;           // tokens per page of the cache
  int64_t vocab_multiple = 1;  // the vocabulary is padded to it
  // Experts form one group over all data-parallel groups. Otherwise each
  // data-parallel group has all experts, unless it shares everything but
  // attention.
  bool experts_over_dp = false;
  bool uneven_experts = false;  // some ranks may have one expert more
  bool dp_attention = false;    // supports that mode
  // Heads of a vision tower that do not divide evenly are replicated. Otherwise
  // the engine does not start.
  bool whole_tower_heads = false;
  EngineDefaults (*defaults)(const DefaultsInput&) = nullptr;
  // Prompts are processed in passes that also generate tokens. Otherwise they
  // have passes of their own, for which generation waits.
  bool mixes_prompts = false;
  int64_t default_loras = 1;  // slots, if adapters are served
  // Supports `--fully-sharded-loras`, and by default adapts all linear layers,
  // including routers. Otherwise the default targets are those of the adapters.
  bool shares_loras = false;
  // MLA: the absorbed matrices are views of the up-projection unless that is
  // quantised. Otherwise they are always a second copy.
  bool views_latents = false;
  // Every stage has slots for the layers of all stages.
  bool slots_of_all_stages = false;
  // Seconds between two passes, in which the device waits for scheduling,
  // sampling and sending tokens to users. Fitted to servers (docs/time.md).
  double pass_overhead = 0;
};

std::span<const Engine> engines();
const Engine* find_engine(std::string_view name);

// Returns the layout as a mesh with views. Attention is sharded over `tp` of
// the mesh. The view `experts` places whole experts over `ep`, or shards each
// over `etp`. The view `dense`, which exists with dp attention, shards MLPs and
// the vocabulary over `dense_tp`. REQUIRES: at most kMaxDevices.
Mesh layout_of(const Engine& engine, const EngineMesh& mesh);
// Returns the views that shard differently from the mesh itself.
std::vector<MeshView> other_views(const Mesh& layout, bool has_experts);

}  // namespace shardplan
