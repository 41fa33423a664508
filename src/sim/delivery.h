// SPDX-License-Identifier: Apache-2.0
// What the devices of a group end with after a collective, as its schedule says
// and not as it should be: the schedule is executed on the names of numbers
// first. Where all ranks are found to end with the same sum of the same terms
// in the same order, or with the same part, it is made once, and they share it
// until one of them writes; else everything is sent step by step
// (sim/transfers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "graph/tensor.h"
#include "spmd/program.h"

namespace shardplan {

// Numbers by name: what a rank began with, or what arrived added to one's own.
struct Term {
  int rank = -1;  // of what a rank began with
  int arriving = 0;
  int own = 0;
};

struct Delivery {
  std::vector<Term> terms;  // by name; 0 is nothing
  // By rank and chunk, what it ends with.
  std::vector<std::vector<int>> ends;
};

// `begins`: which rank begins with which chunk.
Delivery delivery_of(const Schedule& schedule,
                     const std::function<bool(int rank, int chunk)>& begins);

// By chunk, what every rank ends with; empty where ranks differ, or where the
// sum is of more than a term per rank.
std::optional<std::vector<int>> delivered_to_all(const Delivery& delivery);
// By chunk, what rank `owner_of(chunk)` ends with; empty likewise.
std::optional<std::vector<int>> delivered_to(
    const Delivery& delivery, const std::function<int(int chunk)>& owner_of);

// How an arriving number is added to one's own.
using Combine = std::function<void(const Tensor& own, const Tensor& arriving)>;

// Writes the sum that `term` is of one chunk into `target`. `chunks`: what
// every rank began with of it. The target may be one of them. REQUIRES: all of
// one shape.
void add_up(const Delivery& delivery, int term, std::span<const Tensor> chunks,
            const Combine& combine, const Tensor& target, int threads);

// The parts side by side along `dim`: a view where they lie so in one memory,
// as the shards of a weight do; else a copy. REQUIRES: all of one shape.
Tensor joined(std::span<const Tensor> parts, int dim, int threads);

}  // namespace shardplan
