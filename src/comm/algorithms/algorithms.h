// SPDX-License-Identifier: Apache-2.0
// The collective algorithms, as comm/collective.cc lists them. What each kind
// of ranks begins and ends with is said in comm/collective.h.
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
