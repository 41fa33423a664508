// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint, read out of those of another program: what a scheme
// of names did is undone, number by number.
#include "model/forward/tensor_view.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/naming/name_scheme.h"
#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using Move = TensorView::Move;

struct Array {
  Shape shape;
  std::vector<int64_t> values;  // row by row

  bool operator==(const Array&) const = default;
};

int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<>());
}

Array numbered(Shape shape, int64_t first) {
  Array array{std::move(shape), {}};
  array.values.resize(static_cast<size_t>(count_of(array.shape)));
  std::iota(array.values.begin(), array.values.end(), first);
  return array;
}

// Element by element: result[i] = from[place(i)].
template <typename Place>
Array gathered(Shape shape, const Array& from, Place place) {
  Array result{std::move(shape), {}};
  Shape at(result.shape.size(), 0);
  for (int64_t n = 0; n < count_of(result.shape); ++n) {
    const Shape source = place(at);
    int64_t flat = 0;
    for (size_t d = 0; d < source.size(); ++d) {
      flat = flat * from.shape[d] + source[d];
    }
    result.values.push_back(from.values[static_cast<size_t>(flat)]);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < result.shape[d]) break;
      at[d] = 0;
    }
  }
  return result;
}

Array transposed(const Array& from, const std::vector<size_t>& order) {
  Shape shape;
  for (const size_t d : order) shape.push_back(from.shape[d]);
  return gathered(shape, from, [&](const Shape& at) {
    Shape source(at.size());
    for (size_t d = 0; d < at.size(); ++d) source[order[d]] = at[d];
    return source;
  });
}

// All of them beside one another in a new dimension.
Array stacked(const std::vector<Array>& all, size_t dim) {
  Shape shape = all.front().shape;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim),
               std::ssize(all));
  Array together{{std::ssize(all)}, {}};
  together.shape.insert(together.shape.end(), all.front().shape.begin(),
                        all.front().shape.end());
  for (const Array& each : all) {
    together.values.insert(together.values.end(), each.values.begin(),
                           each.values.end());
  }
  return gathered(shape, together, [&](const Shape& at) {
    Shape source = at;
    source.erase(source.begin() + static_cast<std::ptrdiff_t>(dim));
    source.insert(source.begin(), at[dim]);
    return source;
  });
}

// What the moves of a view make of a tensor of the checkpoint.
Array moved(Array array, const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    if (!move.order.empty()) {
      array = transposed(array, move.order);
      continue;
    }
    Shape shape;
    for (const TensorView::Dim& dim : move.shape) {
      shape.push_back(dim.from < 0
                          ? dim.number
                          : array.shape[static_cast<size_t>(dim.from)] /
                                dim.number);
    }
    array.shape = std::move(shape);
  }
  return array;
}

const auto& attribute(const ViewReading::Step& step, std::string_view name) {
  const auto found = std::ranges::find_if(
      step.attributes, [&](const auto& each) { return each.first == name; });
  REQUIRE(found != step.attributes.end());
  return found->second;
}

Array read(const ViewReading& reading, Array array) {
  CHECK(array.shape == reading.stored);
  for (const ViewReading::Step& step : reading.steps) {
    if (step.op == "reshape") {
      array.shape = std::get<Shape>(attribute(step, "shape"));
      CHECK(count_of(array.shape) == std::ssize(array.values));
    } else if (step.op == "transpose") {
      const auto& order = std::get<Shape>(attribute(step, "order"));
      array = transposed(array, {order.begin(), order.end()});
    } else {
      REQUIRE(step.op == "slice");
      const auto dim =
          static_cast<size_t>(std::get<double>(attribute(step, "dim")));
      const auto begin =
          static_cast<int64_t>(std::get<double>(attribute(step, "begin")));
      const auto end =
          static_cast<int64_t>(std::get<double>(attribute(step, "end")));
      Shape shape = array.shape;
      shape[dim] = end - begin;
      array = gathered(shape, array, [&](const Shape& at) {
        Shape source = at;
        source[dim] += begin;
        return source;
      });
    }
  }
  return array;
}

// MaxText's queries: [out, in] as [in, heads, head_dim].
const std::vector<Move> kQueries = {{.order = {1, 0}},
                                    {.shape = {{0, 1}, {-1, 2}, {1, 2}}}};

TEST_CASE("view: a layer of a stack is read as the checkpoint has it") {
  std::vector<Array> layers;
  std::vector<Array> kept;
  for (int64_t i = 0; i < 3; ++i) {
    layers.push_back(numbered({6, 5}, 100 * i));
    kept.push_back(moved(layers.back(), kQueries));
  }
  const Array stack = stacked(kept, 1);
  CHECK(stack.shape == Shape{5, 3, 2, 3});
  for (int64_t i = 0; i < 3; ++i) {
    const TensorView view{"q", {6, 5}, kQueries, {}, {{1, 3, i}}};
    const auto reading = read_view(view, {6, 5});
    REQUIRE(reading.has_value());
    CHECK(read(*reading, stack) == layers[static_cast<size_t>(i)]);
  }
}

TEST_CASE("view: experts of a layer are one tensor, experts first") {
  // [inner, layer, expert, width] of experts that are [width, inner] each.
  const std::vector<Move> moves = {{.order = {1, 0}}};
  std::vector<Array> of_layers;
  std::vector<Array> kept;
  for (int64_t layer = 0; layer < 2; ++layer) {
    std::vector<Array> experts;
    std::vector<Array> turned;
    for (int64_t e = 0; e < 3; ++e) {
      experts.push_back(numbered({2, 4}, 1000 * layer + 100 * e));
      turned.push_back(moved(experts.back(), moves));
    }
    of_layers.push_back(stacked(experts, 0));
    kept.push_back(stacked(turned, 1));
  }
  const Array stack = stacked(kept, 1);
  CHECK(stack.shape == Shape{4, 2, 3, 2});
  for (int64_t layer = 0; layer < 2; ++layer) {
    const TensorView view{
        "w", {3, 2, 4}, moves, {}, {{1, 3, -1}, {1, 2, layer}}};
    const auto reading = read_view(view, {3, 2, 4});
    REQUIRE(reading.has_value());
    CHECK(read(*reading, stack) == of_layers[static_cast<size_t>(layer)]);
  }
}

TEST_CASE("view: a joined matrix is the rows that it gave") {
  const Array joined = numbered({5, 2}, 0);
  const TensorView view{"kv", {2, 2}, {}, TensorView::Joined{0, 3, 5}, {}};
  const auto reading = read_view(view, {2, 2});
  REQUIRE(reading.has_value());
  CHECK(read(*reading, joined) == Array{{2, 2}, {6, 7, 8, 9}});
  // Where its neighbours end in a smaller model nobody knows.
  CHECK_FALSE(read_view(view, {1, 2}).has_value());
}

TEST_CASE("view: a smaller model has smaller tensors in stacks as long") {
  const TensorView view{"q", {6, 5}, kQueries, {}, {{1, 3, 2}}};
  const auto reading = read_view(view, {4, 3});
  REQUIRE(reading.has_value());
  CHECK(reading->stored == Shape{3, 3, 2, 2});
  CHECK_FALSE(read_view(view, {5, 3}).has_value());  // 2 heads of 2.5
  CHECK_FALSE(read_view(view, {6}).has_value());
  CHECK_FALSE(read_view({"b", {6}, {{.shape = {{-1, 2}, {0, 2}}}}, {}, {}}, {})
                  .has_value());
}

// Every tensor that a shipped scheme keeps whole has a view, whose steps lead
// from what the manifest has to what the checkpoint has.
TEST_CASE("view: those of shipped schemes begin and end with the tensors") {
  for (const char* scheme : {"maxtext", "gguf", "easydel", "transformers-5"}) {
    int64_t seen = 0;
    for (const char* name : {"llama-3.2-1b", "mixtral-8x7b", "qwen3-30b-a3b",
                             "deepseek-v3", "gemma-2-2b", "gemma-3-1b"}) {
      CAPTURE(scheme);
      CAPTURE(name);
      const auto model = testing::synthesize(testing::sample_config(name),
                                             find_name_scheme(scheme));
      // The scheme may not be of this architecture.
      if (!model->manifest) continue;
      const Manifest* const manifest = &*model->manifest;
      REQUIRE(manifest->views != nullptr);
      for (const auto& entry : *manifest->views) {
        const std::string& tensor = entry.first;
        const TensorView& view = entry.second;
        const auto reading = read_view(view, view.shape);
        REQUIRE_MESSAGE(reading.has_value(), tensor);
        size_t at = 0;
        while (at < manifest->any_size() && manifest->any_name(at) != view.of) {
          ++at;
        }
        REQUIRE_MESSAGE(at < manifest->any_size(), view.of);
        CHECK_MESSAGE(reading->stored == manifest->any_type(at).shape, tensor);
        if (++seen % 50 == 0 || count_of(reading->stored) > 100'000) continue;
        const Array last = read(*reading, numbered(reading->stored, 0));
        CHECK_MESSAGE(last.shape == view.shape, tensor);
      }
    }
    CHECK_MESSAGE(seen > 0, scheme);
  }
}

}  // namespace
}  // namespace shardplan
