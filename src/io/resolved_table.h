// SPDX-License-Identifier: Apache-2.0
// The resolved table: a plan as rules, for targets that read rules.
//
// One anchored pattern per parameter; parameters that differ only in numbers
// (whole components of digits) and have equal specs share one, where no other
// parameter of the manifest has such a name. So every pattern is found in the
// names it stands for and in no other, and their order does not matter.
#pragma once

#include <string>
#include <vector>

#include "core/manifest.h"
#include "core/plan.h"
#include "io/export.h"

namespace shardplan {

struct TableEntry {
  std::string pattern;
  PartitionSpec spec;  // of mesh axes
};

struct ResolvedTable {
  std::vector<TableEntry> entries;  // by their first parameter
  // Parameters that no rule is found in are left out: a reader reports them as
  // they are reported here. None where they are meant to be replicated.
  int64_t left_out = 0;
};

ResolvedTable resolved_table(const ExportInput& input);

// Whether a table leaves the parameter out.
bool is_left_out(const ExportInput& input, size_t parameter);

}  // namespace shardplan
