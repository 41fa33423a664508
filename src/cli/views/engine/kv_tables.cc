// SPDX-License-Identifier: Apache-2.0
#include "cli/views/engine/kv_tables.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "cli/views/columns.h"
#include "core/types.h"

namespace shardplan::cli {
namespace {

std::string kind_text(const KvLayer& layer) {
  std::string text =
      layer.window > 0 ? "window " + count_text(layer.window) : "all tokens";
  if (layer.every > 1) text = "one per " + count_text(layer.every) + " tokens";
  if (layer.source != 0) text = "encoder tokens";
  if (layer.latent > 0) text += ", latent";
  if (!layer.name.empty()) text += ", " + std::string(layer.name);
  return text;
}

// A row of the KV cache's table.
struct KvRow {
  KvKind kind;
  KvShare share;
};

// Returns the bytes of one token in all layers of the kind together.
int64_t token_bytes(KvRow row, DType dtype) {
  row.share.sequences = 1;
  row.share.tokens = 1;
  return kv_bytes(row.share, dtype).value_or(0) * row.kind.layers;
}

// Returns "over tp=8, sp=2" or "unsharded".
std::string over_text(const Mesh& mesh, const AxisNames& axes) {
  if (axes.empty()) return "unsharded";
  return "over " + joined_of(axes, ", ", [&](const AxisName& axis) {
           return axis + "=" + std::to_string(mesh.size_of(axis));
         });
}

// Sets the sum of the last column.
void set_footer(int64_t bytes, Table& table) {
  table.footer = Row(table.columns.size());
  table.footer->back() = ByteSize{bytes};
}

// Returns how many layers store a state of that name.
int64_t layers_with(const LayerStates& state, std::string_view name) {
  return std::ranges::count_if(state.layers, [&](uint32_t kind) {
    const std::vector<CachedTensor>& cached = state.kinds[kind].cached;
    return std::ranges::any_of(cached, [&](const CachedTensor& k) {
      return k.per == CachedTensor::Per::Sequence && k.name == name;
    });
  });
}

// Returns sum + layers * each, or INT64_MAX on overflow.
int64_t plus(int64_t sum, int64_t layers, std::optional<int64_t> each) {
  const auto all = each ? checked_mul(*each, layers) : std::nullopt;
  const auto both = all ? checked_add(sum, *all) : std::nullopt;
  return both.value_or(INT64_MAX);
}

}  // namespace

Table kv_table(const Mesh& mesh, const std::vector<KvLayer>& layers,
               const KvAxes& axes, const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  const int64_t groups =
      mesh.devices() / (sharding.heads * sharding.batch * sharding.sequence);
  // A latent belongs to no head.
  const auto of_heads = [](const KvRow& row, int64_t heads) {
    return row.kind.layer.latent > 0 ? Cell() : Cell(Count{heads});
  };
  const ColumnsOf<KvRow> columns = {
      {left("kind", "cached per layer"),
       [](auto& row) { return kind_text(row.kind.layer); }},
      {right("layers"), [](auto& row) { return Count{row.kind.layers}; }},
      {right("kv_heads", "KV heads"),
       [&](auto& row) { return of_heads(row, row.kind.layer.heads); }},
      {right("heads_per_device", "local heads"),
       [&](auto& row) { return of_heads(row, row.share.heads); }},
      {right("copies"),
       [&](auto& row) { return Count{groups * row.share.copies}; }},
      {right("sequences_per_device", "seqs"),
       [](auto& row) { return Count{row.share.sequences}; }},
      {right("tokens"), [](auto& row) { return Count{row.share.tokens}; }},
      {right("bytes_per_token", "per token"),
       [&](auto& row) { return ByteSize{token_bytes(row, request.dtype)}; }},
      {right("bytes_per_device", "per device"),
       [&](auto& row) {
         return ByteSize{kv_bytes(row.share, request.dtype).value_or(0) *
                         row.kind.layers};
       }},
  };
  std::vector<Row> rows;
  for (const KvKind& kind : kv_kinds(layers)) {
    rows.push_back(
        row_of(columns, {kind, kv_share(kind.layer, sharding, request)}));
  }
  const int64_t prefill =
      kv_prefill_bytes(layers, sharding, request).value_or(0);
  if (prefill > 0) {
    Row& row = rows.emplace_back(columns.size());
    row[0] = "one layer, before windowing";
    row[1] = Count{1};
    row.back() = ByteSize{prefill};
  }
  const bool has_sum = rows.size() > 1;
  Table table = {"kv_cache", "KV cache", columns_of(columns),
                 rows_of(std::move(rows))};
  if (has_sum) {
    set_footer(kv_bytes_per_device(layers, sharding, request).value_or(0),
               table);
  }
  return table;
}

Table recurrent_table(const Mesh& mesh, const Facts& facts, const KvAxes& axes,
                      const KvRequest& request) {
  std::vector<KvLayer> layers =
      kv_layers(facts).value_or(std::vector<KvLayer>());
  std::erase_if(layers, [](const KvLayer& l) { return !l.recurrent; });
  const KvSharding sharding = kv_sharding(mesh, axes);
  // The states of one name and dtype, summed over their layers. The parts of a
  // state are sharded separately.
  struct Named {
    std::string name;
    DType dtype = DType::F32;
    int64_t layers = 0;
    int64_t elements = 0;  // per sequence
    int64_t bytes = 0;     // per sequence
    int64_t here = 0;
    int64_t sequences = 0;
  };
  std::vector<Named> states;
  for (const KvKind& kind : kv_kinds(layers)) {
    const KvLayer& layer = kind.layer;
    const DType dtype = layer.dtype.value_or(request.dtype);
    auto one = std::ranges::find_if(states, [&](const Named& s) {
      return s.name == layer.name && s.dtype == dtype;
    });
    if (one == states.end()) {
      one = states.insert(states.end(), {std::string(layer.name), dtype,
                                         layers_with(facts.state, layer.name)});
    }
    // The budget was computed first, so these totals do not overflow.
    const KvShare share = kv_share(layer, sharding, request);
    KvShare whole = kv_share(layer, {}, {});
    whole.sequences = 1;
    one->elements =
        plus(one->elements, kind.layers, checked_mul(whole.heads, whole.width));
    one->bytes = plus(one->bytes, kind.layers, kv_bytes(whole, dtype));
    one->here = plus(one->here, kind.layers, kv_bytes(share, dtype));
    one->sequences = share.sequences;
  }
  Table table = table_of(
      "recurrent_state", "Recurrent state", states,
      {{left("state"), &Named::name},
       {left("dtype"), [](auto& s) { return text_cell(dtype_name(s.dtype)); }},
       {right("layers"), [](auto& s) { return Count{s.layers}; }},
       {right("elements_per_sequence", "elements"),
        [](auto& s) { return Count{s.elements}; }},
       {right("bytes_per_sequence", "per sequence"),
        [](auto& s) { return ByteSize{s.bytes}; }},
       {right("sequences_per_device", "seqs"),
        [](auto& s) { return Count{s.sequences}; }},
       {right("bytes_per_device", "per device"),
        [](auto& s) { return ByteSize{s.here}; }}});
  if (states.size() > 1) {
    int64_t here = 0;
    for (const Named& state : states) here = plus(here, 1, state.here);
    set_footer(here, table);
  }
  return table;
}

std::string recurrent_note(const Mesh& mesh, const KvAxes& axes) {
  return "recurrent states, one per sequence: state " +
         over_text(mesh, axes.states) + " (" + axes.states_from + "), batch " +
         over_text(mesh, axes.batch);
}

std::string kv_fit_note(const WorkloadHeadroom& workload_headroom,
                        const KvRequest& request) {
  const auto up_to = [](const std::string& what,
                        const std::optional<int64_t>& most) {
    if (!most) return "any " + what;
    return *most == 0 ? "no " + what
                      : "up to " + what + " " + count_text(*most);
  };
  return "fits " + up_to("batch", workload_headroom.batch) + " at context " +
         count_text(request.seq) + ", and " +
         up_to("context", workload_headroom.context) + " at batch " +
         count_text(request.batch);
}

std::vector<std::string> kv_notes(const Mesh& mesh,
                                  const std::vector<KvLayer>& layers,
                                  const KvAxes& axes,
                                  const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  std::string line = "KV cache in " + std::string(dtype_name(request.dtype));
  if (request.block > 1) line += ", pages of " + plural(request.block, "token");
  line += ": heads " + over_text(mesh, axes.heads) + " (" + axes.heads_from +
          "), batch " + over_text(mesh, axes.batch) + ", context " +
          over_text(mesh, axes.sequence);
  std::vector<std::string> notes = {std::move(line)};
  const bool has_heads = std::ranges::any_of(
      layers, [](const KvLayer& layer) { return layer.latent == 0; });
  const int64_t cut = sharding.heads * sharding.batch * sharding.sequence;
  if (has_heads && axes.heads.empty() && cut < mesh.devices()) {
    notes.emplace_back(
        "every device that works on a sequence caches all its KV heads; if the "
        "engine shards them, name the axes with --kv-axes");
  }
  if (!layers.empty() && !has_heads) {
    notes.emplace_back(
        "the cache is counted as the latent, which all heads share; an engine "
        "that caches expanded keys and values needs more");
  }
  return notes;
}

}  // namespace shardplan::cli
