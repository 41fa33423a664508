// SPDX-License-Identifier: Apache-2.0

#include "spmd/layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;
using testing::partial;

using Groups = std::vector<std::vector<int>>;

TEST_CASE("groups: devices that differ along the axes alone, in their order") {
  const Mesh m = mesh("dp=2,tp=3");  // device = 3 dp + tp
  CHECK(device_groups(m, {"tp"}) == Groups{{0, 1, 2}, {3, 4, 5}});
  CHECK(device_groups(m, {"dp"}) == Groups{{0, 3}, {1, 4}, {2, 5}});
  CHECK(device_groups(m, {"dp", "tp"}) == Groups{{0, 1, 2, 3, 4, 5}});
  // tp is the major one: ranks go through dp first.
  CHECK(device_groups(m, {"tp", "dp"}) == Groups{{0, 3, 1, 4, 2, 5}});
  CHECK(device_groups(m, {}) == Groups{{0}, {1}, {2}, {3}, {4}, {5}});
}

TEST_CASE("groups: the last axis is the fast one") {
  const Mesh m = mesh("dp=2,tp=3");
  CHECK(ranks_along(m, {"dp", "tp"}).count == 6);
  CHECK(ranks_along(m, {"dp", "tp"}).inner == 3);
  CHECK(ranks_along(m, {"tp", "dp"}).inner == 2);
  CHECK(ranks_along(m, {"tp"}).count == 3);
  CHECK(ranks_along(m, {"tp"}).inner == 1);
}

TEST_CASE("groups: the shard of every dimension is a mixed-radix number") {
  const Mesh m = mesh("a=2,b=3");
  CHECK(shard_indices(m, layout("(a, b), None", 2), 5) ==
        std::vector<int64_t>{5, 0});
  CHECK(shard_indices(m, layout("(b, a), None", 2), 5) ==
        std::vector<int64_t>{5, 0});
  CHECK(shard_indices(m, layout("(b, a), None", 2), 1) ==
        std::vector<int64_t>{2, 0});
  CHECK(shard_indices(m, layout("b, a", 2), 4) == std::vector<int64_t>{1, 1});
}

TEST_CASE("groups: swapping the axes of a dimension transposes the grid") {
  const Mesh m = mesh("a=2,b=2");
  CHECK(permute_sources(m, layout("(a, b)", 1), layout("(b, a)", 1)) ==
        std::vector<int>{0, 2, 1, 3});
  // Devices 0 and 3 have the same shard either way, and keep it.
  CHECK(permute_sources(m, layout("a", 1), layout("b", 1)) ==
        std::vector<int>{0, 2, 1, 3});
  CHECK(permute_sources(m, layout("a", 1), layout("a", 1)) ==
        std::vector<int>{0, 1, 2, 3});
  // Parts of a sum stay apart.
  CHECK(permute_sources(mesh("a=2,b=2,c=2"), partial("a", 1, {"c"}),
                        partial("b", 1, {"c"})) ==
        std::vector<int>{0, 1, 4, 5, 2, 3, 6, 7});
}

TEST_CASE(
    "groups: a permutation gives everyone what it needs, and everyone "
    "sends once") {
  int tried = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 24);
    const Shape shape = {24, 24};
    const Layout from = testing::random_layout(random, m, shape);
    const Layout to = testing::random_layout(random, m, shape);
    if (local_shape(m, from, shape) != local_shape(m, to, shape)) continue;
    ++tried;
    const std::vector<int> sources = permute_sources(m, from, to);
    std::set<int> senders(sources.begin(), sources.end());
    CHECK(senders.size() == static_cast<size_t>(m.devices()));
    for (int64_t device = 0; device < m.devices(); ++device) {
      const int64_t source = sources[static_cast<size_t>(device)];
      const auto needed = shard_indices(m, to, device);
      CHECK(shard_indices(m, from, source) == needed);
      if (shard_indices(m, from, device) == needed) CHECK(source == device);
    }
  }
  CHECK(tried > 50);
}

using testing::spec;

TEST_CASE("layout: a spec is padded to the rank, without axes of size 1") {
  const Mesh m = mesh("dp=2,pp=1,tp=4");
  CHECK(layout_of(m, spec("(dp, pp), tp"), 3).spec == spec("dp, tp, None"));
  CHECK(layout_of(m, spec("pp"), 1) == replicated(1));
  CHECK(layout_of(m, spec(""), 0) == replicated(0));
}

TEST_CASE("layout: every axis of a dimension divides the shard") {
  const Mesh m = mesh("dp=2,tp=4");
  CHECK(local_shape(m, layout("(dp, tp), None", 2), {16, 3}) == Shape{2, 3});
  CHECK(local_shape(m, layout("None, dp", 2), {16, 6}) == Shape{16, 3});
  // A part of a sum is as large as the sum.
  CHECK(local_shape(m, partial("None", 1, {"tp"}), {16}) == Shape{16});
  CHECK(local_shape(m, layout("dp", 1), {0}) == Shape{0});
}

TEST_CASE("layout: axes in use shard a dimension or hold parts") {
  CHECK(axes_in_use(replicated(2)).empty());
  const auto axes = axes_in_use(partial("dp, (tp, sp)", 2, {"ep"}));
  CHECK(AxisNames(axes.begin(), axes.end()) ==
        AxisNames{"ep", "dp", "tp", "sp"});
}

TEST_CASE("layout: partial sums can be summed, but not taken apart again") {
  const Layout whole = replicated(1);
  const Layout parts = partial("None", 1, {"dp", "tp"});
  CHECK(covers(parts, whole));
  CHECK(covers(parts, partial("None", 1, {"tp"})));
  CHECK(covers(whole, whole));
  CHECK_FALSE(covers(whole, parts));
  CHECK_FALSE(covers(partial("None", 1, {"tp"}), parts));
}

TEST_CASE("layout: mesh order is major to minor, each axis once") {
  const Mesh m = mesh("a=2,b=2,c=2");
  CHECK(in_mesh_order(m, {"c", "a"}) == AxisNames{"a", "c"});
  CHECK(in_mesh_order(m, {"b", "b"}) == AxisNames{"b"});
  CHECK(in_mesh_order(m, {}).empty());
}

TEST_CASE("layout: text says along which axes there are parts") {
  CHECK(layout_text(layout("fsdp, None", 2)) == "P(fsdp, None)");
  CHECK(layout_text(partial("fsdp, None", 2, {"tp"})) ==
        "P(fsdp, None) partial over tp");
  CHECK(layout_text(partial("None", 1, {"dp", "tp"})) ==
        "P(None) partial over dp, tp");
}

// The rule of an operation on one operand.
ShardingRule rule_of(const Shape& shape, std::string_view op,
                     Attributes attributes) {
  testing::SmallGraph g("a=2");
  const ValueId x = g.input(shape, "");
  g.node(op, {x}, std::move(attributes));
  return g.graph.nodes.front().rule;
}

ShardingRule reshape_rule(const Shape& from, const Shape& to) {
  return rule_of(from, "reshape", {{"shape", to}});
}

TEST_CASE("factors: a product's dimensions are one factor each") {
  testing::SmallGraph g("a=2,b=2");
  const ValueId x = g.input({4, 8}, "");
  g.einsum("ik,kj->ij", x, g.parameter({8, 6}, ""));
  const ShardingRule& rule = g.graph.nodes.front().rule;
  const FactorAxes axes =
      factor_axes(g.mesh, rule, rule.operands[0], spec("a, b"));
  CHECK(spec_of(g.mesh, rule, rule.operands[0], axes) == spec("a, b"));
  CHECK(spec_of(g.mesh, rule, rule.operands[1], axes) == spec("b, None"));
  CHECK(spec_of(g.mesh, rule, rule.result, axes) == spec("a, None"));
}

TEST_CASE("factors: the major part of a dimension takes its first axes") {
  const Mesh m = mesh("a=2,b=2,c=3");
  const ShardingRule rule = reshape_rule({4, 6}, {24});
  const auto across = [&](std::string_view text) {
    const FactorAxes axes = factor_axes(m, rule, rule.result, spec(text));
    return spec_of(m, rule, rule.operands[0], axes).value();
  };
  CHECK(across("a") == spec("a, None"));
  CHECK(across("(a, b)") == spec("(a, b), None"));
  // All four rows of the first dimension are apart: the next axis cuts the
  // second.
  CHECK(across("(a, b, c)") == spec("(a, b), c"));
  // c does not divide the four rows of the major factor; b is not looked at.
  CHECK(across("(a, c, b)") == spec("a, None"));
  CHECK(across("c") == spec("None, None"));
}

TEST_CASE(
    "factors: a minor factor can only be cut where the major one is cut "
    "into single rows") {
  const Mesh m = mesh("a=2,b=2,c=3");
  const ShardingRule rule = reshape_rule({4, 6}, {24});
  const auto back = [&](std::string_view text) {
    const FactorAxes axes = factor_axes(m, rule, rule.operands[0], spec(text));
    return spec_of(m, rule, rule.result, axes);
  };
  CHECK(back("a, None") == spec("a"));
  CHECK(back("(a, b), c") == spec("(a, b, c)"));
  CHECK_FALSE(back("None, c").has_value());
  CHECK_FALSE(back("a, c").has_value());
}

TEST_CASE("factors: a factor that is needed whole takes no axes") {
  const Mesh m = mesh("a=2");
  const ShardingRule rule =
      rule_of({4, 4}, "slice", {{"dim", 0.0}, {"begin", 1.0}, {"end", 3.0}});
  const FactorAxes axes =
      factor_axes(m, rule, rule.operands[0], spec("a, None"));
  CHECK(spec_of(m, rule, rule.result, axes) == spec("None, None"));
  const FactorAxes other =
      factor_axes(m, rule, rule.operands[0], spec("None, a"));
  CHECK(spec_of(m, rule, rule.result, other) == spec("None, a"));
}

TEST_CASE("factors: what factors can take of a spec comes back as it was") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 16);
    const Graph graph = testing::random_graph(random, 8);
    for (const GraphNode& node : graph.nodes) {
      const Shape& shape = graph.values[node.operands[0]].shape;
      const Layout layout = testing::random_layout(random, m, shape);
      const auto& dims = node.rule.operands[0];
      const FactorAxes once = factor_axes(m, node.rule, dims, layout.spec);
      const auto kept = spec_of(m, node.rule, dims, once);
      // A dimension whose major factor gets fewer axes than it has rows ends
      // there, so its minor factors have none: there always is a spec.
      REQUIRE(kept.has_value());
      CHECK(factor_axes(m, node.rule, dims, *kept) == once);
      for (size_t d = 0; d < dims.size(); ++d) {
        const AxisNames& had = layout.spec.dims[d];
        CHECK(kept->dims[d].size() <= had.size());
        CHECK(std::equal(kept->dims[d].begin(), kept->dims[d].end(),
                         had.begin()));
      }
    }
  }
}

// "all-gather over a, slice over b"
std::string steps_text(const Reshard& way) {
  std::string text;
  for (const ReshardStep& step : way.steps) {
    if (!text.empty()) text += ", ";
    text += step.slice ? "slice" : std::string(collective_name(step.kind));
    text += " over " + axes_text(step.axes);
  }
  return text;
}

struct Case {
  Layout from;
  Layout to;
  const char* steps;
  double bytes;  // that a device sends, of 16 x 16 elements on a=4,b=4
};

TEST_CASE("reshard: every change of layout has its collective") {
  const Mesh m = mesh("a=4,b=4");
  constexpr double kWhole = 16 * 16 * 4;
  const std::vector<Case> cases = {
      {layout("a, None", 2), layout("None, None", 2), "all-gather over a",
       kWhole * 3 / 4},
      {layout("None, None", 2), layout("a, None", 2), "slice over a", 0},
      {layout("a, None", 2), layout("None, a", 2), "all-to-all over a",
       kWhole / 4 * 3 / 4},
      {layout("(a, b), None", 2), layout("(b, a), None", 2),
       "permute over (a, b)", kWhole / 16},
      {layout("a, None", 2), layout("b, None", 2), "permute over (a, b)",
       kWhole / 4},
      {partial("None, None", 2, {"a"}), layout("None, None", 2),
       "all-reduce over a", 2 * kWhole * 3 / 4},
      {partial("None, None", 2, {"a"}), layout("None, a", 2),
       "reduce-scatter over a", kWhole * 3 / 4},
      {partial("b, None", 2, {"a"}), layout("b, a", 2), "reduce-scatter over a",
       kWhole / 4 * 3 / 4},
      {layout("(a, b), None", 2), layout("a, None", 2), "all-gather over b",
       kWhole / 4 * 3 / 4},
      {layout("a, None", 2), layout("a, None", 2), "", 0},
      // Cut first, then sum what is left.
      {partial("None, None", 2, {"a"}), layout("b, None", 2),
       "slice over b, all-reduce over a", 2 * kWhole / 4 * 3 / 4},
      {partial("None, None", 2, {"a", "b"}), partial("None, None", 2, {"b"}),
       "all-reduce over a", 2 * kWhole * 3 / 4},
  };
  for (const Case& c : cases) {
    CAPTURE(layout_text(c.from));
    CAPTURE(layout_text(c.to));
    const Reshard way = plan_reshard(m, {16, 16}, c.from, c.to);
    CHECK(steps_text(way) == c.steps);
    CHECK(way.bytes == c.bytes);
  }
}

TEST_CASE("reshard: parts of a maximum are settled as maxima") {
  const Mesh m = mesh("a=2");
  Layout from = partial("None", 1, {"a"});
  from.reduction = Reduction::Max;
  CHECK(steps_text(plan_reshard(m, {8}, from, layout("a", 1))) ==
        "reduce-scatter over a");
}

// Every list of moves on a small mesh, found without the search: single moves
// between any two layouts, put together by Floyd and Warshall's algorithm.
class AllWays {
 public:
  AllWays(const Mesh& mesh, const Shape& shape) : mesh_(mesh), shape_(shape) {
    add_layouts(0, replicated(shape.size()));
    const size_t n = layouts_.size();
    bytes_.assign(n, std::vector<double>(n, 1e18));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        bytes_[i][j] = i == j ? 0 : single_move(layouts_[i], layouts_[j]);
      }
    }
    for (size_t k = 0; k < n; ++k) {
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) {
          bytes_[i][j] = std::min(bytes_[i][j], bytes_[i][k] + bytes_[k][j]);
        }
      }
    }
  }

  const std::vector<Layout>& layouts() const { return layouts_; }
  double bytes(size_t from, size_t to) const { return bytes_[from][to]; }

 private:
  // Every axis shards a dimension at any place among others, holds parts, or is
  // not used.
  void add_layouts(size_t axis, const Layout& so_far) {
    if (axis == mesh_.axes().size()) {
      layouts_.push_back(so_far);
      return;
    }
    const AxisName& name = mesh_.axes()[axis].name;
    add_layouts(axis + 1, so_far);
    Layout held = so_far;
    held.partial.push_back(name);
    add_layouts(axis + 1, held);
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      for (size_t at = 0; at <= so_far.spec.dims[dim].size(); ++at) {
        Layout cut = so_far;
        AxisNames& axes = cut.spec.dims[dim];
        axes.insert(axes.begin() + static_cast<ptrdiff_t>(at), name);
        if (shape_[dim] % shard_count(mesh_, axes) == 0) {
          add_layouts(axis + 1, cut);
        }
      }
    }
  }

  double local_bytes(const Layout& layout) const {
    double bytes = 4;
    for (const int64_t size : local_shape(mesh_, layout, shape_)) {
      bytes *= static_cast<double>(size);
    }
    return bytes;
  }
  double share(const AxisNames& axes) const {
    const auto n = static_cast<double>(shard_count(mesh_, axes));
    return (n - 1) / n;
  }
  // The axes that `longer` has after those of `shorter`.
  static std::optional<AxisNames> tail(const AxisNames& shorter,
                                       const AxisNames& longer) {
    if (shorter.size() > longer.size() ||
        !std::equal(shorter.begin(), shorter.end(), longer.begin())) {
      return std::nullopt;
    }
    return AxisNames(longer.begin() + static_cast<ptrdiff_t>(shorter.size()),
                     longer.end());
  }

  // Bytes that a device sends in the one collective or slice between them.
  double single_move(const Layout& a, const Layout& b) const {
    double best = 1e18;
    std::vector<size_t> changed;
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      if (a.spec.dims[dim] != b.spec.dims[dim]) changed.push_back(dim);
    }
    AxisNames settled;
    for (const AxisName& axis : a.partial) {
      if (std::find(b.partial.begin(), b.partial.end(), axis) ==
          b.partial.end()) {
        settled.push_back(axis);
      }
    }
    if (a.partial.size() - settled.size() != b.partial.size()) return best;
    if (changed.empty()) return 2 * local_bytes(a) * share(settled);
    const size_t first = changed[0];
    const AxisNames& was = a.spec.dims[first];
    const AxisNames& is = b.spec.dims[first];
    const auto lost = tail(is, was);
    const auto gained = tail(was, is);
    if (!settled.empty()) {
      if (changed.size() > 1 || !gained) return best;
      const std::set<AxisName> parts(settled.begin(), settled.end());
      const std::set<AxisName> shards(gained->begin(), gained->end());
      return parts == shards ? local_bytes(a) * share(settled) : best;
    }
    if (local_shape(mesh_, a, shape_) == local_shape(mesh_, b, shape_)) {
      best = local_bytes(a);
    }
    if (changed.size() == 1 && lost) {
      best = std::min(best, local_bytes(b) * share(*lost));
    }
    if (changed.size() == 1 && gained) {
      const AxisNames used = axes_in_use(a);
      const bool free = std::none_of(
          gained->begin(), gained->end(), [&](const AxisName& axis) {
            return std::find(used.begin(), used.end(), axis) != used.end();
          });
      if (free) best = 0;
    }
    if (changed.size() == 2) {
      const AxisNames& other_was = a.spec.dims[changed[1]];
      const AxisNames& other_is = b.spec.dims[changed[1]];
      const auto other_gained = tail(other_was, other_is);
      const auto other_lost = tail(other_is, other_was);
      const bool there = lost && other_gained && *lost == *other_gained;
      const bool back = gained && other_lost && *gained == *other_lost;
      if (there) best = std::min(best, local_bytes(a) * share(*lost));
      if (back) best = std::min(best, local_bytes(a) * share(*gained));
    }
    return best;
  }

  const Mesh& mesh_;
  Shape shape_;
  std::vector<Layout> layouts_;
  std::vector<std::vector<double>> bytes_;
};

// The search adds axes to a dimension only where the target has them there. A
// way through other layouts may be cheaper: an all-reduce of a slice that is
// gathered afterwards, or a slice of one dimension that moves to another.
TEST_CASE(
    "reshard: most lists found are the cheapest of all, none is cheaper") {
  int pairs = 0;
  int cheapest = 0;
  for (const char* text : {"a=2", "a=2,b=2", "a=2,b=4", "a=3,b=2"}) {
    const std::string axes = text;
    CAPTURE(axes);
    const Mesh m = mesh(text);
    const Shape shape = {24, 8};
    const AllWays all(m, shape);
    for (size_t i = 0; i < all.layouts().size(); ++i) {
      for (size_t j = 0; j < all.layouts().size(); ++j) {
        const Layout& from = all.layouts()[i];
        const Layout& to = all.layouts()[j];
        if (!covers(from, to)) continue;
        const Reshard way = plan_reshard(m, shape, from, to);
        CAPTURE(layout_text(from));
        CAPTURE(layout_text(to));
        CAPTURE(steps_text(way));
        CHECK(way.bytes >= all.bytes(i, j) - 1e-6);
        CHECK(way.bytes <= 1.75 * all.bytes(i, j) + 1e-6);
        cheapest += way.bytes <= all.bytes(i, j) + 1e-6;
        ++pairs;
      }
    }
  }
  CAPTURE(pairs);
  CHECK(cheapest * 100 >= pairs * 85);
}

TEST_CASE(
    "reshard: never dearer than summing and gathering all, then cutting") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const Mesh m = testing::random_mesh(random, 24);
    const Shape shape = {24, 24, 4};
    const Layout from = testing::random_layout(random, m, shape);
    const Layout to = testing::random_layout(random, m, shape);
    const Reshard way = plan_reshard(m, shape, from, to);
    const auto n = static_cast<double>(shard_count(m, from.spec));
    CHECK(way.bytes <= 24 * 24 * 4 * 4 * (n - 1) / n + 1e-6);
    CHECK((way.steps.empty() ? from : way.steps.back().after) == to);
  }
}

TEST_CASE("reshard: answers are remembered") {
  const Mesh m = mesh("a=2,b=2");
  ReshardCache cache(m);
  const Layout from = layout("a, None", 2);
  const Reshard& first = cache.find({4, 4}, from, layout("None, a", 2));
  CHECK(&cache.find({4, 4}, from, layout("None, a", 2)) == &first);
  CHECK(cache.find({4, 8}, from, layout("None, a", 2)).bytes ==
        2 * first.bytes);
}

}  // namespace

}  // namespace shardplan
