// SPDX-License-Identifier: Apache-2.0
// Delivery: what the devices of a group hold after a collective, as its
// schedule delivers it and not as it should be. The schedule is first executed
// on names of numbers. If all ranks end with the same sum of the same terms in
// the same order, or with the same part, it is computed once, and they share it
// until one of them writes. Otherwise everything is sent step by step
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

// A number by name: one that a rank began with, or an arriving number added to
// the receiver's own.
struct Term {
  int rank = -1;  // the rank that began with it; -1: a sum
  int arriving = 0;
  int own = 0;
};

struct Delivery {
  std::vector<Term> terms;  // by name; name 0 is an empty slot
  // The name that each rank ends with, by rank and chunk.
  std::vector<std::vector<int>> ends;
};

// Executes a schedule on names. `begins` returns whether a rank begins with a
// chunk.
Delivery delivery_of(const Schedule& schedule,
                     const std::function<bool(int rank, int chunk)>& begins);

// Returns, by chunk, the name that every rank ends with. Empty if ranks differ,
// if a chunk is missing, or if a sum has more terms than there are ranks.
std::optional<std::vector<int>> delivered_to_all(const Delivery& delivery);
// Returns, by chunk, the name that rank `owner_of(chunk)` ends with. Empty if
// that chunk is missing or its sum has too many terms.
std::optional<std::vector<int>> delivered_to(
    const Delivery& delivery, const std::function<int(int chunk)>& owner_of);

// Adds an arriving number to the receiver's own.
using Combine = std::function<void(const Tensor& own, const Tensor& arriving)>;

// Writes the sum named `term`, for one chunk, to `target`. `chunks` holds what
// every rank began with of that chunk, and the target may be one of them.
// REQUIRES: all have one shape.
void add_up(const Delivery& delivery, int term, std::span<const Tensor> chunks,
            const Combine& combine, const Tensor& target, int threads);

// Returns the parts side by side along `dim`: a view if they are adjacent in
// one memory, as the shards of a weight are, otherwise a copy. REQUIRES: all
// have one shape.
Tensor joined(std::span<const Tensor> parts, int dim, int threads);

}  // namespace shardplan
