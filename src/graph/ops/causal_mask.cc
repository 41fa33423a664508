// SPDX-License-Identifier: Apache-2.0
// Causal mask: hides the attention scores of keys that a query may not see.
//
// The last query sees all keys: with Q queries and K keys, query q is at
// position q + K - Q. Keys after it are masked. A sliding window of w also
// masks the keys before the last w that the query could see (Beltagy et al.,
// "Longformer", 2020; Mistral counts the query's own position among the w). A
// window of 0 masks no earlier key, as in configurations. With chunks of c, a
// query sees only keys of its own chunk (Llama 4). With `ahead`, it also sees
// that many later keys, as in models that attend in both directions within a
// window (EmbeddingGemma).
#include <algorithm>
#include <limits>
#include <string>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

constexpr int64_t kMostAhead = int64_t{1} << 40U;

std::optional<Shape> infer_masked(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const Shape& shape = operands[0];
  if (shape.size() < 2) {
    return refuse(diags, where,
                  "scores " + shape_text(shape) + " have no queries and keys",
                  "give them the shape [..., queries, keys]");
  }
  const auto window = find_integer(attributes, "window", 0, where, diags);
  const auto chunk = find_integer(attributes, "chunk", 0, where, diags);
  const auto ahead = find_integer(attributes, "ahead", 0, where, diags);
  if (!window || !chunk || !ahead) return std::nullopt;
  if (*ahead < 0 || *ahead > kMostAhead) {
    return refuse(diags, where,
                  "`ahead` is " + std::to_string(*ahead) + " keys",
                  "give 0, for none, or more");
  }
  if (*chunk < 0) {
    return refuse(diags, where,
                  "`chunk` is " + std::to_string(*chunk) + " keys",
                  "give at least 1, or 0 for one chunk");
  }
  if (*window >= 0) return shape;
  return refuse(diags, where,
                "a window of " + std::to_string(*window) +
                    " keys over scores " + shape_text(shape) +
                    " hides every key",
                "give `window` at least 1, or 0 for all earlier keys");
}

struct Mask {
  DimRange queries;
  DimRange keys;
  int64_t window;  // the largest integer: all earlier keys
  int64_t chunk;   // 0: a single chunk
  int64_t ahead;   // the number of later keys that a query sees

  // Returns the keys that a query sees, counted in the device's part.
  Slice seen_by(int64_t query) const {
    const int64_t position = queries.begin + query + keys.whole - queries.whole;
    const int64_t end = position + 1;
    int64_t begin = window < end ? end - window : 0;
    if (chunk > 0 && position > 0) {
      begin = std::max(begin, position / chunk * chunk);
    }
    return {in_part(begin), in_part(end + ahead)};
  }
  int64_t in_part(int64_t key) const {
    return std::clamp<int64_t>(key - keys.begin, 0, keys.size);
  }
};

Tensor run_masked(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const int64_t window = integer_of(attributes, "window", 0);
  const Mask mask{
      range_of(dims[dims.size() - 2], context), range_of(dims.back(), context),
      window > 0 ? window : std::numeric_limits<int64_t>::max(),
      integer_of(attributes, "chunk", 0), integer_of(attributes, "ahead", 0)};
  const int64_t keys = result.shape.back();
  const int64_t rows = result.elements() == 0 ? 0 : result.elements() / keys;
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    auto* row = result.data<typename Ring::Number>();
    for (int64_t i = 0; i < rows; ++i, row += keys) {
      const Slice seen = mask.seen_by(i % mask.queries.size);
      std::fill(row, row + seen.begin, Ring::kHidden);
      std::fill(row + seen.end, row + keys, Ring::kHidden);
    }
  });
  return result;
}

}  // namespace

OpDef causal_mask_op() {
  return {
      .name = "causal_mask",
      .summary =
          "scores [..., Q, K], with -inf for keys that a query may not see",
      .attributes =
          {{"window", Kind::Number, false,
            "number of keys a query sees, including its own; 0 (default): all "
            "earlier ones"},
           {"chunk", Kind::Number, false,
            "chunk size: a query sees only keys of its own chunk; 0 (default): "
            "one chunk"},
           {"ahead", Kind::Number, false,
            "number of later keys a query also sees; 0 (default): none"}},
      .factors = "every dimension",
      .infer = infer_masked,
      .rule = elementwise_rule,
      .flops = flops_per_element<1>,
      .run = run_masked,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::None},
      .is_mask = true};
}

}  // namespace shardplan
