// SPDX-License-Identifier: Apache-2.0
#include "model/forward/heads.h"

#include <utility>

namespace shardplan {

std::optional<HeadSizes> head_sizes(const ValueScope& scope) {
  const auto size = [&](std::string_view name) {
    std::string why;
    const ConfigValue* const found = scope.find(name, why);
    const bool is_size =
        found != nullptr && found->kind == ConfigValue::Kind::Integer;
    return is_size ? found->integer : 0;
  };
  HeadSizes sizes{size("heads"), size("kv_heads"), size("head_dim")};
  if (sizes.kv_heads == 0) sizes.kv_heads = sizes.heads;
  const bool good = sizes.heads > 0 && sizes.kv_heads > 0 &&
                    sizes.head_dim > 0 && sizes.heads % sizes.kv_heads == 0;
  return good ? std::optional(sizes) : std::nullopt;
}

size_t query_rank(const HeadSizes& sizes) {
  return sizes.heads > sizes.kv_heads ? 5 : 4;
}

void write_heads(ForwardWriter& out, std::string_view operation,
                 const HeadSizes& sizes, const std::vector<std::string>& in,
                 std::string result, ValueLabels axes) {
  const int64_t batch = out.pass().batch;
  const bool grouped = query_rank(sizes) == 5;
  if (operation == "query_heads" || operation == "key_heads") {
    const Shape shape =
        operation == "key_heads"
            ? Shape{batch, -1, sizes.kv_heads, sizes.head_dim}
        : grouped ? Shape{batch, -1, sizes.kv_heads,
                          sizes.heads / sizes.kv_heads, sizes.head_dim}
                  : Shape{batch, -1, sizes.heads, sizes.head_dim};
    out.reshaped(in.front(), shape, std::move(result), std::move(axes));
  } else if (operation == "attention_scores") {
    const std::string equation =
        grouped ? "bqhgd,bkhd->bhgqk" : "bqhd,bkhd->bhqk";
    out.op("einsum", in, std::move(result), {{"equation", equation}},
           std::move(axes));
  } else {
    const std::string equation =
        grouped ? "bhgqk,bkhd->bqhgd" : "bhqk,bkhd->bqhd";
    const std::string mixed =
        out.op("einsum", in, result + ":heads", {{"equation", equation}});
    out.reshaped(mixed, {batch, -1, sizes.heads * sizes.head_dim},
                 std::move(result), std::move(axes));
  }
}

}  // namespace shardplan
