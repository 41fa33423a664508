// SPDX-License-Identifier: Apache-2.0
// Engines that serve models, as data: one row each of what vLLM and SGLang do
// with the memory of a device. What they compute with it is beside this table
// (serve/weights.h, serve/pool.h, serve/overhead.h).
//
// Read in the wheels of vLLM 0.33.0 and SGLang 0.5.23 (on 2026-11-24); earlier
// versions differ where a comment says so. Units: bytes, tokens, sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh.h"

namespace shardplan {

// What the fraction of the memory is taken of.
enum class MemoryShare : uint8_t {
  // Of what the device has: everything that the engine takes after it has
  // connected to the others comes out of that.
  OfTotal,
  // Of what is free once it has connected: weights and cache alone come out of
  // that, the rest is for activations and captured graphs.
  OfFree,
};

// How the cache of several kinds of layers is laid out.
enum class PoolKind : uint8_t {
  Blocks,  // one pool of equal blocks, which groups of layers share
  Tokens,  // a pool of tokens for each kind of layer, in fixed ratios
};

// How an engine is asked to lay out a model. Tensor-parallel ranks of attention
// times data-parallel groups times stages are all devices.
struct EngineMesh {
  int64_t tp = 1;
  int64_t dp = 1;
  int64_t pp = 1;
  bool expert_parallel = false;  // experts whole, dealt out over devices
  // Data-parallel groups share what is not attention (SGLang).
  bool dp_attention = false;

  bool operator==(const EngineMesh&) const = default;
};

// Sequences that SGLang runs at once by default, where its cache holds no more.
inline constexpr int64_t kSglangSequences = 2048;

// What is not said on the command line.
struct EngineDefaults {
  double share = 0;            // of the memory
  int64_t batched_tokens = 0;  // of one step
  int64_t sequences = 0;       // that one step runs at most
  // SGLang: the largest batch of a captured graph. vLLM: tokens of it.
  int64_t graph_size = 0;
};

struct DefaultsInput {
  std::string_view device;   // "a100-sxm-80gb"; may be empty
  int64_t device_bytes = 0;  // what the device has
  EngineMesh mesh;
  bool latent = false;  // attention keeps a latent (MLA)
  // As asked for; those that follow from them differ.
  std::optional<int64_t> batched_tokens = std::nullopt;
  std::optional<int64_t> sequences = std::nullopt;
};

struct Engine {
  std::string_view name;        // "vllm"
  std::string_view title;       // "vLLM"
  std::string_view version;     // that was read
  std::string_view share_flag;  // its name for the fraction: "mem-fraction-.."
  MemoryShare share = MemoryShare::OfTotal;
  PoolKind pool = PoolKind::Blocks;
  int64_t block = 1;           // tokens of a page of the cache
  int64_t vocab_multiple = 1;  // that the vocabulary is padded to
  // Experts are one group over data-parallel groups, too; else each group has
  // all of them unless it shares what is not attention.
  bool experts_over_dp = false;
  bool uneven_experts = false;  // some ranks may have one expert more
  bool dp_attention = false;    // knows that mode
  // Heads of a vision tower that do not divide are left whole; else the engine
  // does not start.
  bool whole_tower_heads = false;
  EngineDefaults (*defaults)(const DefaultsInput&) = nullptr;
  // Prompts are processed in passes that also generate; else in passes of their
  // own, for which those that generate wait.
  bool mixes_prompts = false;
  int64_t default_loras = 1;  // slots, where it runs adapters
  // Knows `--fully-sharded-loras`, and adapts all linear layers, routers among
  // them, unless targets are given; else targets are those of its adapters.
  bool shares_loras = false;
  // MLA: what is absorbed are views of the up-projection, unless that is
  // quantised; else always a second copy.
  bool views_latents = false;
  // Every stage has slots for the layers of all.
  bool slots_of_all_stages = false;
  // Seconds between two passes: what is scheduled, sampled and sent to users
  // while the device waits. Fitted to servers (docs/time.md).
  double pass_overhead = 0;
};

std::span<const Engine> engines();
const Engine* find_engine(std::string_view name);

// The same as a mesh with views: attention is cut over `tp` of the mesh. The
// view `experts` deals experts out over `ep` or cuts each over `etp`; the view
// `dense`, which is there under dp attention, cuts MLPs and the vocabulary over
// `dense_tp`. REQUIRES: at most kMaxDevices.
Mesh layout_of(const Engine& engine, const EngineMesh& mesh);
// The views in which a model is cut otherwise than in the mesh itself.
std::vector<MeshView> other_views(const Mesh& layout, bool has_experts);

}  // namespace shardplan
