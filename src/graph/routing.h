// SPDX-License-Identifier: Apache-2.0
// Which place of which expert every choice of every token takes.
//
// Every sequence (one index of the dimensions before the last two of `choices`)
// has `capacity` places per expert. Choices take them in order of the token,
// then of the choice, as in Switch Transformer (Fedus et al., 2021); one that
// finds no place is dropped. A number that is no expert takes no place, as
// jax.nn.one_hot gives zeros for it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/tensor.h"

namespace shardplan {

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
