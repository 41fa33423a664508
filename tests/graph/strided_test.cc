// SPDX-License-Identifier: Apache-2.0
#include "graph/strided.h"

#include <numeric>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/generators.h"

namespace shardplan {
namespace {

Walk joined(const Shape& shape, const Strides& strides) {
  return joined_dims(shape, std::span(&strides, 1));
}

TEST_CASE("dimensions that lie one in the other are joined") {
  CHECK(joined({2, 3, 4}, {12, 4, 1}).sizes == Shape{24});
  CHECK(joined({2, 3, 4}, {24, 4, 1}).sizes == Shape{2, 12});
  CHECK(joined({2, 3, 4}, {12, 1, 3}).sizes == Shape{2, 3, 4});
  CHECK(joined({2, 1, 4}, {4, 99, 1}).sizes == Shape{8});
  CHECK(joined({3, 4}, {0, 0}).sizes == Shape{12});
  CHECK(joined({}, {}).sizes == Shape{1});
  CHECK(joined({3, 0, int64_t{1} << 62}, {1, 1, 1}).sizes == Shape{0});
  // Two tensors: only where both lie so.
  const Strides strides[] = {{4, 1}, {1, 3}};
  CHECK(joined_dims({3, 4}, strides).sizes == Shape{3, 4});
}

TEST_CASE("a group of dimensions has one stride, or none") {
  const Shape shape = {2, 3, 4, 5};
  const Strides strides = {60, 20, 1, 4};
  CHECK(joined_stride(shape, strides, 0, 2) == 20);
  CHECK(joined_stride(shape, strides, 2, 3) == 1);
  CHECK(joined_stride(shape, strides, 2, 4) == std::nullopt);
  CHECK(joined_stride(shape, strides, 1, 1) == 0);
}

TEST_CASE("rows visit every element once, in row-major order") {
  CHECK(rc::check([] {
    const Shape shape = *testing::gen::shape();
    // One tensor is row-major; of the other every stride is its dimension's.
    std::array<Strides, 2> strides;
    int64_t elements = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      strides[0].insert(strides[0].begin(), elements);
      strides[1].insert(strides[1].begin(), *rc::gen::inRange<int64_t>(0, 9));
      elements *= shape[i];
    }
    int64_t next = 0;
    for_each_row<2>(shape, strides,
                    [&](int64_t count, const std::array<int64_t, 2>& offsets,
                        const std::array<int64_t, 2>& steps) {
                      for (int64_t i = 0; i < count; ++i, ++next) {
                        RC_ASSERT(offsets[0] + i * steps[0] == next);
                        int64_t other = 0;
                        int64_t rest = next;
                        for (size_t d = shape.size(); d-- > 0;) {
                          other += rest % shape[d] * strides[1][d];
                          rest /= shape[d];
                        }
                        RC_ASSERT(offsets[1] + i * steps[1] == other);
                      }
                    });
    RC_ASSERT(next == elements);
  }));
}

TEST_CASE("rows on several threads are the same elements, each once") {
  struct Case {
    Shape shape;
    Strides strides;
  };
  // One row; rows of a transposed tensor; few large rows.
  for (const Case& c : {Case{{400, 300}, {300, 1}}, Case{{400, 300}, {1, 400}},
                        Case{{3, 2, 20'000}, {40'000, 20'000, 1}}}) {
    const int64_t elements = *element_count(c.shape);
    Strides plain(c.shape.size(), 1);
    for (size_t d = c.shape.size() - 1; d-- > 0;) {
      plain[d] = plain[d + 1] * c.shape[d + 1];
    }
    std::vector<int64_t> found(static_cast<size_t>(elements), -1);
    for_each_row<2>(
        c.shape, {plain, c.strides}, 4, 1,
        [&](int64_t count, const std::array<int64_t, 2>& offsets,
            const std::array<int64_t, 2>& steps) {
          for (int64_t i = 0; i < count; ++i) {
            auto& place = found[static_cast<size_t>(offsets[0] + i * steps[0])];
            place = place == -1 ? offsets[1] + i * steps[1] : -2;
          }
        });
    std::vector<int64_t> expected(static_cast<size_t>(elements));
    for_each_row<2>(
        c.shape, {plain, c.strides},
        [&](int64_t count, const std::array<int64_t, 2>& offsets,
            const std::array<int64_t, 2>& steps) {
          for (int64_t i = 0; i < count; ++i) {
            expected[static_cast<size_t>(offsets[0] + i * steps[0])] =
                offsets[1] + i * steps[1];
          }
        });
    CHECK(found == expected);
  }
}

}  // namespace
}  // namespace shardplan
