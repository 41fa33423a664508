// SPDX-License-Identifier: Apache-2.0
#include "memory/kv_cache.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>

#include "base/text.h"

namespace shardplan {
namespace {

// More layers than any model has; each takes an entry.
constexpr int64_t kMaxLayers = 100'000;

// The width of a key and a value together.
std::optional<int64_t> width_of(const ModelFacts& facts) {
  if (!facts.head_dim) return std::nullopt;
  return checked_add(*facts.head_dim,
                     facts.value_dim.value_or(*facts.head_dim));
}

// Bytes of all layers of one kind; the number of layers is small.
std::optional<int64_t> bytes_of_kind(const KvKind& kind,
                                     const KvSharding& sharding,
                                     const KvRequest& request) {
  const auto bytes =
      kv_bytes(kv_share(kind.layer, sharding, request), request.dtype);
  if (!bytes) return std::nullopt;
  return checked_mul(*bytes, kind.layers);
}

// What one layer holds more while all tokens are there.
std::optional<int64_t> uncut_bytes(const KvLayer& layer,
                                   const KvSharding& sharding,
                                   const KvRequest& request) {
  KvLayer uncut = layer;
  uncut.window = 0;
  const auto all = kv_bytes(kv_share(uncut, sharding, request), request.dtype);
  const auto cut = kv_bytes(kv_share(layer, sharding, request), request.dtype);
  if (!all || !cut) return std::nullopt;
  return *all - *cut;
}

struct AtWork {
  size_t kind = 0;
  int64_t bytes = 0;  // beyond its cache
};

// The sliding layer that holds most during prefill.
std::optional<AtWork> layer_at_work(const std::vector<KvKind>& kinds,
                                    const KvSharding& sharding,
                                    const KvRequest& request) {
  AtWork most;
  if (!request.prefill) return most;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto bytes = uncut_bytes(kinds[i].layer, sharding, request);
    if (!bytes) return std::nullopt;
    if (*bytes > most.bytes) most = {i, *bytes};
  }
  return most;
}

std::optional<int64_t> bytes_of_kinds(const std::vector<KvKind>& kinds,
                                      const KvSharding& sharding,
                                      const KvRequest& request) {
  const auto at_work = layer_at_work(kinds, sharding, request);
  if (!at_work) return std::nullopt;
  std::optional<int64_t> total = at_work->bytes;
  for (const KvKind& kind : kinds) {
    const auto bytes = bytes_of_kind(kind, sharding, request);
    if (!bytes) return std::nullopt;
    total = checked_add(*total, *bytes);
    if (!total) return std::nullopt;
  }
  return total;
}

// The bytes of one layer without any rounding or copy.
// REQUIRES: what one device holds of it fits 63 bits, so this fits 127.
Int128 logical_bytes(const KvLayer& layer, const KvRequest& request) {
  const int64_t tokens =
      layer.window > 0 ? std::min(layer.window, request.seq) : request.seq;
  Int128 elements = 1;
  for (const int64_t factor :
       {request.batch, tokens, layer.latent > 0 ? layer.latent : layer.heads,
        layer.latent > 0 ? 1 : layer.width}) {
    elements *= factor;
  }
  return wide_byte_count(elements, request.dtype);
}

}  // namespace

std::string kv_missing(const ModelFacts& facts) {
  std::vector<std::string> missing;
  if (!facts.layers) missing.emplace_back("`layers`");
  if (!facts.kv_latent) {
    if (!facts.kv_heads) missing.emplace_back("`kv_heads`");
    if (!facts.head_dim) missing.emplace_back("`head_dim`");
    if (facts.head_dim && !width_of(facts)) {
      missing.emplace_back("a `head_dim` and a `value_dim` within 63 bits");
    }
  }
  if (facts.layers && *facts.layers > kMaxLayers) {
    missing.emplace_back("at most 100,000 `layers`");
  } else if (facts.layers && !facts.windows.empty() &&
             static_cast<int64_t>(facts.windows.size()) != *facts.layers) {
    missing.push_back("`windows` of all " + std::to_string(*facts.layers) +
                      " layers (it has " +
                      std::to_string(facts.windows.size()) + ")");
  }
  const auto unknown = std::count_if(facts.windows.begin(), facts.windows.end(),
                                     [](int64_t w) { return w < 0; });
  if (unknown > 0) {
    missing.push_back("what " + plural(unknown, "layer") +
                      " of another kind than attention cache");
  }
  std::string text;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (i > 0) text += i + 1 == missing.size() ? " and " : ", ";
    text += missing[i];
  }
  return text;
}

std::optional<std::vector<KvLayer>> kv_layers(const ModelFacts& facts) {
  if (!kv_missing(facts).empty()) return std::nullopt;
  KvLayer layer;
  if (facts.kv_latent) {
    layer.latent = *facts.kv_latent;
  } else {
    layer.heads = *facts.kv_heads;
    layer.width = *width_of(facts);
  }
  std::vector<KvLayer> layers(static_cast<size_t>(*facts.layers), layer);
  for (size_t i = 0; i < facts.windows.size(); ++i) {
    layers[i].window = facts.windows[i];
  }
  return layers;
}

std::vector<KvKind> kv_kinds(const std::vector<KvLayer>& layers) {
  std::vector<KvKind> kinds;
  std::map<std::array<int64_t, 4>, size_t> numbers;
  for (const KvLayer& layer : layers) {
    const auto [entry, is_new] = numbers.try_emplace(
        {layer.heads, layer.width, layer.latent, layer.window}, kinds.size());
    if (is_new) kinds.push_back({layer, 0});
    ++kinds[entry->second].layers;
  }
  return kinds;
}

KvShare kv_share(const KvLayer& layer, const KvSharding& sharding,
                 const KvRequest& request) {
  KvShare share;
  if (layer.latent > 0) {
    share.heads = 1;
    share.width = layer.latent;
    share.copies = sharding.heads;
  } else {
    share.heads = ceil_div(layer.heads, sharding.heads);
    share.width = layer.width;
    share.copies = std::max<int64_t>(1, sharding.heads / layer.heads);
  }
  share.sequences = ceil_div(request.batch, sharding.batch);
  int64_t pages =
      ceil_div(ceil_div(request.seq, sharding.sequence), request.block);
  if (layer.window > 0) {
    const int64_t reach = ceil_div(layer.window, sharding.sequence);
    pages = std::min(pages, ceil_div(reach - 1, request.block) + 1);
  }
  share.tokens = pages * request.block;
  return share;
}

std::optional<int64_t> kv_bytes(const KvShare& share, DType dtype) {
  std::optional<int64_t> elements = share.sequences;
  for (const int64_t factor : {share.tokens, share.heads, share.width}) {
    elements = checked_mul(*elements, factor);
    if (!elements) return std::nullopt;
  }
  return byte_count(*elements, dtype);
}

std::optional<int64_t> kv_prefill_bytes(const std::vector<KvLayer>& layers,
                                        const KvSharding& sharding,
                                        const KvRequest& request) {
  const auto at_work = layer_at_work(kv_kinds(layers), sharding, request);
  if (!at_work) return std::nullopt;
  return at_work->bytes;
}

std::optional<int64_t> kv_bytes_per_device(const std::vector<KvLayer>& layers,
                                           const KvSharding& sharding,
                                           const KvRequest& request) {
  return bytes_of_kinds(kv_kinds(layers), sharding, request);
}

std::optional<KvTotals> kv_totals(const std::vector<KvLayer>& layers,
                                  const KvSharding& sharding,
                                  const KvRequest& request, int64_t devices) {
  std::vector<KvKind> kinds = kv_kinds(layers);
  const auto per_device = bytes_of_kinds(kinds, sharding, request);
  const auto at_work = layer_at_work(kinds, sharding, request);
  if (!per_device || !at_work) return std::nullopt;
  if (at_work->bytes > 0) {
    KvLayer uncut = kinds[at_work->kind].layer;
    uncut.window = 0;
    --kinds[at_work->kind].layers;
    kinds.push_back({uncut, 1});
  }
  const int64_t groups =
      devices / (sharding.heads * sharding.batch * sharding.sequence);
  KvTotals totals;
  totals.stored = static_cast<Int128>(*per_device) * devices;
  for (const KvKind& kind : kinds) {
    const int64_t copies = kv_share(kind.layer, sharding, request).copies;
    totals.with_replicas +=
        logical_bytes(kind.layer, request) * kind.layers * (groups * copies);
  }
  totals.padding = totals.stored - totals.with_replicas;
  return totals;
}

std::optional<int64_t> largest_batch(const std::vector<KvLayer>& layers,
                                     const KvSharding& sharding,
                                     const KvRequest& request, int64_t bytes) {
  const std::vector<KvKind> kinds = kv_kinds(layers);
  KvRequest trial = request;
  return largest_count([&](int64_t batch) {
    trial.batch = batch;
    const auto needed = bytes_of_kinds(kinds, sharding, trial);
    return needed && *needed <= bytes;
  });
}

std::optional<int64_t> longest_context(const std::vector<KvLayer>& layers,
                                       const KvSharding& sharding,
                                       const KvRequest& request,
                                       int64_t bytes) {
  const std::vector<KvKind> kinds = kv_kinds(layers);
  KvRequest trial = request;
  return largest_count([&](int64_t seq) {
    trial.seq = seq;
    const auto needed = bytes_of_kinds(kinds, sharding, trial);
    return needed && *needed <= bytes;
  });
}

}  // namespace shardplan
