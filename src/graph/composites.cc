// SPDX-License-Identifier: Apache-2.0

#include "graph/composites.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;
using Values = std::optional<std::vector<ValueId>>;

// Appends the operations of one use in order; after a failure it adds nothing
// more.
class Expansion {
 public:
  Expansion(const CompositeUse& use, Graph& graph, Diagnostics& diags)
      : use_(use), graph_(graph), diags_(diags) {}

  bool good() const { return good_; }
  ValueId operand(size_t index) const { return use_.operands[index]; }
  size_t operands() const { return use_.operands.size(); }
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

// Returns the equation of a matrix product, such as "aIK,aKJ->aIJ": one matrix
// per entry of the leading dimensions, of which the second operand may have
// none ("aIK,KJ->aIJ").
std::optional<std::string> product_equation(const Shape& left,
                                            const Shape& right) {
  constexpr size_t kLetters = 26;
  if (left.empty() || right.size() < 2 || left.size() > kLetters) {
    return std::nullopt;
  }
  if (right.size() > 2 && right.size() != left.size()) return std::nullopt;
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

Values matmul(const CompositeUse& use, Graph& graph, Diagnostics& diags) {
  Expansion out(use, graph, diags);
  const ValueId product = add_product(out, true);
  if (!out.good()) return std::nullopt;
  return Values({product});
}

// Returns the sizes of the parts: those given, else equal ones.
std::optional<std::vector<int64_t>> part_sizes(const CompositeUse& use,
                                               int64_t whole, Expansion& out) {
  const auto count = static_cast<int64_t>(use.results.size());
  const auto given = integers_of(use.attributes, "sizes");
  if (given.empty()) {
    if (whole % count == 0) {
      return std::vector<int64_t>(use.results.size(), whole / count);
    }
    out.fail("cannot split a dimension of size " + std::to_string(whole) +
             " into " + plural(count, "equal part"))
        .help("give the size of each part in `sizes: [..]`");
    return std::nullopt;
  }
  std::optional<int64_t> sum = 0;
  for (const int64_t size : given) {
    sum = sum && size >= 0 ? checked_add(*sum, size) : std::nullopt;
  }
  if (given.size() == use.results.size() && sum == whole) {
    return std::vector<int64_t>(given.begin(), given.end());
  }
  out.fail("`sizes` does not fit")
      .fact("there are " + plural(static_cast<int64_t>(given.size()), "size") +
            " for " + plural(count, "result"))
      .fact("the dimension has size " + std::to_string(whole));
  return std::nullopt;
}

// Splits `value` along `dim` into the results.
Values add_parts(const CompositeUse& use, ValueId value, size_t dim,
                 Expansion& out) {
  const auto sizes = part_sizes(use, out.shape(value)[dim], out);
  if (!sizes) return std::nullopt;
  std::vector<ValueId> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const int64_t end = begin + (*sizes)[i];
    parts.push_back(out.result("slice", {value},
                               {{"dim", static_cast<double>(dim)},
                                {"begin", static_cast<double>(begin)},
                                {"end", static_cast<double>(end)}},
                               i));
    begin = end;
  }
  if (!out.good()) return std::nullopt;
  return parts;
}

Values split(const CompositeUse& use, Graph& graph, Diagnostics& diags) {
  Expansion out(use, graph, diags);
  const Shape& shape = out.shape(out.operand(0));
  const auto rank = static_cast<double>(shape.size());
  const double requested = number_of(use.attributes, "dim", -1);
  const double dim = requested < 0 ? requested + rank : requested;
  if (!(dim >= 0 && dim < rank) || dim != std::floor(dim)) {
    out.fail("`dim` is not a dimension of " + shape_text(shape));
    return std::nullopt;
  }
  return add_parts(use, out.operand(0), static_cast<size_t>(dim), out);
}

// Returns the factor on a product: `fan_in` is the number of inputs to the
// power -1/2, `fan_out` that of outputs (EasyDeL's ParallelLinear).
std::optional<double> linear_scale(const CompositeUse& use, const Shape& kernel,
                                   Expansion& out) {
  const auto given = use.attributes.find("scale");
  if (given == use.attributes.end()) return 1;
  if (const auto* number = std::get_if<double>(&given->second)) return *number;
  const std::string_view text = text_of(use.attributes, "scale", "");
  if (text != "fan_in" && text != "fan_out") {
    out.fail("`scale` cannot be " + in_backticks(text))
        .help("give `fan_in`, `fan_out` or a number");
    return std::nullopt;
  }
  if (text == "fan_out" && use.results.size() > 1) {
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
Values linear(const CompositeUse& use, Graph& graph, Diagnostics& diags) {
  Expansion out(use, graph, diags);
  const Shape kernel = out.shape(out.operand(1));
  const bool parts =
      use.results.size() > 1 || use.attributes.count("sizes") > 0;
  const bool bias = out.operands() > 2;
  if (kernel.size() != 2) {
    out.fail("the kernel of `linear` has shape " + shape_text(kernel))
        .help("a kernel is [in, out]; `einsum` multiplies other shapes");
    return std::nullopt;
  }
  const auto scale = linear_scale(use, kernel, out);
  if (!scale) return std::nullopt;
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
  if (!out.good()) return std::nullopt;
  if (!parts) return Values({value});
  return add_parts(use, value, out.shape(value).size() - 1, out);
}

// Appends x / sqrt(mean(x^2) + epsilon), with the mean over the last dimension.
ValueId add_normalised(Expansion& out, ValueId value, double epsilon,
                       bool last) {
  const std::vector<int64_t> features = {-1};
  const ValueId squared = out.add("square", {value}, {}, "square");
  const ValueId mean =
      out.add("mean", {squared}, {{"dims", features}}, "mean_square");
  const ValueId inverse = out.add("rsqrt", {mean}, {{"epsilon", epsilon}},
                                  "rsqrt", OpPart::RowNumbers);
  return out.step(last, "multiply", {value, inverse}, {}, "normalised");
}

// Returns true if there are features to normalise over; else reports an error.
bool check_features(Expansion& out) {
  const Shape& x = out.shape(out.operand(0));
  if (x.empty()) {
    out.fail("a scalar has no features to normalise");
    return false;
  }
  for (size_t i = 1; i < out.operands(); ++i) {
    const Shape& parameter = out.shape(out.operand(i));
    if (parameter == Shape{x.back()}) continue;
    out.fail("a norm of " + shape_text(x) + " has a parameter of shape " +
             shape_text(parameter))
        .help("give it one value per feature: [" + std::to_string(x.back()) +
              "]");
    return false;
  }
  return true;
}

// The default epsilon of flax.linen.RMSNorm.
constexpr double kEpsilon = 1e-6;

Values rms_norm(const CompositeUse& use, Graph& graph, Diagnostics& diags) {
  Expansion out(use, graph, diags);
  if (!check_features(out)) return std::nullopt;
  const bool weight = out.operands() > 1;
  const double epsilon = number_of(use.attributes, "epsilon", kEpsilon);
  ValueId value = add_normalised(out, out.operand(0), epsilon, !weight);
  if (weight) value = out.result("multiply", {value, out.operand(1)}, {});
  if (!out.good()) return std::nullopt;
  return Values({value});
}

Values layer_norm(const CompositeUse& use, Graph& graph, Diagnostics& diags) {
  Expansion out(use, graph, diags);
  if (!check_features(out)) return std::nullopt;
  const bool weight = out.operands() > 1;
  const bool bias = out.operands() > 2;
  const double epsilon = number_of(use.attributes, "epsilon", kEpsilon);
  const std::vector<int64_t> features = {-1};
  const ValueId mean = out.add("mean", {out.operand(0)}, {{"dims", features}},
                               "mean", OpPart::Mean);
  const ValueId centred =
      out.add("subtract", {out.operand(0), mean}, {}, "centred");
  ValueId value = add_normalised(out, centred, epsilon, !weight);
  if (weight) {
    value =
        out.step(!bias, "multiply", {value, out.operand(1)}, {}, "weighted");
  }
  if (bias) value = out.result("add", {value, out.operand(2)}, {});
  if (!out.good()) return std::nullopt;
  return Values({value});
}

ValueId add_sink(Expansion& out, ValueId top, ValueId total) {
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
Values softmax(const CompositeUse& use, Graph& graph, Diagnostics& diags) {
  Expansion out(use, graph, diags);
  const double dim = number_of(use.attributes, "dim", -1);
  const double limit = 64;
  if (!(std::abs(dim) <= limit) || dim != std::floor(dim)) {
    out.fail("`dim` is not a dimension of " +
             shape_text(out.shape(out.operand(0))));
    return std::nullopt;
  }
  const std::vector<int64_t> dims = {static_cast<int64_t>(dim)};
  const ValueId top = out.add("max", {out.operand(0)}, {{"dims", dims}}, "max",
                              OpPart::RowNumbers);
  const ValueId shifted =
      out.add("subtract", {out.operand(0), top}, {}, "shifted");
  const ValueId powers = out.add("exp", {shifted}, {}, "exp");
  ValueId total = out.add("sum", {powers}, {{"dims", dims}}, "sum");
  if (out.operands() > 1) total = add_sink(out, top, total);
  const ValueId value = out.result("divide", {powers, total}, {});
  if (!out.good()) return std::nullopt;
  return Values({value});
}

}  // namespace

std::span<const CompositeDef> composites() {
  static const std::vector<CompositeDef> kComposites = {
      {"linear",
       "x times a kernel [in, out], times `scale`, plus a bias",
       2,
       3,
       true,
       true,
       {{"scale", Kind::Number, false, "factor on the product"},
        {"scale", Kind::Text, false,
         "`fan_in` or `fan_out`: that size to the power -1/2"},
        {"sizes", Kind::Integers, false,
         "sizes of the results, if there are several"}},
       linear,
       Region::Kind::Linear},
      {"matmul",
       "matrix product over the last and second-to-last dimensions",
       2,
       2,
       false,
       true,
       {},
       matmul,
       Region::Kind::Product},
      {"rms_norm",
       "x / sqrt(mean(x^2) + epsilon) times a weight",
       1,
       2,
       false,
       false,
       {{"epsilon", Kind::Number, false,
         "added before the square root; default 1e-6"}},
       rms_norm,
       Region::Kind::Norm},
      {"layer_norm",
       "(x - mean) / sqrt(variance + epsilon), times a weight, plus a bias",
       1,
       3,
       false,
       false,
       {{"epsilon", Kind::Number, false,
         "added before the square root; default 1e-6"}},
       layer_norm,
       Region::Kind::Norm},
      {"softmax",
       "exp(x) / its sum along a dimension, plus exp(sink) if given",
       1,
       2,
       false,
       false,
       {{"dim", Kind::Number, false, "the dimension; default the last"}},
       softmax,
       Region::Kind::Softmax},
      {"split",
       "x split along a dimension, one part per result",
       1,
       1,
       true,
       true,
       {{"dim", Kind::Number, false, "the dimension; default the last"},
        {"sizes", Kind::Integers, false, "sizes of the parts; default equal"}},
       split,
       Region::Kind::Split},
  };
  return kComposites;
}

const CompositeDef* find_composite(std::string_view name) {
  for (const CompositeDef& composite : composites()) {
    if (composite.name == name) return &composite;
  }
  return nullptr;
}

std::optional<std::vector<ValueId>> expand(const CompositeDef& composite,
                                           const CompositeUse& use,
                                           Graph& graph, Diagnostics& diags) {
  const NodeId first(graph.nodes.size());
  auto results = composite.expand(use, graph, diags);
  if (!results) return std::nullopt;
  Region region;
  region.kind = composite.region;
  region.results = *results;
  for (const NodeId n : graph.nodes.ids(first)) {
    const GraphNode& node = graph.nodes[n];
    region.nodes.push_back(n);
    if (node.part == OpPart::Mean) region.numbers_per_row = 2;
    if (node.part == OpPart::RowNumbers) region.row = node.result;
    NumberType& type = graph.values[node.result].type;
    if (region.is_norm_or_softmax() && node.result != results->back() &&
        type == NumberType::Activation) {
      type = NumberType::Internal;
    }
  }
  add_region(graph, std::move(region));
  return results;
}

namespace {

template <typename T>
std::vector<ExpertPlace> place_each(const Tensor& choices, int64_t experts,
                                    int64_t capacity) {
  const size_t rank = choices.shape.size();
  const int64_t of_sequence = choices.shape[rank - 2] * choices.shape[rank - 1];
  std::vector<ExpertPlace> places(static_cast<size_t>(choices.elements()));
  std::vector<int64_t> taken(static_cast<size_t>(experts));
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
  return dense.element == Element::F32
             ? place_each<float>(dense, experts, capacity)
             : place_each<double>(dense, experts, capacity);
}

int64_t count_dropped(const Tensor& choices, int64_t experts,
                      int64_t capacity) {
  const std::vector<ExpertPlace> places = places_of(choices, experts, capacity);
  return std::count_if(places.begin(), places.end(),
                       [](const ExpertPlace& place) { return place.slot < 0; });
}

}  // namespace shardplan
