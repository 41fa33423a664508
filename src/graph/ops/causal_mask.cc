// SPDX-License-Identifier: Apache-2.0
// Attention scores without those of keys that a query may not see.
//
// The last query sees all keys: with Q queries and K keys, query q stands at
// position q + K - Q. Keys after it are masked, and under a sliding window of w
// those before the last w that it could see (Beltagy et al., "Longformer",
// 2020; Mistral counts the query's own position among the w). A window of 0
// hides no earlier key, as in configurations.
#include <limits>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_masked(std::span<const Shape> operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const Shape& shape = operands[0];
  if (shape.size() < 2) {
    return diags
        .error(Code::InvalidGraph, where,
               "scores " + shape_text(shape) + " have no queries and keys")
        .help("give them the shape [..., queries, keys]");
  }
  const auto window = find_integer(attributes, "window", 0, where, diags);
  if (!window) return std::nullopt;
  if (*window >= 0) return shape;
  return diags
      .error(Code::InvalidGraph, where,
             "a window of " + std::to_string(*window) + " keys over scores " +
                 shape_text(shape) + " hides every key")
      .help("give `window` at least 1, or 0 for all earlier keys");
}

// Keys [begin, end), counted in the device's part, that a query sees.
struct Seen {
  int64_t begin = 0;
  int64_t end = 0;
};

class Mask {
 public:
  Mask(const DimRange& queries, const DimRange& keys, int64_t window)
      : queries_(queries), keys_(keys), window_(window) {}

  Seen seen_by(int64_t query) const {
    const int64_t position =
        queries_.begin + query + keys_.whole - queries_.whole;
    const int64_t end = position + 1;
    const int64_t begin = window_ < end ? end - window_ : 0;
    return {in_part(begin), in_part(end)};
  }

 private:
  int64_t in_part(int64_t key) const {
    return std::clamp<int64_t>(key - keys_.begin, 0, keys_.size);
  }

  DimRange queries_;
  DimRange keys_;
  int64_t window_;
};

template <typename T>
void hide(const Mask& mask, T masked, const Tensor& scores) {
  const size_t rank = scores.shape.size();
  const int64_t queries = scores.shape[rank - 2];
  const int64_t keys = scores.shape[rank - 1];
  const int64_t rows = scores.elements() == 0 ? 0 : scores.elements() / keys;
  T* row = scores.data<T>();
  for (int64_t i = 0; i < rows; ++i, row += keys) {
    const Seen seen = mask.seen_by(i % queries);
    std::fill(row, row + seen.begin, masked);
    std::fill(row + seen.end, row + keys, masked);
  }
}

Tensor run_masked(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const int64_t window = integer_of(attributes, "window", 0);
  const Mask mask(range_of(dims[dims.size() - 2], context),
                  range_of(dims[dims.size() - 1], context),
                  window > 0 ? window : std::numeric_limits<int64_t>::max());
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    hide<T>(mask,
            context.arithmetic == Arithmetic::Field
                ? T{0}
                : -std::numeric_limits<T>::infinity(),
            result);
  });
  return result;
}

}  // namespace

OpDef causal_mask_op() {
  OpDef op;
  op.name = "causal_mask";
  op.summary = "scores [..., Q, K], -inf for keys that a query may not see";
  op.attributes = {{"window", AttributeDef::Kind::Number, false,
                    "how many keys a query sees, its own among them; 0 "
                    "(default): all earlier ones"}};
  op.factors = "every dimension";
  op.infer = infer_masked;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<1>;
  op.run = run_masked;
  return op;
}

}  // namespace shardplan
