// SPDX-License-Identifier: Apache-2.0
// What became of labels: logical axes by the axes of their rules, alone and
// beside other labels of an array, and semantic axes by PartitionAxis.
#pragma once

#include "gate/rule_changes.h"

namespace shardplan {

// Adds them in the order of the rules after, then those that are gone; contests
// behind the labels themselves.
void add_label_changes(const RuleComparison& comparison, RuleSetChanges& found);

}  // namespace shardplan
