// SPDX-License-Identifier: Apache-2.0
// KV cache: what attention keeps of the tokens seen so far, in closed form.
//
// A layer with K KV heads caches K x (key + value size) elements for each token
// that it can still see; a layer with latent attention (MLA) one latent, which
// no head owns and every tensor-parallel rank therefore holds. A device never
// holds less than one KV head: where more devices share the heads than there
// are heads, heads are replicated.
//
// Tokens of one sequence on one device, with T tokens in all, a window of W, C
// devices over the context and pages of B tokens:
//   all tokens  ceil(ceil(T/C) / B) pages
//   a window    the same, at most ceil((ceil(W/C) - 1) / B) + 1 pages: a window
//               may begin anywhere in its first page
// In prefill, attention of a layer reads the keys and values of the whole
// prompt before the window cuts them, one layer after another: on top of the
// caches of all layers stands what the largest sliding layer then drops. That
// is exact for a prompt in one piece; engines that keep pages of all layers for
// the whole step (vLLM) hold more, those that cut prompts into chunks less.
// Sources: 2 x bytes x heads x head size x layers x tokens (scaling-book); MLA
// and replication as in vLLM; the pages of a window as vLLM reserves them.
//
// A layer that compresses keeps one entry for every N tokens: of T tokens
// floor(T / N), a page of them as many as become of B tokens (DeepSeek V4).
// What is not yet an entry is a state.
//
// Cross attention keeps the keys and values of what an encoder gives, as many
// tokens as that are. A recurrent state is kept per sequence, however long it
// is: context parallelism does not cut it, pages do not round it, and its parts
// (heads, channels) are shared out over axes of their own.
//
// Every count is at least 1 and at most kMaxKvCount; what follows from facts is
// checked.
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

// As many tokens as KvRequest::source.
inline constexpr int64_t kSourceTokens = -1;

// What one layer keeps. Either `heads` or `latent` is positive.
struct KvLayer {
  int64_t heads = 0;   // KV heads; parts of a state
  int64_t width = 0;   // elements per head and token: key + value
  int64_t latent = 0;  // elements per token, of no head
  int64_t window = 0;  // tokens that it reaches back; 0: all
  int64_t every = 1;   // tokens that become one entry
  // Of an encoder instead of those that are generated; 0: it is of these.
  int64_t source = 0;
  bool recurrent = false;                     // per sequence, not per token
  std::optional<DType> dtype = std::nullopt;  // none: that of the request
  // "ssm", "cross"; "" for keys and values and for a latent. Of the facts,
  // which must outlive it.
  std::string_view name = {};
  int64_t columns = 1;  // as KeptTensor::columns

  bool operator==(const KvLayer&) const = default;
};

// What layers keep, in order: of one layer one entry, or more, or none. Empty
// where facts do not tell; kv_missing() then names what they lack. With a range
// those of the layers [begin, end).
std::optional<std::vector<KvLayer>> kv_layers(const Facts& facts);
std::optional<std::vector<KvLayer>> kv_layers(const Facts& facts, int64_t begin,
                                              int64_t end);
bool is_recurrent(const KvLayer& layer);
// Some depend on how many tokens an encoder gives.
bool needs_source(const std::vector<KvLayer>& layers);
// "`kv_heads` and `head_dim`"; empty when nothing is missing.
std::string kv_missing(const Facts& facts);

// Layers that are alike, in order of the first.
struct KvKind {
  KvLayer layer;
  int64_t layers = 0;
};
std::vector<KvKind> kv_kinds(const std::vector<KvLayer>& layers);

// Over how many devices the cache is cut. Devices beyond the product of these
// hold copies.
struct KvSharding {
  int64_t heads = 1;     // tensor-parallel ranks over KV heads
  int64_t batch = 1;     // over sequences
  int64_t sequence = 1;  // over tokens (context parallelism)
  int64_t states = 1;    // over parts of recurrent states

  bool operator==(const KvSharding&) const = default;
};

struct KvRequest {
  int64_t batch = 1;  // sequences, over all devices
  int64_t seq = 1;    // tokens of each, cached
  DType dtype = DType::BF16;
  int64_t block = 1;     // tokens per page; 1: no paging
  bool prefill = false;  // windows are cut only after the prompt is processed
  int64_t source = 0;    // tokens that an encoder gives; 0: not said
};

// What the fullest device holds of one layer's cache.
struct KvShare {
  int64_t heads = 0;  // 1 for a latent
  int64_t width = 0;  // elements per head and token
  int64_t sequences = 0;
  int64_t tokens = 0;  // of each sequence, in whole pages; or entries of them
  // Devices of those that share a sequence's tokens, or a state, that hold the
  // same heads, rounded down; all of them for a latent.
  int64_t copies = 1;
};
KvShare kv_share(const KvLayer& layer, const KvSharding& sharding,
                 const KvRequest& request);
// Empty beyond 63 bits.
std::optional<int64_t> kv_bytes(const KvShare& share, DType dtype);
// What the prefill of one sliding layer holds beyond the caches of all layers;
// 0 in decode and without windows. Empty beyond 63 bits.
std::optional<int64_t> kv_prefill_bytes(const std::vector<KvLayer>& layers,
                                        const KvSharding& sharding,
                                        const KvRequest& request);

// Bytes that the fullest device caches for the given layers, prefill included.
// Monotone in batch and seq. Empty beyond 63 bits.
std::optional<int64_t> kv_bytes_per_device(const std::vector<KvLayer>& layers,
                                           const KvSharding& sharding,
                                           const KvRequest& request);

// Over all devices, each of which stores as much as the fullest.
// stored = with_replicas + padding, where padding is what rounding of heads,
// sequences and tokens adds.
struct KvTotals {
  Int128 on_devices = 0;
  Int128 with_replicas = 0;  // sum of replicas x logical bytes
  Int128 padding = 0;
};
// REQUIRES: `devices` is a multiple of heads x batch x sequence of the
// sharding, at most kMaxDevices. Empty where kv_bytes_per_device is.
std::optional<KvTotals> kv_totals(const std::vector<KvLayer>& layers,
                                  const KvSharding& sharding,
                                  const KvRequest& request, int64_t devices);

// The largest value from 1 to kMaxKvCount for which a predicate holds that,
// once false, stays so; 0 when it holds for none, and empty when for all.
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

// The largest batch (context) that fits `bytes` per device while the other
// stays; 0 when not even 1 does, and empty when no limit is reached below
// kMaxKvCount.
std::optional<int64_t> largest_batch(const std::vector<KvLayer>& layers,
                                     const KvSharding& sharding,
                                     const KvRequest& request, int64_t bytes);
std::optional<int64_t> longest_context(const std::vector<KvLayer>& layers,
                                       const KvSharding& sharding,
                                       const KvRequest& request, int64_t bytes);

// How a plan cuts the KV cache: over which mesh axes, and how that is known.
//
// A cache is not a parameter, so no rule places it. Its heads are where the
// key projections put them: the axes that shard the KV heads of `k_proj`,
// without those that gather a weight before use. Where the plan leaves `k_proj`
// whole, every device computes all KV heads, and so is taken to cache them all;
// vLLM, which then keeps one head per rank, is `--kv-axes tp`. A latent (MLA)
// has no heads to cut. Sequences are dealt out over the axes of the batch.
// Whoever asks for axes by name gets those: an axis then leaves what it would
// have been taken for otherwise.

// The dimension of a key projection that consists of KV heads.
struct KeyProjection {
  size_t parameter = 0;
  int dim = 0;

  bool operator==(const KeyProjection&) const = default;
};
// In manifest order; needs facts that a config or the manifest states. By the
// names of modules, else by the labels of an architecture: then of all matrices
// of these modules that consist of heads.
std::vector<KeyProjection> key_projections(const Manifest& manifest);

// The same of the parts of recurrent states: dimensions of a mixer's matrices
// that the architecture calls as it calls the state's. Only where layers keep
// states; whole where nothing is found, which is never too little.
std::vector<KeyProjection> state_projections(const Manifest& manifest);

// Axes of the mesh larger than 1, no axis twice but those over states.
struct KvAxes {
  AxisNames heads;
  AxisNames batch;
  AxisNames sequence;
  // Why those over heads: "as `model.layers.0.self_attn.k_proj.weight` is
  // sharded".
  std::string heads_from;
  // Over parts of recurrent states; as over heads where these were asked for.
  AxisNames states = {};
  std::string states_from = {};

  bool operator==(const KvAxes&) const = default;
};

// What was asked for by name; each empty when nothing was.
struct KvAxesAsked {
  AxisNames heads = {};     // --kv-axes
  AxisNames batch = {};     // --batch-axes
  AxisNames sequence = {};  // --sequence-axes
};

// SP010 for an axis that the mesh does not have and nobody declared, and for
// one that is asked for twice.
std::optional<KvAxes> kv_axes(const Manifest& manifest,
                              const std::vector<KeyProjection>& projections,
                              const std::vector<KeyProjection>& states,
                              const Plan& plan, const KvAxesAsked& asked,
                              Diagnostics& diags);
KvSharding kv_sharding(const Mesh& mesh, const KvAxes& axes);

// Both in one, for a single plan.
std::optional<KvSharding> kv_sharding(const Manifest& manifest,
                                      const Plan& plan,
                                      const AxisNames& kv_axes,
                                      const AxisNames& batch_axes,
                                      const AxisNames& sequence_axes,
                                      Diagnostics& diags);

// kv_layers() of a manifest's facts, or a report of what they lack.
std::optional<std::vector<KvLayer>> kv_layers(const Manifest& manifest,
                                              Diagnostics& diags);

}  // namespace shardplan
