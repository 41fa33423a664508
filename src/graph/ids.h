// SPDX-License-Identifier: Apache-2.0
// Ids of what a graph is made of (base/ids.h), and lists by them.
#pragma once

#include "base/ids.h"

namespace shardplan {

using ValueId = Id<struct Value>;
using NodeId = Id<struct GraphNode>;
template <typename T>
using PerValue = IdVector<ValueId, T>;
template <typename T>
using PerNode = IdVector<NodeId, T>;

}  // namespace shardplan
