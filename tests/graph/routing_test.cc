// SPDX-License-Identifier: Apache-2.0
#include "graph/routing.h"

#include <limits>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

std::vector<int64_t> slots(const std::vector<ExpertPlace>& places) {
  std::vector<int64_t> result;
  for (const ExpertPlace& place : places) result.push_back(place.slot);
  return result;
}

TEST_CASE("routing: places are taken in order of the token, then the choice") {
  const double choices[] = {2, 0, 0, 2, 2, 1};
  const Tensor x = make_tensor(Element::F32, {3, 2}, choices);
  const std::vector<ExpertPlace> places = places_of(x, 3, 3);
  CHECK(slots(places) == std::vector<int64_t>{0, 0, 1, 1, 2, 0});
  for (size_t i = 0; i < places.size(); ++i) {
    CHECK(places[i].expert == static_cast<int64_t>(choices[i]));
  }
  CHECK(count_dropped(x, 3, 3) == 0);
}

TEST_CASE("routing: beyond the capacity, choices are dropped") {
  const double choices[] = {2, 0, 0, 2, 2, 1};
  const Tensor x = make_tensor(Element::F64, {3, 2}, choices);
  CHECK(slots(places_of(x, 3, 1)) == std::vector<int64_t>{0, 0, -1, -1, -1, 0});
  CHECK(count_dropped(x, 3, 1) == 3);
  CHECK(count_dropped(x, 3, 2) == 1);
  CHECK(count_dropped(x, 3, 0) == 6);
}

TEST_CASE("routing: every sequence has places of its own") {
  const double choices[] = {0, 0, 1, 0, 0, 0};
  const Tensor x = make_tensor(Element::F64, {3, 2, 1}, choices);
  CHECK(slots(places_of(x, 2, 2)) == std::vector<int64_t>{0, 1, 0, 0, 0, 1});
  CHECK(count_dropped(x, 2, 1) == 2);
}

TEST_CASE("routing: what is no expert takes no place") {
  const double choices[] = {-1, 2, 0.5,
                            std::numeric_limits<double>::quiet_NaN(), 1};
  const Tensor x = make_tensor(Element::F64, {5, 1}, choices);
  const std::vector<ExpertPlace> places = places_of(x, 2, 5);
  CHECK(slots(places) == std::vector<int64_t>{-1, -1, -1, -1, 0});
  CHECK(places[0].expert == -1);
  CHECK(count_dropped(x, 2, 5) == 4);
}

TEST_CASE("routing: choices need not be row-major, nor be there") {
  const double choices[] = {0, 1, 1, 1};
  const Tensor x = make_tensor(Element::F64, {2, 2}, choices);
  const int order[] = {1, 0};
  CHECK(slots(places_of(permuted(x, order), 2, 4)) ==
        std::vector<int64_t>{0, 0, 1, 2});
  CHECK(places_of(make_tensor(Element::F32, {2, 0, 3}), 2, 4).empty());
}

}  // namespace
}  // namespace shardplan
