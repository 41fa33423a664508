// SPDX-License-Identifier: Apache-2.0
#include "cli/kv_tables.h"

#include <utility>

#include "base/text.h"
#include "core/types.h"

namespace shardplan::cli {
namespace {

std::string kind_text(const KvLayer& layer) {
  std::string text =
      layer.window > 0 ? "window " + count_text(layer.window) : "all tokens";
  if (layer.latent > 0) text += ", latent";
  return text;
}

// Of all layers of the kind together.
int64_t token_bytes(const KvKind& kind, KvShare share, DType dtype) {
  share.sequences = 1;
  share.tokens = 1;
  return kv_bytes(share, dtype).value_or(0) * kind.layers;
}

Row kind_row(const KvKind& kind, const KvShare& share, int64_t groups,
             const KvRequest& request) {
  const bool latent = kind.layer.latent > 0;
  const int64_t bytes = kv_bytes(share, request.dtype).value_or(0);
  return {kind_text(kind.layer),
          Count{kind.layers},
          latent ? Cell() : Cell(Count{kind.layer.heads}),
          latent ? Cell() : Cell(Count{share.heads}),
          Count{groups * share.copies},
          Count{share.sequences},
          Count{share.tokens},
          ByteSize{token_bytes(kind, share, request.dtype)},
          ByteSize{bytes * kind.layers}};
}

// "tp=8, sp=2" or "whole".
std::string over_text(const Mesh& mesh, const AxisNames& axes) {
  std::string text;
  for (const AxisName& axis : axes) {
    text += (text.empty() ? "over " : ", ") + axis + "=" +
            std::to_string(mesh.size_of(axis));
  }
  return text.empty() ? "whole" : text;
}

}  // namespace

Table kv_table(const Mesh& mesh, const std::vector<KvLayer>& layers,
               const KvAxes& axes, const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  const int64_t groups =
      mesh.devices() / (sharding.heads * sharding.batch * sharding.sequence);
  std::vector<Row> rows;
  for (const KvKind& kind : kv_kinds(layers)) {
    rows.push_back(kind_row(kind, kv_share(kind.layer, sharding, request),
                            groups, request));
  }
  const int64_t prefill =
      kv_prefill_bytes(layers, sharding, request).value_or(0);
  if (prefill > 0) {
    rows.push_back({std::string("one layer before its window cuts"), Count{1},
                    Cell(), Cell(), Cell(), Cell(), Cell(), Cell(),
                    ByteSize{prefill}});
  }
  Table table;
  table.id = "kv_cache";
  table.title = "KV cache";
  table.columns = {{"kind", "layers that cache"},
                   {"layers", "layers", Align::Right},
                   {"kv_heads", "KV heads", Align::Right},
                   {"heads_per_device", "here", Align::Right},
                   {"copies", "copies", Align::Right},
                   {"sequences_per_device", "seqs", Align::Right},
                   {"tokens", "tokens", Align::Right},
                   {"bytes_per_token", "per token", Align::Right},
                   {"bytes_per_device", "per device", Align::Right}};
  if (rows.size() > 1) {
    Row footer(table.columns.size());
    footer.back() =
        ByteSize{kv_bytes_per_device(layers, sharding, request).value_or(0)};
    table.footer = std::move(footer);
  }
  table.rows = rows_of(std::move(rows));
  return table;
}

std::string kv_fit_note(const Margins& margins, const KvRequest& request) {
  const auto up_to = [](const char* what, const std::optional<int64_t>& most) {
    if (!most) return "any " + std::string(what);
    return *most == 0 ? "no " + std::string(what)
                      : "up to " + std::string(what) + " " + count_text(*most);
  };
  return "fits " + up_to("batch", margins.batch) + " at context " +
         count_text(request.seq) + ", and " +
         up_to("context", margins.context) + " at batch " +
         count_text(request.batch);
}

std::vector<std::string> kv_notes(const Mesh& mesh,
                                  const std::vector<KvLayer>& layers,
                                  const KvAxes& axes,
                                  const KvRequest& request) {
  const KvSharding sharding = kv_sharding(mesh, axes);
  std::string line = "KV cache in " + std::string(dtype_name(request.dtype));
  if (request.block > 1) {
    line += ", pages of " + plural(request.block, "token");
  }
  line += ": heads " + over_text(mesh, axes.heads) + " (" + axes.heads_from +
          "), batch " + over_text(mesh, axes.batch) + ", context " +
          over_text(mesh, axes.sequence);
  std::vector<std::string> notes = {std::move(line)};
  const bool has_heads = !layers.empty() && layers.front().latent == 0;
  const int64_t cut = sharding.heads * sharding.batch * sharding.sequence;
  if (has_heads && axes.heads.empty() && cut < mesh.devices()) {
    notes.emplace_back(
        "every device that works on a sequence caches all of its KV heads; "
        "where the engine cuts them, name the axes with --kv-axes");
  }
  if (!layers.empty() && !has_heads) {
    notes.emplace_back(
        "the latent is counted, which no head owns; an engine that caches "
        "expanded keys and values holds more");
  }
  return notes;
}

}  // namespace shardplan::cli
