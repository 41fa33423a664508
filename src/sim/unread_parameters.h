// SPDX-License-Identifier: Apache-2.0
// SP507: parameters that a forward pass never reads, such as those of layers
// that no pipeline stage was given.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "graph/graph.h"

namespace shardplan {

struct UnreadScope {
  // The graph is meant to be the whole model: everything unread is reported,
  // not only parameters whose like is read.
  bool whole_model = false;
  // Only the first so many layers are run; others are left out on purpose.
  std::optional<int64_t> layers;
};

// Parameters are alike whose names differ in numbers only (core/fold.h). One
// finding, which names them by these numbers. Read is what the outputs or the
// probes are computed from: a layer whose result nobody uses is dropped, too.
void report_unread_parameters(const Graph& graph, const Manifest& manifest,
                              const UnreadScope& scope, Diagnostics& diags);

}  // namespace shardplan
