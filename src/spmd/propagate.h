// SPDX-License-Identifier: Apache-2.0
// What the declared layouts suggest for values that have none, and which
// values are weights and which dimensions are a batch.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

// Shardings spread along factors, forwards and backwards, to dimensions that
// have none, as long as there is no conflict (GSPMD, Xu et al. 2021, section
// 3.5). `wanted` values keep theirs. One spec per value, of its rank.
std::vector<PartitionSpec> suggest(
    const Graph& graph, const Mesh& mesh,
    const std::vector<std::optional<Layout>>& wanted);

// Parameters, and what is computed from parameters alone.
std::vector<bool> find_weights(const Graph& graph);

// Per value and dimension: labelled BATCH or, of an input that has no labels,
// the first of two or more; and what follows from these through the factors of
// operations. Weights have none.
std::vector<std::vector<bool>> find_batch_dims(
    const Graph& graph, const std::vector<bool>& weights);

}  // namespace shardplan
