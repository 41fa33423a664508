// SPDX-License-Identifier: Apache-2.0
// KV cache: what attention keeps of the tokens seen so far, in closed form.
//
// A layer with K KV heads caches K x (key + value size) elements for each token
// that it can still see; a layer with latent attention (MLA) one latent, which
// no head owns and every tensor-parallel rank therefore holds. A device never
// holds less than one KV head: where more devices share the heads than there
// are heads, heads are replicated. With paged blocks, tokens are rounded up to
// whole blocks, per sequence.
// Sources: 2 x bytes x heads x head size x layers x tokens (scaling-book);
// MLA and replication factors as in vLLM.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/facts.h"
#include "core/types.h"

namespace shardplan {

// What one layer caches. Either `heads` or `latent` is positive.
struct KvLayer {
  int64_t heads = 0;   // KV heads
  int64_t width = 0;   // elements per head and token: key + value
  int64_t latent = 0;  // elements per token, of no head
  int64_t window = 0;  // tokens that it reaches back; 0: all

  bool operator==(const KvLayer&) const = default;
};

// Per layer of the model. Empty where facts do not tell; kv_missing()
// then names what they lack.
std::optional<std::vector<KvLayer>> kv_layers(const ModelFacts& facts);
// "`kv_heads` and `head_dim`"; empty when nothing is missing.
std::string kv_missing(const ModelFacts& facts);

// Over how many devices the cache is cut. Devices beyond the product of these
// hold copies.
struct KvSharding {
  int64_t heads = 1;     // tensor-parallel ranks over KV heads
  int64_t batch = 1;     // over sequences
  int64_t sequence = 1;  // over tokens (context parallelism)
};

struct KvRequest {
  int64_t batch = 1;  // sequences, over all devices
  int64_t seq = 1;    // tokens of each, cached
  DType dtype = DType::BF16;
  int64_t block = 1;     // tokens per page; 1: no paging
  bool prefill = false;  // windows are cut only after the prompt is processed
};

// Bytes that the fullest device caches for the given layers. Monotone in batch
// and seq. Empty beyond 63 bits.
std::optional<int64_t> kv_bytes_per_device(const std::vector<KvLayer>& layers,
                                           const KvSharding& sharding,
                                           const KvRequest& request);

// The largest batch (context) that fits `bytes` per device while the other
// stays; 0 when not even 1 does, and empty when no limit is reached below 2^40.
std::optional<int64_t> largest_batch(const std::vector<KvLayer>& layers,
                                     const KvSharding& sharding,
                                     const KvRequest& request, int64_t bytes);
std::optional<int64_t> longest_context(const std::vector<KvLayer>& layers,
                                       const KvSharding& sharding,
                                       const KvRequest& request, int64_t bytes);

}  // namespace shardplan
