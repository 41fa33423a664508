// SPDX-License-Identifier: Apache-2.0
// The advisor: for each finding the nearest legal changes that remove it.
//
// A fix is proposed only if making it was tried (advise/what_if.h): the finding
// is gone, no error is new, and fewer findings are left. Its bytes are those
// that were measured. Findings are treated in order, errors first, while the
// work stays within a bound that is the same for every model and machine; where
// that ends, or where nothing helps, a finding keeps its general help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "advise/what_if.h"
#include "base/diagnostic.h"

namespace shardplan {

// The findings of the plan: diagnostics from number `first` up to `end`.
struct AdvisedFindings {
  size_t first = 0;
  size_t end = 0;
  // Those that fixes are looked for; all of them where it is empty.
  std::function<bool(const Diagnostic&)> is_asked = {};
  // Where the work ends before the findings do, changes of rules for the rest
  // are tried many at once: for who wants an edit for each, and will see what
  // they do together.
  bool together = false;
};

// Fills `fixes` of the findings, and puts those to try first in place of their
// help. Returns the work that it took (Trial::work).
int64_t advise(const Planned& planned, const AdvisedFindings& which,
               Diagnostics& diags);

}  // namespace shardplan
