// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "graph/graph.h"
#include "tests/support/small_graph.h"

namespace shardplan::testing {
namespace {

const std::vector<int64_t> kSizes = {1, 2, 3, 4, 4, 6, 8, 8, 12, 12, 16, 24};
const std::vector<int64_t> kEven = {8, 16, 24};
constexpr int64_t kMaxElements = 20'000;

class Grower {
 public:
  explicit Grower(Random& random) : random_(random) {}

  Graph grow(int nodes) {
    graph_.name = "random";
    Shape shape;
    const int64_t rank = draw(random_, 2, 3);
    for (int64_t i = 0; i < rank; ++i) shape.push_back(pick(random_, kSizes));
    input(shape);
    while (static_cast<int>(graph_.nodes.size()) < nodes) step();
    graph_.outputs = unread_results(graph_);
    return std::move(graph_);
  }

  Graph grow_layers() {
    graph_.name = "layers";
    Shape shape = {pick(random_, kEven), pick(random_, kEven)};
    ValueId x = input(shape);
    for (int64_t left = draw(random_, 1, 3); left > 0; --left) {
      const int64_t width = pick(random_, kEven);
      const ValueId w = parameter({shape.back(), width});
      x = node("einsum", {x, w}, {{"equation", std::string("bd,df->bf")}});
      x = node("add", {x, parameter({width})});
      if (left > 1) x = node("gelu", {x});
      shape.back() = width;
    }
    graph_.outputs = unread_results(graph_);
    return std::move(graph_);
  }

  Graph grow_orders() {
    graph_.name = "orders";
    const Shape shape = {pick(random_, kEven), pick(random_, kEven)};
    ValueId x = input(shape);
    for (int64_t left = draw(random_, 1, 2); left > 0; --left) {
      const ValueId w = parameter({shape[1], shape[1]});
      x = node("einsum", {x, w}, {{"equation", std::string("bd,df->bf")}});
      const ValueId top = node("max", {x}, over(1));
      const ValueId shifted = node("subtract", {x, top});
      // Not over its sum: a softmax is the same whatever is subtracted.
      x = node("exp", {shifted});
    }
    const auto k = static_cast<double>(draw(random_, 1, 4));
    const ValueId choices = node("top_k", {x}, {{"k", k}});
    node("take", {x, choices});
    node("max", {x}, over(draw(random_, 0, 1)));
    graph_.outputs = unread_results(graph_);
    return std::move(graph_);
  }

 private:
  static Attributes over(int64_t dim) {
    return {{"dims", std::vector<int64_t>{dim}}};
  }
  const Shape& shape_of(ValueId value) const {
    return graph_.values[value].shape;
  }
  std::string fresh(const char* head) {
    return head + std::to_string(graph_.values.size());
  }

  ValueId input(const Shape& shape, int64_t below = 0) {
    Value value;
    value.name = fresh("x");
    value.shape = shape;
    value.kind = Value::Kind::Input;
    value.integers_below = below;
    return append_value(graph_, std::move(value));
  }
  ValueId parameter(const Shape& shape) {
    Value value;
    value.name = fresh("w");
    value.shape = shape;
    value.kind = Value::Kind::Parameter;
    return append_value(graph_, std::move(value));
  }
  ValueId node(std::string_view op, std::vector<ValueId> operands,
               Attributes attributes = {}) {
    Diagnostics diags;
    const std::string name = fresh("v");
    const auto result = append_node(
        graph_,
        {op, std::move(operands), std::move(attributes), name, name, {}, {}},
        diags);
    SHARDPLAN_CHECK(result.has_value());
    return *result;
  }

  // Recent values are read more often than old ones; ids are not.
  ValueId any() {
    for (;;) {
      const auto last = static_cast<int64_t>(graph_.values.size()) - 1;
      const int64_t from = draw(random_, 0, 1) == 0 ? 0 : last / 2;
      const ValueId value(static_cast<int>(draw(random_, from, last)));
      if (graph_.values[value].integers_below == 0) {
        return value;
      }
    }
  }
  bool is_small(const Shape& shape) const {
    return element_count(shape).value_or(kMaxElements + 1) <= kMaxElements;
  }
  int64_t dim_of(const Shape& shape) {
    return draw(random_, 0, static_cast<int64_t>(shape.size()) - 1);
  }

  void step() {
    const ValueId x = any();
    const Shape shape = shape_of(x);
    switch (draw(random_, 0, 15)) {
      case 0:
      case 1:
      case 2:
        return project(x, shape);
      case 3:
        return attend(x, shape);
      case 4:
        return combine(x, shape);
      case 5:
      case 6:
        node(pick(random_,
                  std::vector<std::string>{"relu", "gelu", "silu", "tanh",
                                           "sigmoid", "negate", "square"}),
             {x});
        return;
      case 7:
        return reduce(x, shape);
      case 8:
        return normalize(x, shape);
      case 9:
        return reorder(x, shape);
      case 10:
        return resize(x, shape);
      case 11:
        return look_up();
      case 12:
        return cut(x, shape);
      case 13:
        return turn(x, shape);
      case 14:
        return route(x, shape);
      default:
        node("scale", {x}, {{"by", 0.5}});
    }
  }

  // [.., k] by [k, m], or [m, k], sometimes with a bias.
  void project(ValueId x, const Shape& shape) {
    if (shape.empty()) return;
    const int64_t width = pick(random_, kSizes);
    Shape result = shape;
    result.back() = width;
    if (!is_small(result)) return;
    const std::string letters = std::string("abcd").substr(0, shape.size() - 1);
    const bool transposed = draw(random_, 0, 3) == 0;
    const ValueId w = transposed ? parameter({width, shape.back()})
                                 : parameter({shape.back(), width});
    const std::string weight = transposed ? "mk" : "km";
    const ValueId y =
        node("einsum", {x, w},
             {{"equation", letters + "k," + weight + "->" + letters + "m"}});
    if (draw(random_, 0, 2) == 0) node("add", {y, parameter({width})});
  }

  // Two activations against each other, as scores and values are.
  void attend(ValueId x, const Shape& shape) {
    if (shape.size() != 3) return;
    const ValueId y = node("tanh", {x});
    const Shape scores = {shape[0], shape[1], shape[1]};
    if (!is_small(scores)) return;
    ValueId s =
        node("einsum", {x, y}, {{"equation", std::string("bqd,bkd->bqk")}});
    if (draw(random_, 0, 1) == 0) s = node("causal_mask", {s});
    const ValueId p = node("sigmoid", {s});
    node("einsum", {p, y}, {{"equation", std::string("bqk,bkd->bqd")}});
  }

  void combine(ValueId x, const Shape& shape) {
    const std::string op =
        pick(random_, std::vector<std::string>{"add", "subtract", "multiply"});
    std::vector<ValueId> fitting;
    for (const ValueId v : graph_.values.ids()) {
      if (graph_.values[v].shape == shape &&
          graph_.values[v].integers_below == 0) {
        fitting.push_back(v);
      }
    }
    if (draw(random_, 0, 1) == 0 || shape.empty()) {
      node(op, {x, pick(random_, fitting)});
    } else {
      node(op, {x, parameter({shape.back()})});
    }
  }

  void reduce(ValueId x, const Shape& shape) {
    if (shape.empty()) return;
    Attributes attributes{{"dims", std::vector<int64_t>{dim_of(shape)}}};
    if (draw(random_, 0, 1) == 0 && shape.size() > 1) {
      attributes["keep"] = 0.0;
    }
    node(pick(random_, std::vector<std::string>{"sum", "mean", "max"}), {x},
         attributes);
  }

  void normalize(ValueId x, const Shape& shape) {
    if (shape.empty()) return;
    const ValueId square = node("square", {x});
    const ValueId mean =
        node("mean", {square}, {{"dims", std::vector<int64_t>{-1}}});
    const ValueId r = node("rsqrt", {mean}, {{"epsilon", 0.001}});
    const ValueId y = node("multiply", {x, r});
    node("multiply", {y, parameter({shape.back()})});
  }

  void reorder(ValueId x, const Shape& shape) {
    std::vector<int64_t> order;
    for (size_t d = 0; d < shape.size(); ++d) {
      order.push_back(static_cast<int64_t>(d));
    }
    for (size_t d = order.size(); d > 1; --d) {
      std::swap(order[d - 1], order[static_cast<size_t>(draw(
                                  random_, 0, static_cast<int64_t>(d) - 1))]);
    }
    node("transpose", {x}, {{"order", order}});
  }

  // Two dimensions put together, or one cut into two.
  void resize(ValueId x, const Shape& shape) {
    if (shape.empty()) return;
    std::vector<int64_t> to = shape;
    if (draw(random_, 0, 1) == 0 && shape.size() > 1) {
      const auto d = static_cast<size_t>(
          draw(random_, 0, static_cast<int64_t>(shape.size()) - 2));
      to[d] *= to[d + 1];
      to.erase(to.begin() + static_cast<ptrdiff_t>(d) + 1);
    } else if (shape.size() < 4) {
      const auto d = static_cast<size_t>(dim_of(shape));
      std::vector<int64_t> divisors;
      for (int64_t n = 1; n <= to[d]; ++n) {
        if (to[d] % n == 0) divisors.push_back(n);
      }
      const int64_t major = pick(random_, divisors);
      to.insert(to.begin() + static_cast<ptrdiff_t>(d), major);
      to[d + 1] /= major;
    }
    node("reshape", {x}, {{"shape", to}});
  }

  void look_up() {
    const int64_t rows = pick(random_, kSizes);
    const ValueId table = parameter({rows, pick(random_, kSizes)});
    const ValueId ids =
        input({pick(random_, kSizes), draw(random_, 1, 4)}, rows);
    node("embedding", {table, ids});
  }

  void cut(ValueId x, const Shape& shape) {
    if (shape.empty()) return;
    const int64_t dim = dim_of(shape);
    const int64_t size = shape[static_cast<size_t>(dim)];
    if (size < 2) return;
    const int64_t middle = draw(random_, 1, size - 1);
    const auto part = [&](int64_t begin, int64_t end) {
      return node("slice", {x},
                  {{"dim", static_cast<double>(dim)},
                   {"begin", static_cast<double>(begin)},
                   {"end", static_cast<double>(end)}});
    };
    const ValueId first = part(0, middle);
    if (draw(random_, 0, 1) == 0) return;
    const ValueId second = part(middle, size);
    node("concatenate", {second, first}, {{"dim", static_cast<double>(dim)}});
  }

  void turn(ValueId x, const Shape& shape) {
    if (shape.size() < 2 || shape.back() % 2 != 0) return;
    const int64_t last = static_cast<int64_t>(shape.size()) - 2;
    node("rope", {x}, {{"dim", static_cast<double>(draw(random_, 0, last))}});
  }

  // A product of every expert with the tokens that chose it. Choices are those
  // of an input, which rounding does not turn over.
  void route(ValueId x, const Shape& shape) {
    if (shape.size() < 2 || shape.size() > 3) return;
    const int64_t experts = pick(random_, std::vector<int64_t>{2, 3, 4, 8});
    const int64_t width = pick(random_, kSizes);
    Shape made = shape;
    made.back() = experts * std::max(width, shape.back());
    if (!is_small(made)) return;
    Shape scores = shape;
    scores.back() = experts;
    const ValueId logits = input(scores);
    const ValueId choices =
        node("top_k", {logits},
             {{"k", static_cast<double>(
                        draw(random_, 1, std::min<int64_t>(3, experts)))}});
    const ValueId weights = node("take", {node("sigmoid", {logits}), choices});
    const int64_t length = shape[shape.size() - 2];
    Attributes attributes{{"experts", static_cast<double>(experts)}};
    if (draw(random_, 0, 2) == 0) {
      attributes["capacity"] = static_cast<double>(draw(random_, 1, length));
    }
    const ValueId brought = node("dispatch", {x, choices}, attributes);
    const std::string tokens = shape.size() == 2 ? "c" : "bc";
    const ValueId y =
        node("einsum", {brought, parameter({experts, shape.back(), width})},
             {{"equation", "e" + tokens + "m,emf->e" + tokens + "f"}});
    node("combine", {y, choices, weights});
  }

  Random& random_;
  Graph graph_;
};

}  // namespace

int64_t draw(Random& random, int64_t low, int64_t high) {
  const auto range = static_cast<uint64_t>(high - low + 1);
  return low + static_cast<int64_t>(random() % range);
}

Mesh random_mesh(Random& random, int64_t most) {
  static const char* const kNames[] = {"dp", "tp", "ep"};
  for (;;) {
    std::vector<Axis> axes;
    int64_t devices = 1;
    const int64_t count = draw(random, 1, 3);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t size =
          pick(random, std::vector<int64_t>{1, 2, 2, 2, 3, 4, 4, 6, 8});
      axes.push_back({kNames[i], size});
      devices *= size;
    }
    if (devices <= most) return Mesh(axes);
  }
}

Graph random_graph(Random& random, int nodes) {
  return Grower(random).grow(nodes);
}

Graph random_layers(Random& random) { return Grower(random).grow_layers(); }

Graph random_orders(Random& random) { return Grower(random).grow_orders(); }

Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape) {
  Layout layout = replicated(shape.size());
  std::vector<Axis> axes = mesh.axes();
  for (size_t i = axes.size(); i > 1; --i) {
    std::swap(axes[i - 1], axes[static_cast<size_t>(
                               draw(random, 0, static_cast<int64_t>(i) - 1))]);
  }
  for (const Axis& axis : axes) {
    if (shape.empty() || axis.size == 1 || draw(random, 0, 2) == 0) continue;
    const auto dim = static_cast<size_t>(
        draw(random, 0, static_cast<int64_t>(shape.size()) - 1));
    AxisNames& mine = layout.spec.dims[dim];
    if (shape[dim] % (shard_count(mesh, mine) * axis.size) == 0) {
      mine.push_back(axis.name);
    }
  }
  return layout;
}

WantedLayouts random_layouts(Random& random, const Mesh& mesh,
                             const Graph& graph) {
  WantedLayouts wanted(graph.values.size());
  for (const ValueId v : graph.values.ids()) {
    const bool result = graph.values[v].kind == Value::Kind::Result;
    if (result && draw(random, 0, 4) > 0) continue;
    wanted[v] = random_layout(random, mesh, graph.values[v].shape);
  }
  return wanted;
}

void cut_unevenly(Random& random, const Mesh& mesh, const Graph& graph,
                  WantedLayouts& wanted) {
  for (const ValueId v : graph.values.ids()) {
    const Value& value = graph.values[v];
    if (value.kind != Value::Kind::Parameter || value.shape.empty()) continue;
    const auto dim =
        static_cast<size_t>(draw(random, 0, std::ssize(value.shape) - 1));
    const AxisNames used = axes_in_use(*wanted[v]);
    for (const Axis& axis : mesh.axes()) {
      const bool free = axis.size > 1 && !contains(used, axis.name);
      if (!free || draw(random, 0, 2) > 0) continue;
      wanted[v]->spec.dims[dim].push_back(axis.name);
    }
  }
}

}  // namespace shardplan::testing
