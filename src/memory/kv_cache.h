// SPDX-License-Identifier: Apache-2.0
// KV cache: the bytes of keys, values and states that layers cache for the
// tokens seen so far, in closed form.
//
// A layer with K KV heads caches K x (key + value size) elements for each token
// that it can still see. A layer with latent attention (MLA) caches one latent
// per token, which belongs to no head, so every tensor-parallel rank holds it.
// A device never holds less than one KV head: if more devices share the heads
// than there are heads, heads are replicated.
//
// Tokens of one sequence on one device, with T tokens in all, a window of W, C
// devices over the context and pages of B tokens:
//   all tokens  ceil(ceil(T/C) / B) pages
//   a window    the same, at most ceil((ceil(W/C) - 1) / B) + 1 pages: a window
//               may begin anywhere in its first page
// In prefill, the attention of a layer reads the keys and values of the whole
// prompt before the window truncates them, one layer after another. So on top
// of the caches of all layers, a device holds the part that the largest sliding
// layer then drops. That is exact for a prompt in one piece; engines that hold
// pages of all layers for the whole step (vLLM) need more, those that split
// prompts into chunks less. Sources: 2 x bytes x heads x head size x layers x
// tokens (scaling-book); MLA and replication as in vLLM; the pages of a window
// as vLLM reserves them.
//
// A layer that compresses caches one entry for every N tokens: floor(T / N)
// entries for T tokens, and a page holds the entries of B tokens (DeepSeek V4).
// Tokens that do not form an entry yet are a state.
//
// Cross attention caches the keys and values of the encoder's output, one per
// token of it. A recurrent state is cached per sequence, whatever the
// sequence's length: context parallelism does not shard it, pages do not round
// it, and its parts (heads, channels) are sharded over axes of their own.
//
// Every count is at least 1 and at most kMaxKvCount; counts computed from facts
// are checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/facts.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/types.h"

namespace shardplan {

inline constexpr int64_t kMaxKvCount = int64_t{1} << 40;

// Stands for KvRequest::source tokens.
inline constexpr int64_t kSourceTokens = -1;

// The cache of one layer. Either `heads` or `latent` is positive.
struct KvLayer {
  int64_t heads = 0;   // KV heads; parts of a state
  int64_t width = 0;   // elements per head and token: key + value
  int64_t latent = 0;  // elements per token, for all heads
  int64_t window = 0;  // tokens that it reaches back; 0: all
  int64_t every = 1;   // tokens per entry
  // Tokens of an encoder's output; 0: caches the generated sequence instead.
  int64_t source = 0;
  bool recurrent = false;                     // per sequence, not per token
  std::optional<DType> dtype = std::nullopt;  // none: that of the request
  // "ssm", "cross"; "" for keys and values and for a latent. Refers to the
  // facts, which must outlive it.
  std::string_view name = {};
  int64_t columns = 1;  // as CachedTensor::columns

  auto operator<=>(const KvLayer&) const = default;
};

// Returns the caches of the layers, in order; a layer may have one, several or
// none. Returns no value if facts are missing; kv_missing() then names them.
// With a range, returns those of the layers [begin, end).
std::optional<std::vector<KvLayer>> kv_layers(const Facts& facts,
                                              int64_t begin = 0,
                                              int64_t end = INT64_MAX);
// Returns whether a cache depends on the number of tokens of an encoder's
// output.
bool needs_source(const std::vector<KvLayer>& layers);
// Returns the missing facts, "`kv_heads` and `head_dim`"; empty if none are.
std::string kv_missing(const Facts& facts);

// Layers with equal caches. kv_kinds() lists them in the order of their first
// layers.
struct KvKind {
  KvLayer layer;
  int64_t layers = 0;
};
std::vector<KvKind> kv_kinds(const std::vector<KvLayer>& layers);

// The numbers of devices over which the cache is sharded. Devices beyond their
// product hold copies.
struct KvSharding {
  int64_t heads = 1;     // tensor-parallel ranks over KV heads
  int64_t batch = 1;     // over sequences
  int64_t sequence = 1;  // over tokens (context parallelism)
  int64_t states = 1;    // over parts of recurrent states

  bool operator==(const KvSharding&) const = default;
};

struct KvRequest {
  int64_t batch = 1;  // sequences, over all devices
  int64_t seq = 1;    // cached tokens of each
  DType dtype = DType::BF16;
  int64_t block = 1;     // tokens per page; 1: no paging
  bool prefill = false;  // windows apply only after the prompt is processed
  int64_t source = 0;    // tokens of an encoder's output; 0: not given
};

// The part of one layer's cache on the fullest device.
struct KvShare {
  int64_t heads = 0;  // 1 for a latent
  int64_t width = 0;  // elements per head and token
  int64_t sequences = 0;
  int64_t tokens = 0;  // of each sequence, in whole pages; or entries
  // The number of devices that hold the same heads, among those that share a
  // sequence's tokens or a state, rounded down; all of them for a latent.
  int64_t copies = 1;
};
KvShare kv_share(const KvLayer& layer, const KvSharding& sharding,
                 const KvRequest& request);
// Returns no value beyond 63 bits.
std::optional<int64_t> kv_bytes(const KvShare& share, DType dtype);
// Returns the bytes that the prefill of one sliding layer holds beyond the
// caches of all layers; 0 in decode and without windows. No value beyond 63
// bits.
std::optional<int64_t> kv_prefill_bytes(const std::vector<KvLayer>& layers,
                                        const KvSharding& sharding,
                                        const KvRequest& request);

// Returns the bytes that the fullest device caches for the given layers,
// including prefill. Monotone in batch and seq. No value beyond 63 bits.
std::optional<int64_t> kv_bytes_per_device(const std::vector<KvLayer>& layers,
                                           const KvSharding& sharding,
                                           const KvRequest& request);

// Returns the sum of replicas x logical bytes over all devices. What they store
// beyond it is padding: the rounding of heads, sequences and tokens. REQUIRES:
// `devices` is a multiple of the sharding's heads x batch x sequence, and at
// most kMaxDevices. Returns no value if kv_bytes_per_device returns none.
std::optional<Int128> kv_bytes_with_replicas(const std::vector<KvLayer>& layers,
                                             const KvSharding& sharding,
                                             const KvRequest& request,
                                             int64_t devices);

// Returns the largest value from 1 to kMaxKvCount for which `fits` returns
// true. REQUIRES: once `fits` is false, it is false for all larger values. 0 if
// it is false for 1; no value if it is true for kMaxKvCount.
template <typename Fits>
std::optional<int64_t> largest_count(Fits fits) {
  if (!fits(1)) return 0;
  if (fits(kMaxKvCount)) return std::nullopt;
  int64_t good = 1;
  int64_t bad = kMaxKvCount;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

// Returns the largest batch (`count` is &KvRequest::batch) or context (seq)
// that fits `bytes` per device while the other is fixed; 0 if not even 1 fits;
// no value if there is no limit up to kMaxKvCount.
std::optional<int64_t> largest_that_fits(int64_t KvRequest::*count,
                                         const std::vector<KvLayer>& layers,
                                         const KvSharding& sharding,
                                         KvRequest request, int64_t bytes);

// The largest batch (context) with which every device still fits while the
// other is fixed; 0 if not even 1 fits; no value if there is no limit up to
// kMaxKvCount.
struct WorkloadHeadroom {
  std::optional<int64_t> batch;
  std::optional<int64_t> context;
};

// Sharding of the KV cache: the mesh axes that a plan shards it over, and the
// reason for them.
//
// A cache is not a parameter, so no rule places it. Its heads are on the
// devices where the key projections compute them: they are sharded over the
// axes that shard the KV heads of `k_proj`, except those over which a weight is
// gathered before use. If the plan replicates `k_proj`, every device computes
// all KV heads and is assumed to cache them all; for vLLM, which then stores
// one head per rank, use `--kv-axes tp`. A latent (MLA) has no heads to shard.
// Sequences are sharded over the axes of the batch. Axes that the user names
// are used as named, and are then not used for any other purpose.

// The dimension of a key projection that consists of KV heads.
struct KeyProjection {
  size_t parameter = 0;
  int dim = 0;

  bool operator==(const KeyProjection&) const = default;
};
// Returns the key projections in manifest order. Requires facts that a config
// or the manifest states. Finds them by the names of modules, else by the
// labels of an architecture; in that case, all matrices of these modules that
// consist of heads.
std::vector<KeyProjection> key_projections(const Manifest& manifest);

// Returns the same for the parts of recurrent states: dimensions of a mixer's
// matrices with the label that the architecture gives to the state's parts.
// Only for layers with states. If none are found, states are replicated, which
// never underestimates.
std::vector<KeyProjection> state_projections(const Manifest& manifest);

// Axes of the mesh larger than 1. No axis occurs twice, except that `states`
// may repeat others.
struct KvAxes {
  AxisNames heads;
  AxisNames batch;
  AxisNames sequence;
  // Why `heads` has these axes: "as `model.layers.0.self_attn.k_proj.weight` is
  // sharded".
  std::string heads_from;
  // Axes over parts of recurrent states; equal to `heads` if those were
  // requested.
  AxisNames states = {};
  std::string states_from = {};

  bool operator==(const KvAxes&) const = default;
};

// Axes that the user requested by name; each list is empty if none were.
struct RequestedKvAxes {
  AxisNames heads = {};     // --kv-axes
  AxisNames batch = {};     // --batch-axes
  AxisNames sequence = {};  // --sequence-axes
};

// Returns the axes of the cache. Reports SP010 for a requested axis that the
// mesh does not have and nobody declared, and for one that is requested twice.
std::optional<KvAxes> kv_axes(const Manifest& manifest,
                              const std::vector<KeyProjection>& projections,
                              const std::vector<KeyProjection>& states,
                              const Plan& plan, const RequestedKvAxes& asked,
                              Diagnostics& diags);
KvSharding kv_sharding(const Mesh& mesh, const KvAxes& axes);

// Returns kv_layers() of a manifest's facts, or reports the facts that are
// missing.
std::optional<std::vector<KvLayer>> kv_layers(const Manifest& manifest,
                                              Diagnostics& diags);

}  // namespace shardplan
