// SPDX-License-Identifier: Apache-2.0
// The cache that an engine makes of the bytes it has left: how many tokens and
// sequences it holds.
//
// Blocks (vLLM): one pool of equal blocks. Layers that are alike form groups of
// equal numbers of layers, and a block holds a page of each layer of one group;
// a sequence takes blocks for every group. Pages of all groups have one size:
// where they differ, smaller ones hold more tokens, or are padded; where layers
// keep a state, pages of attention hold so many tokens that a state fits into
// one, and a sequence takes two of each. A window needs blocks for itself and
// for what is on its way in. Tokens (SGLang): layers that see all tokens and
// those of a window have pools of their own, with 0.8 tokens of these for each
// of those; states take 0.9 of what tokens take, and each running sequence
// three of them.
//
// Of latents every rank has all; of KV heads at least one.
// Units: bytes on one rank, tokens, sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/facts.h"
#include "core/types.h"
#include "memory/kv_cache.h"
#include "serve/engine.h"

namespace shardplan {

// What one layer keeps on one rank; a layer may keep both.
struct CacheLayer {
  int64_t token_bytes = 0;  // of each token; 0: keeps none
  int64_t window = 0;       // tokens that it reaches back; 0: all
  bool latent = false;
  int64_t state_bytes = 0;  // of each sequence; 0: keeps none

  bool operator==(const CacheLayer&) const = default;
};

// Of the layers [begin, end). Empty where the facts do not tell what layers
// keep, where they keep what an encoder gives, or beyond 63 bits.
std::optional<std::vector<CacheLayer>> cache_layers(const Facts& facts,
                                                    int64_t begin, int64_t end,
                                                    int64_t tp, DType dtype);

struct PoolRequest {
  int64_t seq = 1;               // tokens of each sequence
  int64_t block = 1;             // tokens of a page, as asked for
  int64_t tokens_in_flight = 0;  // scheduled, and not yet settled
};

struct CachePool {
  int64_t block = 0;            // tokens of a page, as used
  int64_t block_bytes = 0;      // of all pages that one block, or token, takes
  int64_t blocks = 0;           // blocks, or tokens
  int64_t groups = 0;           // that a sequence takes blocks of
  int64_t sequence_blocks = 0;  // of a sequence of `seq` tokens
  int64_t tokens = 0;           // as the engine says it
  double sequences = 0;         // of `seq` tokens, at once
  // SGLang: states that fit; 0 where layers keep none.
  int64_t states = 0;
  // What padding of pages and of groups wastes of each sequence's blocks.
  int64_t sequence_padding = 0;
};

// What `bytes` hold. Empty where no layer keeps anything, and beyond 63 bits.
std::optional<CachePool> cache_pool(PoolKind kind,
                                    const std::vector<CacheLayer>& layers,
                                    const PoolRequest& request, int64_t bytes);

// The least bytes that hold so many sequences, up to what states and windows
// round; INT64_MAX / 2 where none below it do. REQUIRES: cache_pool() is not
// empty.
int64_t bytes_for_sequences(PoolKind kind,
                            const std::vector<CacheLayer>& layers,
                            const PoolRequest& request, int64_t sequences);

}  // namespace shardplan
