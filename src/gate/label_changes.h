// SPDX-License-Identifier: Apache-2.0
// add_label_changes(): how labels changed. Logical axes are compared by the
// axes of their rules, alone and beside other labels of an array; semantic axes
// by PartitionAxis.
#pragma once

#include "gate/rule_changes.h"

namespace shardplan {

// Adds the changes in the order of the rules after the change, then labels that
// are gone, then contests between labels.
void add_label_changes(const RuleComparison& comparison, RuleSetChanges& found);

}  // namespace shardplan
