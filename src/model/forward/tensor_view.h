// SPDX-License-Identifier: Apache-2.0
// Reads a tensor of the checkpoint out of one that another program keeps
// (core/manifest.h, TensorView): the inverse of what a scheme of names did.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph_description.h"
#include "core/manifest.h"

namespace shardplan {

using AttributeValues =
    std::vector<std::pair<std::string, decltype(DescribedAttribute::value)>>;

struct ViewReading {
  struct Step {
    std::string op;  // slice, reshape, transpose: nothing is copied
    AttributeValues attributes;
  };
  Shape stored;  // of what is kept
  std::vector<Step> steps;
};

// `shape` is that of the checkpoint's tensor, which a smaller model has smaller
// (graph/shrink.h); stacks are as long as in the whole one. Empty where the
// moves do not go through with it: a joined tensor of another size, a size that
// does not divide.
std::optional<ViewReading> read_view(const TensorView& view,
                                     const Shape& shape);

}  // namespace shardplan
