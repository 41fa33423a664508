// SPDX-License-Identifier: Apache-2.0
// CachePool: the cache that an engine builds in the bytes it has left, and how
// many tokens and sequences it holds.
//
// Blocks (vLLM): there is one pool of equal blocks. Alike layers form groups
// with equal numbers of layers. A block holds a page of each layer of one
// group, and a sequence needs blocks for every group. All pages have one size:
// smaller ones hold more tokens, or are padded. If layers have a state, pages
// of attention hold enough tokens for a state to fit into a page, and a
// sequence needs two pages per state. A window needs blocks for its tokens and
// for the tokens in flight.
// Tokens (SGLang): layers that see all tokens and layers with a window have
// separate pools, with 0.8 window tokens for each full token. States get 0.9
// bytes for each byte of tokens, and each running sequence needs three states.
//
// Every rank holds all latents, and at least one KV head.
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

// The cache of one layer on one rank; a layer may have both tokens and a state.
struct CacheLayer {
  int64_t token_bytes = 0;  // per token; 0: none
  int64_t window = 0;       // tokens that it attends back to; 0: all
  bool latent = false;
  int64_t state_bytes = 0;  // per sequence; 0: none

  bool operator==(const CacheLayer&) const = default;
};

// Returns the cache of layers [begin, end). Empty if the facts do not determine
// what the layers cache, if they cache encoder tokens, or beyond 63 bits.
std::optional<std::vector<CacheLayer>> cache_layers(const Facts& facts,
                                                    int64_t begin, int64_t end,
                                                    int64_t tp, DType dtype);

struct PoolRequest {
  int64_t seq = 1;               // tokens of each sequence
  int64_t block = 1;             // tokens of a page, as requested
  int64_t tokens_in_flight = 0;  // scheduled and not finished
};

struct CachePool {
  int64_t block = 0;            // tokens of a page, as used
  int64_t block_bytes = 0;      // of all pages of one block, or of one token
  int64_t blocks = 0;           // blocks, or tokens
  int64_t groups = 0;           // that a sequence needs blocks of
  int64_t sequence_blocks = 0;  // for a sequence of `seq` tokens
  int64_t tokens = 0;           // as the engine reports it
  double sequences = 0;         // of `seq` tokens, concurrent
  // SGLang: states that fit; 0 if no layer has a state.
  int64_t states = 0;
  // Bytes that padding of pages and groups wastes per sequence.
  int64_t sequence_padding = 0;
};

// Returns the pool in `bytes`. Empty if no layer caches anything, or beyond 63
// bits.
std::optional<CachePool> cache_pool(PoolKind kind,
                                    const std::vector<CacheLayer>& layers,
                                    const PoolRequest& request, int64_t bytes);

// Returns the least bytes that hold this many sequences, up to the rounding of
// states and windows; INT64_MAX / 2 if no smaller number suffices. REQUIRES:
// cache_pool() is not empty.
int64_t bytes_for_sequences(PoolKind kind,
                            const std::vector<CacheLayer>& layers,
                            const PoolRequest& request, int64_t sequences);

}  // namespace shardplan
