// SPDX-License-Identifier: Apache-2.0
#include "serve/pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

// SGLang: window tokens per token of layers that see all; bytes of states per
// byte of tokens; states per running sequence.
constexpr double kWindowTokens = 0.8;
constexpr double kStateBytes = 0.9;
constexpr int64_t kStatesOfSequence = 3;
// vLLM: states per sequence if other layers cache tokens. Prefixes are cached
// by default, and a step writes a new state beside the last one.
constexpr int64_t kStatesBesideTokens = 2;
// vLLM: the smallest block of kernels for latents in models with states.
constexpr int64_t kLatentBlock = 128;

int64_t narrowed(Int128 value) {
  return static_cast<int64_t>(std::min<Int128>(value, INT64_MAX));
}

// Layers with the same bytes per token and the same window.
struct Bucket {
  int64_t token_bytes = 0;
  int64_t window = 0;
  bool state = false;
  int64_t layers = 1;
  int64_t block = 0;   // tokens of a page
  int64_t page = 0;    // bytes, padded
  int64_t states = 1;  // per sequence, if it is a state
};

std::vector<Bucket> buckets_of(const std::vector<CacheLayer>& layers) {
  std::vector<Bucket> buckets;
  const auto add = [&](int64_t bytes, int64_t window, bool state) {
    if (bytes <= 0) return;
    for (Bucket& bucket : buckets) {
      if (std::tie(bucket.token_bytes, bucket.window, bucket.state) ==
          std::tie(bytes, window, state)) {
        ++bucket.layers;
        return;
      }
    }
    buckets.push_back({bytes, window, state});
  };
  for (const CacheLayer& layer : layers) {
    add(layer.token_bytes, layer.window, false);
    add(layer.state_bytes, 0, true);
  }
  return buckets;
}

// Returns the blocks of one group that a sequence needs.
int64_t blocks_of_sequence(const Bucket& bucket, const PoolRequest& request) {
  if (bucket.state) return bucket.states;
  if (bucket.window == 0) return ceil_div(request.seq, bucket.block);
  const int64_t tokens =
      std::min(bucket.window - 1 + request.tokens_in_flight, request.seq);
  return ceil_div(tokens, bucket.block) + 1;
}

// Returns the bytes that a sequence needs in one layer of a bucket, without
// padding.
Int128 needed_bytes(const Bucket& bucket, const PoolRequest& request) {
  if (bucket.state) return Int128{bucket.states} * bucket.token_bytes;
  return Int128{blocks_of_sequence(bucket, request)} * bucket.block *
         bucket.token_bytes;
}

// Returns the tokens per page of attention with which a state fits into a page.
int64_t block_beside_states(const std::vector<CacheLayer>& layers,
                            const PoolRequest& request) {
  int64_t state = 0;
  int64_t token = 0;
  bool latent = false;
  for (const CacheLayer& layer : layers) {
    state = std::max(state, layer.state_bytes);
    token = std::max(token, layer.token_bytes);
    latent = latent || layer.latent;
  }
  if (state == 0 || token == 0) return request.block;
  const int64_t unit =
      latent ? std::max(request.block, kLatentBlock) : request.block;
  const Int128 per = Int128{unit} * token;
  const Int128 pages = (state + per - 1) / per;
  return narrowed(pages * unit);
}

bool same_window(const std::vector<Bucket>& buckets) {
  return std::ranges::all_of(buckets, [&](const Bucket& b) {
    return !b.state && b.window == buckets.front().window;
  });
}

// Puts all layers into one group: a block is a page of each.
std::optional<CachePool> one_group(const std::vector<Bucket>& buckets,
                                   const PoolRequest& request, int64_t bytes) {
  CachePool pool;
  pool.block = buckets.front().block;
  pool.groups = 1;
  Int128 block_bytes = 0;
  for (const Bucket& b : buckets) {
    block_bytes += Int128{b.layers} * b.block * b.token_bytes;
  }
  if (block_bytes > INT64_MAX) return std::nullopt;
  pool.block_bytes = static_cast<int64_t>(block_bytes);
  pool.blocks = bytes / pool.block_bytes;
  pool.sequence_blocks = blocks_of_sequence(buckets.front(), request);
  return pool;
}

// Gives all pages one size: smaller pages hold more tokens if the sizes divide;
// otherwise they are padded.
void unify_pages(std::vector<Bucket>& buckets) {
  const int64_t largest =
      std::ranges::max_element(buckets, {}, &Bucket::page)->page;
  for (Bucket& b : buckets) {
    if (!b.state && largest % b.page == 0) b.block *= largest / b.page;
    b.page = largest;
  }
}

// Returns the number of layers per group: that of the smallest bucket, or of
// the largest if that is less than one and a half times as many.
int64_t layers_of_group(const std::vector<Bucket>& buckets) {
  const int64_t least =
      std::ranges::min_element(buckets, {}, &Bucket::layers)->layers;
  const int64_t most =
      std::ranges::max_element(buckets, {}, &Bucket::layers)->layers;
  return 2 * most < 3 * least ? most : least;
}

std::optional<CachePool> block_pool(const std::vector<CacheLayer>& layers,
                                    const PoolRequest& request, int64_t bytes) {
  std::vector<Bucket> buckets = buckets_of(layers);
  if (buckets.empty()) return std::nullopt;
  const int64_t block = block_beside_states(layers, request);
  const bool tokens =
      std::ranges::any_of(buckets, [](const Bucket& b) { return !b.state; });
  for (Bucket& b : buckets) {
    if (b.state && tokens) b.states = kStatesBesideTokens;
    b.block = b.state ? 1 : block;
    const Int128 page = Int128{b.block} * b.token_bytes;
    if (page > INT64_MAX) return std::nullopt;
    b.page = static_cast<int64_t>(page);
  }
  if (same_window(buckets)) return one_group(buckets, request, bytes);
  unify_pages(buckets);
  const int64_t size = layers_of_group(buckets);
  const Int128 block_bytes = Int128{size} * buckets.front().page;
  if (block_bytes > INT64_MAX) return std::nullopt;
  CachePool pool;
  pool.block = block;
  pool.block_bytes = static_cast<int64_t>(block_bytes);
  pool.blocks = bytes / pool.block_bytes;
  Int128 needed = 0;
  Int128 taken = 0;
  for (const Bucket& b : buckets) {
    const int64_t groups = ceil_div(b.layers, size);
    pool.groups += groups;
    taken += Int128{groups} * blocks_of_sequence(b, request);
    needed += needed_bytes(b, request) * b.layers;
  }
  if (taken > INT64_MAX) return std::nullopt;
  pool.sequence_blocks = static_cast<int64_t>(taken);
  pool.sequence_padding = narrowed(taken * block_bytes - needed);
  return pool;
}

struct TokenBytes {
  Int128 all = 0;  // layers that see all tokens
  Int128 windows = 0;
  int64_t widest = 0;  // the largest window
  Int128 states = 0;
};

TokenBytes token_bytes(const std::vector<CacheLayer>& layers) {
  TokenBytes sum;
  for (const CacheLayer& layer : layers) {
    (layer.window > 0 ? sum.windows : sum.all) += layer.token_bytes;
    sum.widest = std::max(sum.widest, layer.window);
    sum.states += layer.state_bytes;
  }
  // If every layer has a window, there is one pool, as for all tokens.
  if (sum.all == 0) std::swap(sum.all, sum.windows);
  return sum;
}

std::optional<CachePool> token_pool(const std::vector<CacheLayer>& layers,
                                    const PoolRequest& request, int64_t bytes) {
  const TokenBytes sum = token_bytes(layers);
  if (sum.all + sum.windows + sum.states == 0 ||
      sum.all + sum.windows > INT64_MAX / 2 || sum.states > INT64_MAX / 2) {
    return std::nullopt;
  }
  CachePool pool;
  pool.block = request.block;
  double sequences = INFINITY;
  auto rest = static_cast<double>(bytes);
  if (sum.states > 0) {
    const auto state = static_cast<double>(sum.states);
    const double budget =
        sum.all == 0 ? rest : rest * kStateBytes / (1 + kStateBytes);
    // One more state is reserved for padding.
    pool.states = std::max<int64_t>(
        static_cast<int64_t>(std::floor(budget / state)) - 1, 0);
    rest -= static_cast<double>(pool.states + 1) * state;
    sequences = static_cast<double>(pool.states / kStatesOfSequence);
  }
  if (sum.all > 0) {
    const double cell = static_cast<double>(sum.all) +
                        kWindowTokens * static_cast<double>(sum.windows);
    pool.block_bytes = static_cast<int64_t>(std::ceil(cell)) * request.block;
    pool.blocks = static_cast<int64_t>(
        std::max(rest, 0.0) / (cell * static_cast<double>(request.block)));
    pool.groups = sum.windows > 0 ? 2 : 1;
    pool.sequence_blocks = ceil_div(request.seq, request.block);
    pool.tokens = pool.blocks * request.block;
    sequences =
        std::min(sequences, static_cast<double>(pool.blocks) /
                                static_cast<double>(pool.sequence_blocks));
    if (sum.windows > 0) {
      const double window_tokens =
          std::floor(kWindowTokens * static_cast<double>(pool.tokens));
      const auto kept = static_cast<double>(std::min(sum.widest, request.seq));
      sequences = std::min(sequences, window_tokens / kept);
    }
  }
  pool.sequences = sequences;
  return pool;
}

// Transformers stores as many tokens as a convolution spans; both engines store
// only those before the newest (vLLM, mamba_utils.py: conv_kernel - 1; SGLang,
// mamba_utils.py).
KvLayer served_state(KvLayer layer) {
  if (layer.name != "conv" || layer.columns < 2) return layer;
  int64_t& of_channel = layer.latent > 0 ? layer.latent : layer.width;
  of_channel = of_channel / layer.columns * (layer.columns - 1);
  return layer;
}

}  // namespace

std::optional<std::vector<CacheLayer>> cache_layers(const Facts& facts,
                                                    int64_t begin, int64_t end,
                                                    int64_t tp, DType dtype) {
  std::vector<CacheLayer> layers;
  KvSharding sharding;
  sharding.heads = tp;
  sharding.states = tp;
  KvRequest request;
  request.dtype = dtype;
  for (int64_t i = begin; i < end; ++i) {
    const auto kept = kv_layers(facts, i, i + 1);
    if (!kept) return std::nullopt;
    CacheLayer layer;
    for (KvLayer one : *kept) {
      if (one.source != 0 || one.every > 1) return std::nullopt;
      one = served_state(one);
      const auto bytes =
          kv_bytes(kv_share(one, sharding, request), one.dtype.value_or(dtype));
      int64_t& all = one.recurrent ? layer.state_bytes : layer.token_bytes;
      const auto sum = bytes ? checked_add(*bytes, all) : std::nullopt;
      if (!sum) return std::nullopt;
      all = *sum;
      if (one.recurrent) continue;
      layer.window = one.window;
      layer.latent = one.latent > 0;
    }
    layers.push_back(layer);
  }
  return layers;
}

std::optional<CachePool> cache_pool(PoolKind kind,
                                    const std::vector<CacheLayer>& layers,
                                    const PoolRequest& request, int64_t bytes) {
  bytes = std::max<int64_t>(bytes, 0);
  if (kind == PoolKind::Tokens) return token_pool(layers, request, bytes);
  auto pool = block_pool(layers, request, bytes);
  if (!pool) return std::nullopt;
  pool->sequences = static_cast<double>(pool->blocks) /
                    static_cast<double>(pool->sequence_blocks);
  pool->tokens =
      narrowed(Int128{pool->blocks} * request.seq / pool->sequence_blocks);
  return pool;
}

int64_t bytes_for_sequences(PoolKind kind,
                            const std::vector<CacheLayer>& layers,
                            const PoolRequest& request, int64_t sequences) {
  const auto holds = [&](int64_t bytes) {
    const auto pool = cache_pool(kind, layers, request, bytes);
    return pool && pool->sequences >= static_cast<double>(sequences);
  };
  int64_t least = 0;
  int64_t most = INT64_MAX / 2;
  while (most - least > 1) {
    const int64_t middle = std::midpoint(least, most);
    (holds(middle) ? most : least) = middle;
  }
  return most;
}

}  // namespace shardplan
