// SPDX-License-Identifier: Apache-2.0
#include "spmd/reshard.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "spmd/layout.h"
#include "tests/support/builders.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_graph.h"

namespace shardplan {
namespace {

using testing::layout;
using testing::mesh;
using testing::partial;

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
      const std::vector<AxisName> used = axes_in_use(a);
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
