// SPDX-License-Identifier: Apache-2.0
// The collective algorithms that comm/collective.cc lists. comm/collective.h
// says which chunks the ranks of each kind of collective begin and end with.
#pragma once

#include "comm/collective.h"

namespace shardplan {

extern const Algorithm kRing;
extern const Algorithm kRingDown;
extern const Algorithm kBidirectionalRing;
extern const Algorithm kSplitRing;
extern const Algorithm kHalvingDoubling;
extern const Algorithm kBinaryTree;
extern const Algorithm kPairwise;
extern const Algorithm kHierarchical;
extern const Algorithm kDirect;

}  // namespace shardplan
