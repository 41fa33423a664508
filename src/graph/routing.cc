// SPDX-License-Identifier: Apache-2.0
#include "graph/routing.h"

#include <algorithm>

#include "base/checked.h"

namespace shardplan {
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
