// SPDX-License-Identifier: Apache-2.0
// ViewReading: how to read a tensor of the checkpoint out of one that another
// program stores (core/manifest.h, TensorView), which inverts a naming scheme.
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
    std::string op;  // slice, reshape or transpose: nothing is copied
    AttributeValues attributes;
  };
  Shape stored;  // shape of the stored tensor
  std::vector<Step> steps;
};

// Returns how to read a tensor of the checkpoint that has this shape. In a
// smaller model (graph/shrink.h) the shape is smaller, but stacks are as long
// as in the full model. Returns nothing if the moves of the view do not fit the
// shape: a joined tensor has another size, or a size is not divisible.
std::optional<ViewReading> read_view(const TensorView& view,
                                     const Shape& shape);

}  // namespace shardplan
