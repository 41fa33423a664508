// SPDX-License-Identifier: Apache-2.0
// Indices held as numbers of the run's element type.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/tensor.h"

namespace shardplan {

// The index that a number is; -1 where it is no integer in [0, count).
template <typename T>
int64_t index_of(T number, int64_t count) {
  if (!(number >= 0 && number < static_cast<T>(count))) return -1;
  const auto index = static_cast<int64_t>(number);
  return static_cast<T>(index) == number ? index : -1;
}

// Which place of which expert every choice of every token takes.
//
// Every sequence (one index of the dimensions before the last two of `choices`)
// has `capacity` places per expert. Choices take them in order of the token,
// then of the choice, as in Switch Transformer (Fedus et al., 2021); one that
// finds no place is dropped. A number that is no expert takes no place, as
// jax.nn.one_hot gives zeros for it.

struct ExpertPlace {
  int64_t expert = -1;  // -1: the choice is no expert
  int64_t slot = -1;    // of the sequence's places; -1: none was left
};

// Of every choice, in row-major order. REQUIRES: choices [.., length, k].
std::vector<ExpertPlace> places_of(const Tensor& choices, int64_t experts,
                                   int64_t capacity);

// Choices that have no place, for whatever reason.
int64_t count_dropped(const Tensor& choices, int64_t experts, int64_t capacity);

}  // namespace shardplan
