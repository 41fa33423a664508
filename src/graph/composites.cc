// SPDX-License-Identifier: Apache-2.0
// Expands composites, and gives the choices of experts their slots.
#include "graph/composites.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "graph/elementwise.h"

namespace shardplan {

// Appends the operations of one use in order; after a failure it adds nothing
// more.
class Expansion {
 public:
  Expansion(const CompositeUse& use, Graph& graph, Diagnostics& diags)
      : use_(use), graph_(graph), diags_(diags) {}

  bool good() const { return good_; }
  ValueId operand(size_t index) const { return use_.operands[index]; }
  size_t operands() const { return use_.operands.size(); }
  size_t results() const { return use_.results.size(); }
  const Attributes& attributes() const { return use_.attributes; }
  const Shape& shape(ValueId value) const { return graph_.values[value].shape; }

  // Appends an intermediate value, named by a word.
  ValueId add(std::string_view op, std::vector<ValueId> operands,
              Attributes attributes, std::string_view word,
              OpPart part = OpPart::Other) {
    return append(op, std::move(operands), std::move(attributes),
                  use_.results.front() + ":" + std::string(word),
                  use_.results_where.front(), part);
  }
  // Appends result `index` itself.
  ValueId result(std::string_view op, std::vector<ValueId> operands,
                 Attributes attributes, size_t index = 0) {
    return append(op, std::move(operands), std::move(attributes),
                  use_.results[index], use_.results_where[index]);
  }
  // Appends the result if this is the last step, else an intermediate value.
  ValueId step(bool last, std::string_view op, std::vector<ValueId> operands,
               Attributes attributes, std::string_view word) {
    return last ? result(op, std::move(operands), std::move(attributes))
                : add(op, std::move(operands), std::move(attributes), word);
  }

  Diagnostics::Builder fail(std::string message) {
    good_ = false;
    return diags_.error(Code::InvalidGraph, use_.where, std::move(message));
  }

 private:
  ValueId append(std::string_view op, std::vector<ValueId> operands,
                 Attributes attributes, std::string name, Span name_where,
                 OpPart part = OpPart::Other) {
    if (!good_) return {};
    const auto value =
        append_node(graph_,
                    {op, std::move(operands), std::move(attributes),
                     std::move(name), use_.label, use_.where, name_where, part},
                    diags_);
    good_ = value.has_value();
    return value.value_or(ValueId());
  }

  const CompositeUse& use_;
  Graph& graph_;
  Diagnostics& diags_;
  bool good_ = true;
};

namespace {

using Kind = AttributeDef::Kind;
using Values = std::vector<ValueId>;

// Returns the equation of a matrix product, such as "aIK,aKJ->aIJ": one matrix
// per entry of the leading dimensions, of which the second operand may have
// none ("aIK,KJ->aIJ").
std::optional<std::string> product_equation(const Shape& left,
                                            const Shape& right) {
  constexpr size_t kLetters = 26;
  if (left.empty() || right.size() < 2 || left.size() > kLetters ||
      (right.size() > 2 && right.size() != left.size())) {
    return std::nullopt;
  }
  std::string batch;
  for (size_t i = 0; i + 2 < left.size(); ++i) {
    batch += static_cast<char>('a' + i);
  }
  const std::string shared = right.size() > 2 ? batch : "";
  const std::string rows = left.size() > 1 ? batch + "I" : "";
  return rows + "K," + shared + "KJ->" + rows + "J";
}

ValueId add_product(Expansion& out, bool last) {
  const Shape& left = out.shape(out.operand(0));
  const Shape& right = out.shape(out.operand(1));
  const auto equation = product_equation(left, right);
  if (!equation) {
    out.fail("cannot multiply " + shape_text(left) + " and " +
             shape_text(right))
        .help(
            "the first has at most 26 dimensions, with rows in the last; the "
            "second is one matrix, or one per matrix of the first");
    return {};
  }
  return out.step(last, "einsum", {out.operand(0), out.operand(1)},
                  {{"equation", *equation}}, "product");
}

Values matmul(Expansion& out) { return {add_product(out, true)}; }

// Returns the sizes of the parts: those given, else equal ones. Empty if they
// do not fit.
std::vector<int64_t> part_sizes(Expansion& out, int64_t whole) {
  const auto count = static_cast<int64_t>(out.results());
  const auto given = integers_of(out.attributes(), "sizes");
  if (given.empty()) {
    if (whole % count == 0) return Shape(out.results(), whole / count);
    out.fail("cannot split a dimension of size " + std::to_string(whole) +
             " into " + plural(count, "equal part"))
        .help("give the size of each part in `sizes: [..]`");
    return {};
  }
  std::optional<int64_t> sum = 0;
  for (const int64_t size : given) {
    sum = sum && size >= 0 ? checked_add(*sum, size) : std::nullopt;
  }
  if (given.size() == out.results() && sum == whole) {
    return {given.begin(), given.end()};
  }
  out.fail("`sizes` does not fit")
      .fact("there are " + plural(static_cast<int64_t>(given.size()), "size") +
            " for " + plural(count, "result"))
      .fact("the dimension has size " + std::to_string(whole));
  return {};
}

// Splits `value` along `dim` into the results.
Values add_parts(Expansion& out, ValueId value, size_t dim) {
  Values parts;
  int64_t begin = 0;
  for (const int64_t size : part_sizes(out, out.shape(value)[dim])) {
    parts.push_back(out.result("slice", {value},
                               {{"dim", static_cast<double>(dim)},
                                {"begin", static_cast<double>(begin)},
                                {"end", static_cast<double>(begin + size)}},
                               parts.size()));
    begin += size;
  }
  return parts;
}

Values split(Expansion& out) {
  const Shape& shape = out.shape(out.operand(0));
  const auto rank = static_cast<double>(shape.size());
  const double requested = number_of(out.attributes(), "dim", -1);
  const double dim = requested < 0 ? requested + rank : requested;
  if (!(dim >= 0 && dim < rank) || dim != std::floor(dim)) {
    out.fail("`dim` is not a dimension of " + shape_text(shape));
    return {};
  }
  return add_parts(out, out.operand(0), static_cast<size_t>(dim));
}

// Returns the factor on a product: `fan_in` is the number of inputs to the
// power -1/2, `fan_out` that of outputs (EasyDeL's ParallelLinear).
std::optional<double> linear_scale(Expansion& out, const Shape& kernel) {
  const auto given = out.attributes().find("scale");
  if (given == out.attributes().end()) return 1;
  if (const auto* number = std::get_if<double>(&given->second)) return *number;
  const std::string_view text = text_of(out.attributes(), "scale", "");
  if (text != "fan_in" && text != "fan_out") {
    out.fail("`scale` cannot be " + in_backticks(text))
        .help("give `fan_in`, `fan_out` or a number");
    return std::nullopt;
  }
  if (text == "fan_out" && out.results() > 1) {
    out.fail("`scale: fan_out` is ambiguous with several results")
        .help("give `scale` as a number");
    return std::nullopt;
  }
  const int64_t fan =
      text == "fan_in" ? kernel[kernel.size() - 2] : kernel.back();
  if (fan > 0) return 1 / std::sqrt(static_cast<double>(fan));
  out.fail("`scale` needs a fan above 0: the kernel has shape " +
           shape_text(kernel));
  return std::nullopt;
}

// Computes the product, times the scale, plus the bias, in this order.
Values linear(Expansion& out) {
  const Shape kernel = out.shape(out.operand(1));
  const bool parts = out.results() > 1 || out.attributes().contains("sizes");
  const bool bias = out.operands() > 2;
  if (kernel.size() != 2) {
    out.fail("the kernel of `linear` has shape " + shape_text(kernel))
        .help("a kernel is [in, out]; `einsum` multiplies other shapes");
    return {};
  }
  const auto scale = linear_scale(out, kernel);
  if (!scale) return {};
  const bool scaled = *scale != 1;
  ValueId value = add_product(out, !parts && !scaled && !bias);
  if (scaled) {
    value =
        out.step(!parts && !bias, "scale", {value}, {{"by", *scale}}, "scaled");
  }
  if (bias && out.good()) {
    const Shape& shape = out.shape(out.operand(2));
    if (shape != Shape{kernel.back()}) {
      out.fail("the bias of `linear` has shape " + shape_text(shape))
          .fact("the kernel has shape " + shape_text(kernel))
          .help("a bias has one value per output");
    }
    value = out.step(!parts, "add", {value, out.operand(2)}, {}, "biased");
  }
  if (!parts || !out.good()) return {value};
  return add_parts(out, value, out.shape(value).size() - 1);
}

// Appends x / sqrt(mean(x^2) + epsilon), with the mean over the last dimension.
ValueId add_normalised(Expansion& out, ValueId value, bool last) {
  // The default is that of flax.linen.RMSNorm.
  const double epsilon = number_of(out.attributes(), "epsilon", 1e-6);
  const std::vector<int64_t> features = {-1};
  const ValueId squared = out.add("square", {value}, {}, "square");
  const ValueId mean =
      out.add("mean", {squared}, {{"dims", features}}, "mean_square");
  const ValueId inverse = out.add("rsqrt", {mean}, {{"epsilon", epsilon}},
                                  "rsqrt", OpPart::RowNumbers);
  return out.step(last, "multiply", {value, inverse}, {}, "normalised");
}

// Reports an error unless there are features to normalise over.
void check_features(Expansion& out) {
  const Shape& x = out.shape(out.operand(0));
  if (x.empty()) {
    out.fail("a scalar has no features to normalise");
    return;
  }
  for (size_t i = 1; i < out.operands(); ++i) {
    const Shape& parameter = out.shape(out.operand(i));
    if (parameter == Shape{x.back()}) continue;
    out.fail("a norm of " + shape_text(x) + " has a parameter of shape " +
             shape_text(parameter))
        .help("give it one value per feature: [" + std::to_string(x.back()) +
              "]");
    return;
  }
}

Values rms_norm(Expansion& out) {
  check_features(out);
  const bool weight = out.operands() > 1;
  ValueId value = add_normalised(out, out.operand(0), !weight);
  if (weight) value = out.result("multiply", {value, out.operand(1)}, {});
  return {value};
}

Values layer_norm(Expansion& out) {
  check_features(out);
  const bool weight = out.operands() > 1;
  const bool bias = out.operands() > 2;
  const std::vector<int64_t> features = {-1};
  const ValueId mean = out.add("mean", {out.operand(0)}, {{"dims", features}},
                               "mean", OpPart::Mean);
  const ValueId centred =
      out.add("subtract", {out.operand(0), mean}, {}, "centred");
  ValueId value = add_normalised(out, centred, !weight);
  if (weight) {
    value =
        out.step(!bias, "multiply", {value, out.operand(1)}, {}, "weighted");
  }
  if (bias) value = out.result("add", {value, out.operand(2)}, {});
  return {value};
}

ValueId add_sink(Expansion& out, ValueId top, ValueId total) {
  if (!out.good()) return {};
  const Shape rows = out.shape(top);
  const ValueId shifted =
      out.add("subtract", {out.operand(1), top}, {}, "sink_shifted");
  if (out.good() && out.shape(shifted) != rows) {
    out.fail("the sinks of a softmax over " +
             shape_text(out.shape(out.operand(0))) + " have shape " +
             shape_text(out.shape(out.operand(1))))
        .help("sinks have one value per row, broadcast to " + shape_text(rows));
  }
  const ValueId powers = out.add("exp", {shifted}, {}, "sink_exp");
  return out.add("add", {total, powers}, {}, "sum_with_sink");
}

// Computes exp(x - max) / sum, as jax.nn.softmax does. A sink is one more
// number per row, whose share is discarded (Miller, "Attention Is Off By One",
// 2023; gpt-oss learns it). If it exceeds the others so far that its power is
// infinite, their shares are 0, which is right to that precision.
Values softmax(Expansion& out) {
  const double dim = number_of(out.attributes(), "dim", -1);
  const double limit = 64;
  if (!(std::abs(dim) <= limit) || dim != std::floor(dim)) {
    out.fail("`dim` is not a dimension of " +
             shape_text(out.shape(out.operand(0))));
    return {};
  }
  const std::vector<int64_t> dims = {static_cast<int64_t>(dim)};
  const ValueId top = out.add("max", {out.operand(0)}, {{"dims", dims}}, "max",
                              OpPart::RowNumbers);
  const ValueId shifted =
      out.add("subtract", {out.operand(0), top}, {}, "shifted");
  const ValueId powers = out.add("exp", {shifted}, {}, "exp");
  ValueId total = out.add("sum", {powers}, {{"dims", dims}}, "sum");
  if (out.operands() > 1) total = add_sink(out, top, total);
  return {out.result("divide", {powers, total}, {})};
}

template <typename T>
std::vector<ExpertPlace> place_each(const Tensor& choices, int64_t experts,
                                    int64_t capacity) {
  const size_t rank = choices.shape.size();
  const int64_t of_sequence = choices.shape[rank - 2] * choices.shape[rank - 1];
  std::vector<ExpertPlace> places(to_size(choices.elements()));
  std::vector<int64_t> taken(to_size(experts));
  const T* choice = choices.data<T>();
  for (size_t i = 0; i < places.size(); ++i) {
    if (static_cast<int64_t>(i) % of_sequence == 0) {
      std::fill(taken.begin(), taken.end(), 0);
    }
    ExpertPlace& place = places[i];
    place.expert = index_of(choice[i], experts);
    if (place.expert < 0) continue;
    int64_t& next = taken[static_cast<size_t>(place.expert)];
    if (next < capacity) place.slot = next++;
  }
  return places;
}

}  // namespace

std::span<const CompositeDef> composites() {
  const AttributeDef dim = {"dim", Kind::Number, false,
                            "the dimension; default the last"};
  const AttributeDef epsilon = {"epsilon", Kind::Number, false,
                                "added before the square root; default 1e-6"};
  static const std::vector<CompositeDef> kComposites = {
      {.name = "linear",
       .summary = "x times a kernel [in, out], times `scale`, plus a bias",
       .min_operands = 2,
       .max_operands = 3,
       .many_results = true,
       .mappable = true,
       .attributes = {{"scale", Kind::Number, false, "factor on the product"},
                      {"scale", Kind::Text, false,
                       "`fan_in` or `fan_out`: that size to the power -1/2"},
                      {"sizes", Kind::Integers, false,
                       "sizes of the results, if there are several"}},
       .expand = linear,
       .region = Region::Kind::Linear},
      {.name = "matmul",
       .summary = "matrix product over the last and second-to-last dimensions",
       .min_operands = 2,
       .mappable = true,
       .expand = matmul,
       .region = Region::Kind::Product},
      {.name = "rms_norm",
       .summary = "x / sqrt(mean(x^2) + epsilon) times a weight",
       .max_operands = 2,
       .attributes = {epsilon},
       .expand = rms_norm,
       .region = Region::Kind::Norm},
      {.name = "layer_norm",
       .summary =
           "(x - mean) / sqrt(variance + epsilon), times a weight, plus a bias",
       .max_operands = 3,
       .attributes = {epsilon},
       .expand = layer_norm,
       .region = Region::Kind::Norm},
      {.name = "softmax",
       .summary = "exp(x) / its sum along a dimension, plus exp(sink) if given",
       .max_operands = 2,
       .attributes = {dim},
       .expand = softmax,
       .region = Region::Kind::Softmax},
      {.name = "split",
       .summary = "x split along a dimension, one part per result",
       .many_results = true,
       .mappable = true,
       .attributes = {dim,
                      {"sizes", Kind::Integers, false,
                       "sizes of the parts; default equal"}},
       .expand = split,
       .region = Region::Kind::Split},
  };
  return kComposites;
}

const CompositeDef* find_composite(std::string_view name) {
  return find_named(composites(), name);
}

std::optional<std::vector<ValueId>> expand(const CompositeDef& composite,
                                           const CompositeUse& use,
                                           Graph& graph, Diagnostics& diags) {
  const NodeId first(graph.nodes.size());
  Expansion out(use, graph, diags);
  Region region{.kind = composite.region, .results = composite.expand(out)};
  if (!out.good()) return std::nullopt;
  for (const NodeId n : graph.nodes.ids(first)) {
    const GraphNode& node = graph.nodes[n];
    region.nodes.push_back(n);
    if (node.part == OpPart::Mean) region.numbers_per_row = 2;
    if (node.part == OpPart::RowNumbers) region.row = node.result;
    NumberType& type = graph.values[node.result].type;
    if (region.is_norm_or_softmax() && node.result != region.results.back() &&
        type == NumberType::Activation) {
      type = NumberType::Internal;
    }
  }
  return add_region(graph, std::move(region)).results;
}

Tensor in_groups_of_tokens(const Tensor& tokens, int64_t groups) {
  Shape shape = tokens.shape;
  int64_t& length = shape[shape.size() - 2];
  length /= groups;
  shape.insert(shape.end() - 2, groups);
  return reshaped(contiguous(tokens), shape);
}

std::vector<ExpertPlace> places_of(const Tensor& choices, int64_t experts,
                                   int64_t capacity) {
  SHARDPLAN_CHECK(choices.shape.size() >= 2);
  const Tensor dense = contiguous(choices);
  return for_element_type(dense.element,
                          [&]<typename T>(std::type_identity<T>) {
                            return place_each<T>(dense, experts, capacity);
                          });
}

int64_t count_dropped(const Tensor& choices, int64_t experts,
                      int64_t capacity) {
  return std::ranges::count_if(
      places_of(choices, experts, capacity),
      [](const ExpertPlace& place) { return place.slot < 0; });
}

}  // namespace shardplan
