// SPDX-License-Identifier: Apache-2.0
// Scanned layers: one tensor holds all layers, along its first dimension, or
// its second (MaxText). A loop takes one layer at a time, so layers are not to
// be spread over devices, except over the stages of a pipeline. Rules that were
// written for separate layers land on the wrong dimension here.
#include <optional>

#include "resolve/unit_kinds.h"

namespace shardplan {

std::optional<Unit> layer_unit(const NamedTensor& tensor,
                               const ModelFacts& facts,
                               const LayoutHints& hints) {
  const std::string_view stack = stack_of(tensor.name);
  const auto evidence = hints.stacks.find(stack);
  if (stack.empty() || evidence == hints.stacks.end()) return std::nullopt;
  const auto stacked = stacked_layers(evidence->second, facts.layers);
  if (!stacked || stacked->dim >= tensor.type.shape.size()) return std::nullopt;
  return Unit{static_cast<int>(stacked->dim), UnitKind::Layer, stacked->layers};
}

}  // namespace shardplan
