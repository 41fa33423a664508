// SPDX-License-Identifier: Apache-2.0
#include "memory/kv_cache.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "core/fold.h"
#include "core/spec.h"
#include "model/architecture/axis_labels.h"
#include "model/tensor_name.h"
#include "model/units.h"

namespace shardplan {
namespace {

// This is more layers than any model has; each has an entry.
constexpr int64_t kMaxLayers = 100'000;

// Returns the width of a key and a value together.
std::optional<int64_t> width_of(const Facts& facts) {
  if (!facts.head_dim) return std::nullopt;
  return checked_add(*facts.head_dim,
                     facts.value_dim.value_or(*facts.head_dim));
}

std::optional<int64_t> layer_bytes(const KvLayer& layer,
                                   const KvSharding& sharding,
                                   const KvRequest& request) {
  return kv_bytes(kv_share(layer, sharding, request),
                  layer.dtype.value_or(request.dtype));
}

// Returns the number of tokens of a sequence before a window applies, or of the
// entries that they form.
int64_t tokens_of(const KvLayer& layer, const KvRequest& request) {
  if (layer.recurrent) return 1;
  if (layer.source == kSourceTokens) return request.source;
  return layer.source > 0 ? layer.source : request.seq / layer.every;
}

// Returns how many more bytes a layer holds while no window applies.
std::optional<int64_t> uncut_bytes(const KvLayer& layer,
                                   const KvSharding& sharding,
                                   const KvRequest& request) {
  KvLayer uncut = layer;
  uncut.window = 0;
  const auto all = layer_bytes(uncut, sharding, request);
  const auto cut = layer_bytes(layer, sharding, request);
  if (!all || !cut) return std::nullopt;
  return *all - *cut;
}

struct AtWork {
  size_t kind = 0;
  int64_t bytes = 0;  // beyond its cache
};

// Returns the sliding layer that holds the most during prefill.
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
    auto bytes = layer_bytes(kind.layer, sharding, request);
    if (bytes) bytes = checked_mul(*bytes, kind.layers);
    if (bytes) total = checked_add(*total, *bytes);
    if (!bytes || !total) return std::nullopt;
  }
  return total;
}

// Returns the bytes of one layer without rounding or copies. REQUIRES: the
// bytes of it on one device fit 63 bits, so the result fits 127.
Int128 cache_bytes(const KvLayer& layer, const KvRequest& request) {
  const int64_t all = tokens_of(layer, request);
  const int64_t tokens = layer.window > 0 ? std::min(layer.window, all) : all;
  Int128 elements = 1;
  for (const int64_t factor :
       {request.batch, tokens, layer.latent > 0 ? layer.latent : layer.heads,
        layer.latent > 0 ? 1 : layer.width}) {
    elements *= factor;
  }
  return wide_byte_count(elements, layer.dtype.value_or(request.dtype));
}

// Converts a cached tensor of the facts. Names other than those of a KV cache
// proper, "kv" and "latent", are preserved.
KvLayer cached_layer(const CachedTensor& cached) {
  KvLayer layer;
  (cached.heads > 0 ? layer.width : layer.latent) = cached.width;
  layer.heads = cached.heads;
  layer.recurrent = cached.per == CachedTensor::Per::Sequence;
  layer.columns = cached.columns;
  layer.dtype = cached.dtype;
  if (cached.name != "kv" && cached.name != "latent") layer.name = cached.name;
  layer.every = cached.every;
  if (cached.per == CachedTensor::Per::Token) layer.window = cached.tokens;
  if (cached.per == CachedTensor::Per::Source) {
    layer.source = cached.tokens > 0 ? cached.tokens : kSourceTokens;
  }
  return layer;
}

void remove_all(AxisNames& axes, const AxisNames& gone) {
  erase_if(axes, [&](const AxisName& a) { return contains(gone, a); });
}

void report_unknown(const AxisName& axis, std::string_view flag,
                    const Mesh& mesh, Diagnostics& diags) {
  auto report = diags.error(Code::Usage, {},
                            std::string(flag) + " names " + in_backticks(axis) +
                                ", which is not an axis of the mesh");
  report.fact("mesh: " + mesh_text(mesh));
  if (const auto near = nearest(axis, all_names(mesh.axes()))) {
    report.help("name an axis of the mesh, such as `" + *near + "`");
  } else {
    report.help("name axes of the mesh, separated by commas");
  }
}

// Returns whether the requested axes exist and each is requested once; reports
// every problem.
bool check_asked(const Plan& plan, const RequestedKvAxes& asked,
                 Diagnostics& diags) {
  const std::array<std::pair<std::string_view, const AxisNames*>, 3> lists = {
      {{"`--kv-axes`", &asked.heads},
       {"`--batch-axes`", &asked.batch},
       {"`--sequence-axes`", &asked.sequence}}};
  bool good = true;
  std::vector<std::pair<AxisName, std::string_view>> seen;
  for (const auto& [flag, axes] : lists) {
    for (const AxisName& axis : *axes) {
      if (!plan.mesh.has({}, axis) && !contains(plan.declared_axes, axis)) {
        report_unknown(axis, flag, plan.mesh, diags);
        good = false;
      }
      for (const auto& [other, first] : seen) {
        if (other != axis) continue;
        diags
            .error(Code::Usage, {},
                   "axis `" + axis + "` would shard the KV cache twice")
            .fact("in " + std::string(first) + " and in " + std::string(flag))
            .help(
                "name each axis once: it shards heads, the batch or the "
                "context");
        good = false;
      }
      seen.emplace_back(axis, flag);
    }
  }
  return good;
}

// Returns the axes that shard the projections, and in `from` the reason; no
// axes if there are no projections. If projections differ, uses the axes of the
// least sharded one, which may overestimate the cache but never underestimates
// it.
AxisNames least_axes(const Manifest& manifest,
                     const std::vector<KeyProjection>& projections,
                     const Plan& plan, std::string_view what,
                     std::string& from) {
  if (projections.empty()) return {};
  AxisNames least;
  size_t parameter = 0;
  int64_t shards = 0;
  bool differ = false;
  for (const KeyProjection& projection : projections) {
    const auto& dims = plan.of(projection.parameter).spec.dims;
    const auto dim = to_size(projection.dim);
    AxisNames axes = dim < dims.size() ? dims[dim] : AxisNames();
    erase_if(axes, is_gathered_axis);
    const int64_t count = shard_count(plan.mesh, axes);
    differ = differ || (shards != 0 && axes != least);
    if (shards != 0 && count >= shards) continue;
    shards = count;
    least = std::move(axes);
    parameter = projection.parameter;
  }
  from = "as `" + std::string(manifest.name(parameter)) +
         (shards > 1 ? "` is sharded" : "` is replicated");
  if (differ) from += ", the least sharded of the " + std::string(what);
  return least;
}

// Returns the matrices of modules that cache something per token or per
// sequence, with the dimension that the architecture labels as the parts of the
// cache.
std::vector<KeyProjection> cached_projections(const Manifest& manifest,
                                              CachedTensor::Per per) {
  std::set<std::pair<std::string_view, std::string_view>> parts;
  for (const LayerState& kind : manifest.facts.state.kinds) {
    for (const CachedTensor& cached : kind.cached) {
      if (cached.label.empty() || cached.per != per) continue;
      parts.emplace(cached.module, cached.label);
      // If every head has its own keys, the matrices consist of heads.
      if (cached.label == kKvHeadsLabel)
        parts.emplace(cached.module, kHeadsLabel);
    }
  }
  std::vector<KeyProjection> found;
  if (parts.empty() || manifest.kinds == nullptr) return found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Shape& shape = manifest.type(i).shape;
    // Vectors are often replicated although the matrices that they scale are
    // sharded.
    if (shape.size() < 2) continue;
    const std::string name = folded_name(manifest.name(i));
    const auto kind = manifest.kinds->find({name, shape});
    if (kind == manifest.kinds->end()) continue;
    const auto is_of = [&](std::string_view module, const DimKind& dim) {
      const auto is_kept = [&](std::string_view label) {
        return parts.contains({module, label});
      };
      // The parts are queries, keys and values side by side. For states this
      // does not apply: the parts of a convolution's state are whole where the
      // layer's heads are sharded.
      return is_kept(dim.label) ||
             (per == CachedTensor::Per::Token &&
              std::ranges::any_of(dim.parts, is_kept, &DimPart::label));
    };
    for (size_t end = name.rfind('.'); end != std::string::npos && end > 0;
         end = name.rfind('.', end - 1)) {
      const std::string_view module = std::string_view(name).substr(0, end);
      const auto dim = std::ranges::find_if(
          kind->second,
          [&](const DimKind& each) { return is_of(module, each); });
      if (dim == kind->second.end()) continue;
      found.push_back({i, static_cast<int>(dim - kind->second.begin())});
      break;
    }
  }
  return found;
}

}  // namespace

std::string kv_missing(const Facts& facts) {
  const LayerStates& state = facts.state;
  if (!state.layers.empty()) {
    const auto unknown = std::ranges::count_if(
        state.layers, [&](uint32_t kind) { return !state.kinds[kind].known; });
    return unknown > 0 ? "the state of " + plural(unknown, "layer") : "";
  }
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
             std::ssize(facts.windows) != *facts.layers) {
    missing.push_back("`windows` of all " + std::to_string(*facts.layers) +
                      " layers (it has " +
                      std::to_string(facts.windows.size()) + ")");
  }
  const auto unknown =
      std::ranges::count_if(facts.windows, [](int64_t w) { return w < 0; });
  if (unknown > 0) {
    missing.push_back("the cache of " + plural(unknown, "non-attention layer"));
  }
  return joined(missing, ", ", " and ");
}

std::optional<std::vector<KvLayer>> kv_layers(const Facts& facts, int64_t begin,
                                              int64_t end) {
  if (!kv_missing(facts).empty()) return std::nullopt;
  const LayerStates& state = facts.state;
  if (!state.layers.empty()) {
    std::vector<KvLayer> layers;
    end = std::min(end, std::ssize(state.layers));
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t kind = nth(state.layers, i);
      for (const CachedTensor& each : state.kinds[kind].cached) {
        layers.push_back(cached_layer(each));
      }
    }
    return layers;
  }
  KvLayer layer;
  if (facts.kv_latent) {
    layer.latent = *facts.kv_latent;
  } else {
    layer.heads = *facts.kv_heads;
    layer.width = *width_of(facts);
  }
  std::vector<KvLayer> layers(to_size(*facts.layers), layer);
  for (size_t i = 0; i < facts.windows.size(); ++i) {
    layers[i].window = facts.windows[i];
  }
  end = std::min(end, *facts.layers);
  return std::vector<KvLayer>(layers.begin() + std::min(begin, end),
                              layers.begin() + end);
}

bool needs_source(const std::vector<KvLayer>& layers) {
  return std::ranges::any_of(layers, [](const KvLayer& layer) {
    return layer.source == kSourceTokens;
  });
}

std::vector<KvKind> kv_kinds(const std::vector<KvLayer>& layers) {
  std::vector<KvKind> kinds;
  std::map<KvLayer, size_t> numbers;
  for (const KvLayer& layer : layers) {
    KvLayer key = layer;
    key.columns = 1;  // does not count
    const auto [entry, is_new] = numbers.try_emplace(key, kinds.size());
    if (is_new) kinds.push_back({layer, 0});
    ++kinds[entry->second].layers;
  }
  return kinds;
}

KvShare kv_share(const KvLayer& layer, const KvSharding& sharding,
                 const KvRequest& request) {
  KvShare share;
  const int64_t over = layer.recurrent ? sharding.states : sharding.heads;
  if (layer.latent > 0) {
    share.heads = 1;
    share.width = layer.latent;
    share.copies = over;
  } else {
    share.heads = ceil_div(layer.heads, over);
    share.width = layer.width;
    share.copies = std::max<int64_t>(1, over / layer.heads);
  }
  share.sequences = ceil_div(request.batch, sharding.batch);
  if (layer.recurrent) {
    share.tokens = 1;
    return share;
  }
  const int64_t seq = tokens_of(layer, request);
  const int64_t page = ceil_div(request.block, layer.every);
  int64_t pages = ceil_div(ceil_div(seq, sharding.sequence), page);
  if (layer.window > 0) {
    const int64_t reach = ceil_div(layer.window, sharding.sequence);
    pages = std::min(pages, ceil_div(reach - 1, page) + 1);
  }
  share.tokens = pages * page;
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

std::optional<Int128> kv_bytes_with_replicas(const std::vector<KvLayer>& layers,
                                             const KvSharding& sharding,
                                             const KvRequest& request,
                                             int64_t devices) {
  std::vector<KvKind> kinds = kv_kinds(layers);
  if (!bytes_of_kinds(kinds, sharding, request)) return std::nullopt;
  const auto at_work = layer_at_work(kinds, sharding, request);
  if (at_work->bytes > 0) {
    KvLayer uncut = kinds[at_work->kind].layer;
    uncut.window = 0;
    --kinds[at_work->kind].layers;
    kinds.push_back({uncut, 1});
  }
  Int128 total = 0;
  for (const KvKind& kind : kinds) {
    const int64_t groups =
        devices / (sharding.batch * (kind.layer.recurrent
                                         ? sharding.states
                                         : sharding.heads * sharding.sequence));
    const int64_t copies = kv_share(kind.layer, sharding, request).copies;
    total += cache_bytes(kind.layer, request) * kind.layers * (groups * copies);
  }
  return total;
}

std::optional<int64_t> largest_that_fits(int64_t KvRequest::*count,
                                         const std::vector<KvLayer>& layers,
                                         const KvSharding& sharding,
                                         KvRequest request, int64_t bytes) {
  const std::vector<KvKind> kinds = kv_kinds(layers);
  return largest_count([&](int64_t value) {
    request.*count = value;
    const auto needed = bytes_of_kinds(kinds, sharding, request);
    return needed && *needed <= bytes;
  });
}

std::vector<KeyProjection> key_projections(const Manifest& manifest) {
  std::vector<KeyProjection> found;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const TensorName tail = split_name(name);
    if (role_of(tail) != Role::Key || tensor_kind(tail) == TensorKind::Bias)
      continue;
    for (const Unit& unit : units_of(name, manifest.type(i), manifest.facts)) {
      if (unit.kind != UnitKind::KvHead) continue;
      found.push_back({i, unit.dim});
      break;  // the next one is a dimension within a head
    }
  }
  // No module has a known name, so the labels of the architecture are used.
  return found.empty() ? cached_projections(manifest, CachedTensor::Per::Token)
                       : found;
}

std::vector<KeyProjection> state_projections(const Manifest& manifest) {
  return cached_projections(manifest, CachedTensor::Per::Sequence);
}

std::optional<KvAxes> kv_axes(const Manifest& manifest,
                              const std::vector<KeyProjection>& projections,
                              const std::vector<KeyProjection>& states,
                              const Plan& plan, const RequestedKvAxes& asked,
                              Diagnostics& diags) {
  if (!check_asked(plan, asked, diags)) return std::nullopt;
  KvAxes axes{asked.heads, asked.batch, asked.sequence, "as `--kv-axes` says"};
  axes.states = axes.heads;
  axes.states_from = axes.heads_from;
  if (asked.heads.empty()) {
    axes.states_from = "no parameter is known to be sharded like them";
    axes.states = least_axes(manifest, states, plan, "matrices of these layers",
                             axes.states_from);
    remove_all(axes.states, asked.batch);
    remove_all(axes.states, asked.sequence);
    axes.heads_from = "no key projection is found by name";
    if (manifest.facts.kv_latent) {
      axes.heads_from = "a latent has no heads to shard";
    } else {
      axes.heads = least_axes(manifest, projections, plan, "key projections",
                              axes.heads_from);
    }
    const size_t before = axes.heads.size();
    remove_all(axes.heads, asked.batch);
    remove_all(axes.heads, asked.sequence);
    if (axes.heads.size() < before) {
      axes.heads_from += ", minus the axes of batch and context";
    }
  }
  if (asked.batch.empty()) {
    axes.batch.assign(kGatheredAxes.begin(), kGatheredAxes.end());
    remove_all(axes.batch, axes.heads);
    remove_all(axes.batch, axes.states);
    remove_all(axes.batch, asked.sequence);
  }
  for (AxisNames* names :
       {&axes.heads, &axes.batch, &axes.sequence, &axes.states}) {
    erase_if(*names, [&](const AxisName& axis) {
      // Views are for parameters; sequences are sharded over the mesh's own
      // axes.
      return plan.mesh.size_of(axis) == 1 || !plan.mesh.has({}, axis);
    });
  }
  return axes;
}

KvSharding kv_sharding(const Mesh& mesh, const KvAxes& axes) {
  return {shard_count(mesh, axes.heads), shard_count(mesh, axes.batch),
          shard_count(mesh, axes.sequence), shard_count(mesh, axes.states)};
}

std::optional<std::vector<KvLayer>> kv_layers(const Manifest& manifest,
                                              Diagnostics& diags) {
  const std::string missing = kv_missing(manifest.facts);
  if (missing.empty()) return kv_layers(manifest.facts);
  return diags
      .error(Code::MissingFacts, {},
             "the facts of the model do not determine its KV cache")
      .fact("missing: " + missing)
      .help(
          "put the model's config.json next to it, or give `facts` in the "
          "manifest: `layers`, `kv_heads` and `head_dim`, or `layers` and "
          "`kv_latent`");
}

}  // namespace shardplan
